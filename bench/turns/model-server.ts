/**
 * The model that every candidate talks to: OpenAI chat completions, streamed, no think time, answers made once. A
 * request whose newest message is a tool result gets the final text, any other a call of the first tool. A process of
 * its own; prints one line of JSON with its address.
 */
import { createServer } from "node:http";

export const FINAL_TEXT = "Your battery is at 71 percent and healthy, so there is nothing to worry about today.";

/** Valid for the tool of every candidate: `read_battery` takes a device, `device_action` an action. */
const ARGUMENTS: Readonly<Record<string, string>> = {
  read_battery: JSON.stringify({ device_id: "phone-7" }),
  device_action: JSON.stringify({ action: "read_battery" }),
};
const PIECE_LENGTH = 6;
/** Stands for a number that differs with every answer: libraries merge messages that share an id. */
const SERIAL = "@@SERIAL@@";

const base = { id: `chatcmpl-${SERIAL}`, object: "chat.completion.chunk", created: 1_700_000_000, model: "bench" };
const usage = { prompt_tokens: 60, completion_tokens: 20, total_tokens: 80 };
const frame = (value: object): string => `data: ${JSON.stringify(value)}\n\n`;
const choice = (delta: object, finishReason: string | null = null): string =>
  frame({ ...base, choices: [{ index: 0, delta, finish_reason: finishReason }] });
const end = `${frame({ ...base, choices: [], usage })}data: [DONE]\n\n`;

function toolAnswer(name: string): string {
  const text = ARGUMENTS[name] ?? "{}";
  const pieces = Array.from({ length: Math.ceil(text.length / PIECE_LENGTH) }, (_, each) =>
    text.slice(each * PIECE_LENGTH, (each + 1) * PIECE_LENGTH),
  );
  const call = { index: 0, id: `call_${SERIAL}`, type: "function", function: { name, arguments: "" } };
  return [
    choice({ role: "assistant", content: null }),
    choice({ tool_calls: [call] }),
    ...pieces.map((piece) => choice({ tool_calls: [{ index: 0, function: { arguments: piece } }] })),
    choice({}, "tool_calls"),
    end,
  ].join("");
}

const textAnswer = [
  choice({ role: "assistant", content: "" }),
  ...(FINAL_TEXT.match(/\s*\S+/g) ?? []).map((word) => choice({ content: word })),
  choice({}, "stop"),
  end,
].join("");

interface Body {
  readonly messages: readonly { readonly role: string }[];
  readonly tools?: readonly { readonly function: { readonly name: string } }[];
}

function serve(): void {
  const toolAnswers = new Map<string, string>();
  let serial = 0;

  const answerTo = (body: Body): string => {
    const tool = body.tools?.[0]?.function.name;
    if (tool === undefined || body.messages.at(-1)?.role === "tool") return textAnswer;
    const known = toolAnswers.get(tool) ?? toolAnswer(tool);
    toolAnswers.set(tool, known);
    return known;
  };

  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      serial += 1;
      const answer = answerTo(JSON.parse(Buffer.concat(chunks).toString("utf8")));
      response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
      response.end(answer.replaceAll(SERIAL, `${serial}`.padStart(8, "0")));
    });
  });
  server.keepAliveTimeout = 60_000;
  server.listen({ port: 0, host: "127.0.0.1", backlog: 4096 }, () => {
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("no TCP address");
    console.log(JSON.stringify({ url: `http://127.0.0.1:${address.port}/v1` }));
  });
}

if (import.meta.main) serve();
