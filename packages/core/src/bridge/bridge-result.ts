/** Results of calls that a client executes over the session's stream: as they are stored, and as the model reads them. */
import * as z from "zod";
import type { CallRecord } from "../storage/contract.ts";
import type { ToolResult } from "../tools/contract.ts";

export interface BridgeError {
  readonly code: string;
  readonly message: string;
}

/** What the record of a settled call holds. */
export type BridgeResult =
  | { readonly status: "ok"; readonly result: unknown; readonly uploads?: readonly string[] | undefined }
  | { readonly status: "error"; readonly error: BridgeError };

/** Characters of one result that the model reads. */
export const MAX_RESULT_CHARACTERS = 30_000;

const bridgeResultSchema = z.union([
  z.object({ status: z.literal("ok"), result: z.unknown(), uploads: z.array(z.string()).optional() }),
  z.object({ status: z.literal("error"), error: z.object({ code: z.string(), message: z.string() }) }),
]);

const MAY_HAVE_HAPPENED = "It may have happened: check before repeating it.";

/** Ends of a call without an answer of the client. */
export const BRIDGE_ERRORS = {
  noExecutor: {
    code: "device_unavailable",
    message:
      "No client that can run this tool is attached to the conversation, so nothing happened. Say that the device is not connected.",
  },
  executorLeft: {
    code: "device_unavailable",
    message: `The client left before it answered. ${MAY_HAVE_HAPPENED}`,
  },
  timeout: {
    code: "device_timeout",
    message: `The client did not answer in time. ${MAY_HAVE_HAPPENED}`,
  },
  cancelled: {
    code: "cancelled",
    message: `The run was cancelled before the client answered. ${MAY_HAVE_HAPPENED}`,
  },
  tooMany: {
    code: "too_many_device_calls",
    message: "Too many calls of this conversation wait for the client, so nothing happened. Wait for one of them.",
  },
  ended: {
    code: "device_tool_unavailable",
    message: "The conversation has ended, so nothing happened.",
  },
  internal: {
    code: "device_tool_internal",
    message: `The mesh lost track of this call. ${MAY_HAVE_HAPPENED}`,
  },
} as const satisfies Record<string, BridgeError>;

/** A failed step, as the model reads it. */
export function failedStep({ code, message }: BridgeError, callId?: string): ToolResult {
  return { success: false, content: cutResult(`${code}: ${message}`), callId };
}

/** What the model reads of a settled call. */
export function bridgeToolResult(call: Pick<CallRecord, "id" | "result">): ToolResult {
  const parsed = bridgeResultSchema.safeParse(call.result);
  if (!parsed.success) return failedStep(BRIDGE_ERRORS.internal, call.id);
  if (parsed.data.status === "error") return failedStep(parsed.data.error, call.id);
  const { status, result, uploads } = parsed.data;
  return {
    success: true,
    content: cutResult(JSON.stringify({ status, result: result ?? null })),
    uploads,
    callId: call.id,
  };
}

/** Cut so that it says so, and never inside a surrogate pair. */
function cutResult(text: string): string {
  if (text.length <= MAX_RESULT_CHARACTERS) return text;
  const note = `\n[Cut: the result has ${text.length} characters.]`;
  const kept = text.slice(0, MAX_RESULT_CHARACTERS - note.length);
  return `${kept.isWellFormed() ? kept : kept.slice(0, -1)}${note}`;
}
