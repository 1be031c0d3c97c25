import OpenAI from "openai";
import { addChunk, createLoop, toolDefinition } from "../task.mjs";

/** The bare loop over the official client: what most people write by hand. */
export function create({ baseURL }) {
  const client = new OpenAI({ apiKey: "k", baseURL, maxRetries: 0 });
  return createLoop(async (messages) => {
    const stream = await client.chat.completions.create({
      model: "bench",
      messages,
      tools: [toolDefinition],
      stream: true,
      stream_options: { include_usage: true },
    });
    const answer = { content: "", calls: [] };
    for await (const chunk of stream) addChunk(answer, chunk);
    return answer;
  });
}
