import { Agent, request } from "undici";
import { addChunk, createLoop, toolDefinition } from "../task.mjs";

/** The same loop on a bare HTTP client, with the shortest reader that works: the floor. */
export function create({ baseURL }) {
  const dispatcher = new Agent({ keepAliveTimeout: 60_000 });
  return createLoop(async (messages) => {
    const { body } = await request(`${baseURL}/chat/completions`, {
      dispatcher,
      method: "POST",
      headers: { "content-type": "application/json", authorization: "Bearer k" },
      body: JSON.stringify({
        model: "bench",
        messages,
        tools: [toolDefinition],
        stream: true,
        stream_options: { include_usage: true },
      }),
    });
    const answer = { content: "", calls: [] };
    let rest = "";
    body.setEncoding("utf8");
    for await (const text of body) {
      const lines = (rest + text).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        if (line.startsWith("data: {")) addChunk(answer, JSON.parse(line.slice("data: ".length)));
      }
    }
    return answer;
  });
}
