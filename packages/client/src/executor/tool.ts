/** Tools that this program executes for an agent. */
import type * as z from "zod";

export type JsonValue = z.core.util.JSONType;

/** One call, as its tool sees it. */
export interface ToolCall {
  /** Unique for ever within the mesh. */
  readonly key: string;
  readonly tool: string;
  /** As the model gave them: check them. What `parameters` says is not enforced here. */
  readonly args: Readonly<Record<string, unknown>>;
  /** Where it came from: a tool that this program declared on a conversation, or one that a run is suspended for. */
  readonly origin:
    | { readonly face: "session"; readonly sessionId: string; readonly callId: string }
    | { readonly face: "run"; readonly runId: string; readonly toolCallId: string };
}

export interface ToolContext {
  readonly call: ToolCall;
  /**
   * Aborted when the answer is not wanted any more; `reason` is a {@link CallStopped}. Stop what can be stopped, and return
   * or throw soon: a tool that does not is given up on.
   */
  readonly signal: AbortSignal;
}

export interface ClientTool {
  /** What the model reads about the tool. */
  readonly description: string;
  /** JSON Schema of the arguments, an object. */
  readonly parameters: Readonly<Record<string, JsonValue>>;
  /**
   * Does it. What it returns (anything that JSON can say, or an {@link image}) is the tool's result; what it throws is a
   * failed step that the model reads: a {@link ToolError} with its code, anything else as `handler_error`.
   */
  run(args: Readonly<Record<string, unknown>>, context: ToolContext): unknown;
}

/** A failure that the model should read in these words. */
export class ToolError extends Error {
  override readonly name = "ToolError";
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** Why an answer is not wanted any more. */
export type StopCause = "expired" | "settled" | "closed";

/** `reason` of the signal that a tool gets. */
export class CallStopped extends Error {
  override readonly name = "CallStopped";
  readonly stopCause: StopCause;

  constructor(stopCause: StopCause) {
    super(
      {
        expired: "The time for the answer is over",
        settled: "The call was answered, or ended, elsewhere",
        closed: "The executor was closed",
      }[stopCause],
    );
    this.stopCause = stopCause;
  }
}

const MEDIA_TYPES = ["image/jpeg", "image/png", "image/webp", "image/gif"] as const;
export type ImageMediaType = (typeof MEDIA_TYPES)[number];
/** What the mesh takes. */
const MAX_IMAGE_BYTES = 5 * 1024 * 1024;

/** A result that the model sees as an image, with facts beside it. Made by {@link image}. */
export class ToolImage {
  readonly mediaType: ImageMediaType;
  readonly base64: string;
  readonly facts: Readonly<Record<string, JsonValue>>;

  constructor(mediaType: ImageMediaType, base64: string, facts: Readonly<Record<string, JsonValue>>) {
    this.mediaType = mediaType;
    this.base64 = base64;
    this.facts = facts;
  }
}

/**
 * An image as a tool's result. Scale and compress it first: it costs the model in proportion to its size. `facts` reach the
 * model as text beside it. Only for tools that were declared on a conversation; results of runs are text.
 * Throws a {@link ToolError} when it is larger than 5 MiB.
 */
export function image(
  bytes: Uint8Array,
  mediaType: ImageMediaType,
  facts: Readonly<Record<string, JsonValue>> = {},
): ToolImage {
  if (bytes.byteLength > MAX_IMAGE_BYTES) {
    throw new ToolError(
      "image_too_large",
      `The image has ${bytes.byteLength} bytes; at most ${MAX_IMAGE_BYTES} are taken`,
    );
  }
  return new ToolImage(mediaType, toBase64(bytes), facts);
}

function toBase64(bytes: Uint8Array): string {
  const parts: string[] = [];
  for (let start = 0; start < bytes.length; start += 0x8000) {
    parts.push(String.fromCharCode(...bytes.subarray(start, start + 0x8000)));
  }
  return btoa(parts.join(""));
}
