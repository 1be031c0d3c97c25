/** How an answer looks on the wire, streamed and whole. */

export interface ServerToolCall {
  /** Left out: `call_` and a number that is unique in this server. */
  readonly id?: string | undefined;
  readonly name: string;
  /** An object is written as JSON; a string goes out as it is. */
  readonly arguments: string | Readonly<Record<string, unknown>>;
}

/** What the server's model says to one request. */
export interface ServerAnswer {
  readonly content?: string | undefined;
  readonly toolCalls?: readonly ServerToolCall[] | undefined;
  /** Left out: `tool_calls` when there are calls, else `stop`. */
  readonly finishReason?: string | undefined;
  readonly usage?: { readonly prompt_tokens: number; readonly completion_tokens: number } | undefined;
}

export interface FrameOptions {
  readonly model: string;
  /** Makes ids unique: libraries merge messages that share one. */
  readonly serial: number;
  readonly includeUsage: boolean;
}

const ARGUMENT_PIECE_LENGTH = 6;
const CREATED = 1_700_000_000;
const DEFAULT_USAGE = { prompt_tokens: 60, completion_tokens: 20 };

/** The events of a streamed answer, each with its blank line; the last is `[DONE]`. */
export function toFrames(answer: ServerAnswer, options: FrameOptions): readonly string[] {
  const base = {
    id: `chatcmpl-${options.serial}`,
    object: "chat.completion.chunk",
    created: CREATED,
    model: options.model,
  };
  const usageField = options.includeUsage ? { usage: null } : {};
  const choice = (delta: object, finishReason: string | null = null): string =>
    frame({ ...base, choices: [{ index: 0, delta, logprobs: null, finish_reason: finishReason }], ...usageField });

  const frames = [choice({ role: "assistant", content: answer.content === undefined ? null : "" })];
  for (const word of answer.content?.match(/\s*\S+|\s+$/g) ?? []) frames.push(choice({ content: word }));
  for (const [index, call] of wireCalls(answer, options).entries()) {
    frames.push(choice({ tool_calls: [{ index, ...call, function: { ...call.function, arguments: "" } }] }));
    for (const piece of pieces(call.function.arguments)) {
      frames.push(choice({ tool_calls: [{ index, function: { arguments: piece } }] }));
    }
  }
  frames.push(choice({}, finishReasonOf(answer)));
  if (options.includeUsage) frames.push(frame({ ...base, choices: [], usage: usageOf(answer) }));
  frames.push("data: [DONE]\n\n");
  return frames;
}

/** The answer as one JSON body. */
export function toWhole(answer: ServerAnswer, options: FrameOptions): string {
  const calls = wireCalls(answer, options);
  return JSON.stringify({
    id: `chatcmpl-${options.serial}`,
    object: "chat.completion",
    created: CREATED,
    model: options.model,
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: answer.content ?? null,
          refusal: null,
          ...(calls.length > 0 ? { tool_calls: calls } : {}),
        },
        logprobs: null,
        finish_reason: finishReasonOf(answer),
      },
    ],
    usage: usageOf(answer),
  });
}

interface WireCall {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: string };
}

function wireCalls(answer: ServerAnswer, options: FrameOptions): readonly WireCall[] {
  return (answer.toolCalls ?? []).map((call, index) => ({
    id: call.id ?? `call_${options.serial}_${index}`,
    type: "function",
    function: {
      name: call.name,
      arguments: typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments),
    },
  }));
}

function finishReasonOf(answer: ServerAnswer): string {
  return answer.finishReason ?? ((answer.toolCalls?.length ?? 0) > 0 ? "tool_calls" : "stop");
}

function usageOf(answer: ServerAnswer) {
  const usage = answer.usage ?? DEFAULT_USAGE;
  return { ...usage, total_tokens: usage.prompt_tokens + usage.completion_tokens };
}

function pieces(text: string): readonly string[] {
  const found: string[] = [];
  for (let start = 0; start < text.length; start += ARGUMENT_PIECE_LENGTH) {
    found.push(text.slice(start, start + ARGUMENT_PIECE_LENGTH));
  }
  return found;
}

function frame(value: object): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}
