/** What a model is to an agent: one streamed answer to a list of messages. */
import type { ToolDefinition } from "../tools/contract.ts";

export interface TextPart {
  readonly type: "text";
  readonly text: string;
}

/** An image by value. Never stored: the history holds a reference and the engine fills it in for the newest ones. */
export interface ImagePart {
  readonly type: "image";
  readonly mediaType: "image/jpeg" | "image/png" | "image/webp" | "image/gif";
  readonly base64: string;
}

export interface ModelToolCall {
  readonly id: string;
  readonly name: string;
  /** As the model wrote it: JSON, if the model behaved. */
  readonly arguments: string;
}

export type ChatMessage =
  | { readonly role: "system"; readonly content: string }
  | { readonly role: "user"; readonly content: string | readonly (TextPart | ImagePart)[] }
  | { readonly role: "assistant"; readonly content: string | null; readonly toolCalls?: readonly ModelToolCall[] }
  | { readonly role: "tool"; readonly toolCallId: string; readonly content: string };

export interface ModelRequest {
  readonly model: string;
  readonly messages: readonly ChatMessage[];
  readonly tools: readonly ToolDefinition[];
  readonly toolChoice: "auto" | "required" | "none";
  readonly parallelToolCalls: boolean;
  readonly temperature?: number | undefined;
  readonly maxTokens?: number | undefined;
}

export interface ModelAnswer {
  readonly content: string | null;
  readonly toolCalls: readonly ModelToolCall[];
  readonly finishReason: "stop" | "tool_calls" | "length" | "content_filter" | "other";
  readonly usage?: { readonly inputTokens: number; readonly outputTokens: number } | undefined;
}

export interface Model {
  /**
   * One call, no retries. `onText` gets the text as it comes; an answer that ends early throws and what `onText` got
   * is void. Throws {@link ModelError}; anything else is a bug.
   */
  answer(
    request: ModelRequest,
    options: { signal: AbortSignal; onText?: (text: string) => void },
  ): Promise<ModelAnswer>;
  close(): Promise<void>;
}

/** The models of one mesh, each opened on first use. */
export interface Models {
  /** `endpoint` is the name of a `models:` entry. Rejects with a {@link ModelError} when it cannot be used at all. */
  model(endpoint: string): Promise<Model>;
  close(): Promise<void>;
}

export type ModelErrorKind =
  /** Network, 408, 409, 429, 5xx, a stream that was cut: trying again may help. */
  | "transient"
  | "bad_credential"
  /** 400, 404, 422: the same request will fail again. */
  | "bad_request"
  /** The answer is not what the protocol says. */
  | "bad_answer"
  /** The script had no step for this call. */
  | "unscripted"
  | "aborted";

/** `message` is for the operator: it names the endpoint and the cure and never holds a key. */
export class ModelError extends Error {
  override readonly name = "ModelError";
  readonly kind: ModelErrorKind;
  readonly status: number | undefined;
  readonly retryAfterMs: number | undefined;

  constructor(
    kind: ModelErrorKind,
    message: string,
    more: { status?: number | undefined; retryAfterMs?: number | undefined; cause?: unknown } = {},
  ) {
    super(message, { cause: more.cause });
    this.kind = kind;
    this.status = more.status;
    this.retryAfterMs = more.retryAfterMs;
  }
}
