/**
 * Puts the pieces of a chat completion together, trusting none of them: servers leave ids and indexes out, send names
 * in pieces or again and again, and a hostile one sends anything.
 * https://developers.openai.com/api/reference/resources/chat/subresources/completions/streaming-events
 */
import type { ChatCompletion, ChatCompletionChunk } from "openai/resources/chat/completions";
import type { ModelAnswer, ModelToolCall } from "./contract.ts";
import { isRecord, type JsonRecord } from "./json.ts";

export interface AnswerLimits {
  /** Text, tool names and arguments together, in UTF-8 bytes. */
  readonly maxAnswerBytes: number;
  readonly maxToolCalls: number;
}

export const DEFAULT_ANSWER_LIMITS: AnswerLimits = { maxAnswerBytes: 8 * 1024 * 1024, maxToolCalls: 128 };

/** The answer breaks the protocol or a limit. The message completes "the answer …". */
export class AnswerRefused extends Error {
  override readonly name = "AnswerRefused";
}

export interface AnswerAssembly {
  /**
   * Takes a chunk, or a whole completion, parsed and otherwise unchecked. Returns the text it adds.
   * Throws {@link AnswerRefused}.
   */
  add(chunk: unknown): string;
  /** Whether the server has said why it stopped. */
  readonly finished: boolean;
  /** The answer so far, as the final one. Throws {@link AnswerRefused}. */
  finish(): ModelAnswer;
}

type WireFinishReason = NonNullable<
  ChatCompletionChunk.Choice["finish_reason"] | ChatCompletion.Choice["finish_reason"]
>;

const FINISH_REASONS: ReadonlyMap<string, ModelAnswer["finishReason"]> = new Map(
  Object.entries({
    stop: "stop",
    length: "length",
    tool_calls: "tool_calls",
    content_filter: "content_filter",
    function_call: "other",
  } satisfies Record<WireFinishReason, ModelAnswer["finishReason"]>),
);

const MAX_ID_LENGTH = 256;
const MAX_NAME_LENGTH = 256;

/** A tool call whose pieces are still coming. */
interface OpenCall {
  readonly index: number;
  id: string | undefined;
  name: string;
  arguments: string;
}

export function createAnswerAssembly(limits: AnswerLimits = DEFAULT_ANSWER_LIMITS): AnswerAssembly {
  let content = "";
  let usage: ModelAnswer["usage"];
  let finishReason: ModelAnswer["finishReason"] | undefined;
  let sawChoice = false;
  let bytes = 0;
  /** In order of appearance. Never indexed by what the server says. */
  const calls: OpenCall[] = [];
  const newestAtIndex = new Map<number, OpenCall>();

  const count = (text: string): string => {
    bytes += Buffer.byteLength(text);
    if (bytes > limits.maxAnswerBytes) throw new AnswerRefused(`is larger than ${limits.maxAnswerBytes} bytes`);
    return text;
  };

  const open = (index: number): OpenCall => {
    if (calls.length >= limits.maxToolCalls) throw tooManyCalls(limits);
    const call: OpenCall = { index, id: undefined, name: "", arguments: "" };
    calls.push(call);
    newestAtIndex.set(index, call);
    return call;
  };

  /** The call that a piece belongs to. */
  const callFor = (piece: JsonRecord, place: number | undefined): OpenCall => {
    const id = readId(piece.id);
    const index = readIndex(piece.index, limits) ?? place;
    if (index === undefined) {
      const newest = calls.at(-1);
      const same = newest && (id === undefined || id === newest.id) ? newest : calls.find((call) => call.id === id);
      return same ?? open(calls.length);
    }
    const known = newestAtIndex.get(index);
    if (!known) return open(index);
    // Some servers number every call 0: another id that brings a name of its own starts another call.
    const startsAnother =
      id !== undefined && known.id !== undefined && id !== known.id && readName(piece) !== undefined;
    return startsAnother ? open(index) : known;
  };

  const addToolCalls = (pieces: unknown, isWhole: boolean): void => {
    if (pieces === undefined || pieces === null) return;
    if (!Array.isArray(pieces)) throw new AnswerRefused("holds tool_calls that are no list");
    if (pieces.length > limits.maxToolCalls) throw tooManyCalls(limits);
    for (const [place, piece] of pieces.entries()) {
      if (!isRecord(piece)) throw new AnswerRefused("holds a tool call that is no object");
      const call = callFor(piece, isWhole ? place : undefined);
      call.id ??= readId(piece.id);
      const name = readName(piece);
      // A name comes in one piece, in several, or whole with every piece.
      if (name !== undefined && name !== call.name) call.name += count(name);
      if (call.name.length > MAX_NAME_LENGTH) throw new AnswerRefused("holds a tool name that is too long");
      const argumentPiece = isRecord(piece.function) ? readArguments(piece.function.arguments) : "";
      if (argumentPiece !== "") call.arguments += count(argumentPiece);
    }
  };

  return {
    add(chunk) {
      if (!isRecord(chunk)) throw new AnswerRefused("holds a chunk that is no object");
      usage = readUsage(chunk.usage) ?? usage;
      if (chunk.choices === undefined || chunk.choices === null) return "";
      if (!Array.isArray(chunk.choices)) throw new AnswerRefused("holds choices that are no list");
      let added = "";
      for (const choice of chunk.choices) {
        if (!isRecord(choice) || (choice.index ?? 0) !== 0) continue;
        sawChoice = true;
        const isWhole = isRecord(choice.message);
        const delta = isRecord(choice.delta) ? choice.delta : isRecord(choice.message) ? choice.message : {};
        added += count(readText(delta.content) + readText(delta.refusal));
        addToolCalls(delta.tool_calls, isWhole);
        if (typeof choice.finish_reason === "string" && choice.finish_reason !== "")
          finishReason = FINISH_REASONS.get(choice.finish_reason) ?? "other";
      }
      content += added;
      return added;
    },
    get finished() {
      return finishReason !== undefined;
    },
    finish() {
      if (!sawChoice) throw new AnswerRefused("holds no choices");
      const toolCalls = closeCalls(calls);
      return {
        content: content === "" ? null : content,
        toolCalls,
        finishReason: finishReasonOf(finishReason, toolCalls.length > 0),
        usage,
      };
    },
  };
}

/** Servers that call tools and say `stop` mean `tool_calls`; one that ended with `[DONE]` alone means what it sent. */
function finishReasonOf(said: ModelAnswer["finishReason"] | undefined, hasCalls: boolean): ModelAnswer["finishReason"] {
  if (said === undefined || said === "stop") return hasCalls ? "tool_calls" : "stop";
  return said === "tool_calls" && !hasCalls ? "stop" : said;
}

/** In index order, each with an id that no other call of the answer has. */
function closeCalls(open: readonly OpenCall[]): readonly ModelToolCall[] {
  const taken = new Set<string>();
  const given = new Set(open.map((call) => call.id));
  let minted = 0;
  const freshId = (): string => {
    let id: string;
    do id = `call_${minted++}`;
    while (given.has(id));
    return id;
  };
  return [...open]
    .sort((left, right) => left.index - right.index)
    .map((call) => {
      if (call.name === "") throw new AnswerRefused("holds a tool call without a name");
      const id = call.id === undefined || taken.has(call.id) ? freshId() : call.id;
      taken.add(id);
      return { id, name: call.name, arguments: call.arguments === "" ? "{}" : call.arguments };
    });
}

function readIndex(value: unknown, limits: AnswerLimits): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === "number" && Number.isInteger(value) && value >= 0 && value < limits.maxToolCalls) return value;
  throw new AnswerRefused(`holds a tool call with the index ${typeof value === "number" ? value : typeof value}`);
}

function readId(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" && value.length <= MAX_ID_LENGTH ? value : undefined;
}

function readName(piece: JsonRecord): string | undefined {
  const name = isRecord(piece.function) ? piece.function.name : undefined;
  return typeof name === "string" && name !== "" ? name : undefined;
}

/** A string, or the object that it should have been written from. */
function readArguments(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "string") return value;
  if (!isRecord(value)) throw new AnswerRefused("holds tool arguments that are neither text nor an object");
  try {
    return JSON.stringify(value);
  } catch (cause) {
    throw new AnswerRefused("holds tool arguments that are nested too deeply", { cause });
  }
}

/** A string, or text parts as some servers send them. */
function readText(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "string") return value;
  if (!Array.isArray(value)) throw new AnswerRefused("holds content that is neither text nor a list of parts");
  let text = "";
  for (const part of value) if (isRecord(part) && typeof part.text === "string") text += part.text;
  return text;
}

function readUsage(value: unknown): ModelAnswer["usage"] {
  if (!isRecord(value)) return undefined;
  const inputTokens = readCount(value.prompt_tokens);
  const outputTokens = readCount(value.completion_tokens);
  return inputTokens === undefined || outputTokens === undefined ? undefined : { inputTokens, outputTokens };
}

function readCount(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

function tooManyCalls(limits: AnswerLimits): AnswerRefused {
  return new AnswerRefused(`holds more than ${limits.maxToolCalls} tool calls`);
}
