/** What a call came to, and how each face says it. Pure. */
import { MAX_TOOL_RESULT_CHARACTERS, utf8Length } from "@leafmesh/protocol";
import type { DeviceToolAnswer } from "../session.ts";
import { type JsonValue, ToolError, ToolImage } from "./tool.ts";

/** Kept in the ledger until the mesh has it, so it is the same however often it is sent. */
export type Answer =
  | {
      readonly status: "ok";
      readonly result: JsonValue;
      readonly image?: { readonly mediaType: string; readonly base64: string } | undefined;
    }
  | { readonly status: "error"; readonly code: string; readonly message: string };

/** What the mesh takes of one result, without its image, as JSON in UTF-8. */
const MAX_RESULT_BYTES = 1024 * 1024;

export function failed(code: string, message: string): Answer {
  return { status: "error", code, message };
}

/** The answer of a tool that returned `value`. */
export function answerOf(value: unknown): Answer {
  if (value instanceof ToolImage) {
    const { mediaType, base64, facts } = value;
    return sized({ status: "ok", result: { ...facts }, image: { mediaType, base64 } });
  }
  let text: string | undefined;
  try {
    text = JSON.stringify(value ?? null);
  } catch (cause) {
    return failed("bad_result", `It was done, but its result is not JSON: ${textOf(cause)}`);
  }
  if (text === undefined) return failed("bad_result", "It was done, but its result is not JSON");
  return sized({ status: "ok", result: JSON.parse(text) });
}

/** The answer of a tool that threw. */
export function answerOfThrown(thrown: unknown): Answer {
  if (thrown instanceof ToolError) return failed(thrown.code, thrown.message);
  return failed("handler_error", textOf(thrown));
}

function sized(answer: Extract<Answer, { status: "ok" }>): Answer {
  const bytes = utf8Length(JSON.stringify(answer.result));
  if (bytes <= MAX_RESULT_BYTES) return answer;
  return failed(
    "result_too_large",
    `It was done, but its result has ${bytes} bytes; at most ${MAX_RESULT_BYTES} are taken`,
  );
}

/** For a tool that was declared on a conversation. An image goes into the result, from where the mesh lifts it. */
export function toDeviceToolAnswer(answer: Answer, callToken: string): DeviceToolAnswer {
  const call_token = callToken;
  if (answer.status === "error") {
    return { call_token, status: "error", error: { code: answer.code, message: answer.message } };
  }
  if (!answer.image) return { call_token, status: "ok", result: answer.result };
  const facts = typeof answer.result === "object" && answer.result !== null ? answer.result : {};
  const { base64: image_base64, mediaType: image_media_type } = answer.image;
  return { call_token, status: "ok", result: { ...facts, image_base64, image_media_type } };
}

/** For a call that a run waits for: text, since nothing else is taken there. */
export function toToolResult(answer: Answer, toolCallId: string) {
  const text = textFor(answer);
  return { tool_call_id: toolCallId, content: text.content, is_error: text.isError };
}

function textFor(answer: Answer): { readonly content: string; readonly isError: boolean } {
  if (answer.status === "error") return error(answer.code, answer.message);
  if (answer.image)
    return error("image_not_taken", "It was done, but the results of a run's tools are text, not images");
  if (answer.result === null) return { content: "done", isError: false };
  const content = typeof answer.result === "string" ? answer.result : JSON.stringify(answer.result);
  if (content.length <= MAX_TOOL_RESULT_CHARACTERS) return { content, isError: false };
  return error(
    "result_too_large",
    `It was done, but its result has ${content.length} characters; at most ${MAX_TOOL_RESULT_CHARACTERS} are taken`,
  );
}

function error(code: string, message: string) {
  return { content: `error: ${code}: ${message}`.slice(0, MAX_TOOL_RESULT_CHARACTERS), isError: true };
}

function textOf(cause: unknown): string {
  const text = cause instanceof Error ? cause.message : String(cause);
  return text.trim() === "" ? "no reason given" : text;
}
