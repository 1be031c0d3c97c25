import type { ErrorBody } from "@leafmesh/protocol";

/** An answer that is not a success. `message` says what was wrong and what to do; it never holds a token or a key. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;
  readonly code: string;
  readonly details: ErrorBody["error"]["details"];
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    code: string,
    message: string,
    more: { details?: ErrorBody["error"]["details"]; headers?: Readonly<Record<string, string>>; cause?: unknown } = {},
  ) {
    super(message, { cause: more.cause });
    this.status = status;
    this.code = code;
    this.details = more.details;
    this.headers = more.headers ?? {};
  }

  toBody(): ErrorBody & Readonly<Record<string, unknown>> {
    return {
      error: {
        code: this.code,
        message: this.message,
        ...(this.details === undefined ? {} : { details: this.details }),
      },
    };
  }
}

/** A refusal of the device tool bridge: its clients read `message` at the top, ours read `error`. */
export class BridgeApiError extends ApiError {
  readonly #more: Readonly<Record<string, unknown>>;

  /** `more` goes into the body beside `message`. */
  constructor(status: number, code: string, message: string, more: Readonly<Record<string, unknown>> = {}) {
    super(status, code, message);
    this.#more = more;
  }

  override toBody(): ErrorBody & Readonly<Record<string, unknown>> {
    return { message: this.message, ...this.#more, ...super.toBody() };
  }
}
