/** What comes of a request to a push service: its answer, or why there is none. */
import type { IncomingHttpHeaders } from "node:http";
import { readRetryAfter } from "@leafmesh/protocol";
import { RingError } from "../contract.ts";
import { errorCode, neverArrived } from "./network-errors.ts";

export interface VendorAnswer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The body as JSON; `undefined` when it is none, whatever its content type says. */
  readonly json: unknown;
  /** From `retry-after`, a number or a date, at most an hour. */
  readonly retryAfterMs: number | undefined;
}

/** What a push service says is far smaller; more than this is not read. */
export const MAX_ANSWER_BYTES = 64 * 1024;

export function toAnswer(status: number, headers: IncomingHttpHeaders, text: string, nowMs: number): VendorAnswer {
  return { status, headers, text, json: parsed(text), retryAfterMs: readRetryAfter(headers, nowMs) };
}

/** What is known of a request that failed. */
export interface FailedRequest {
  readonly error: unknown;
  readonly isGivenUp: boolean;
  readonly isOutOfTime: boolean;
  readonly isTooLarge: boolean;
  readonly repeatsAreHarmless: boolean;
}

/** Without the network's own message and cause: these may hold the address, and so a push token. */
export function failedRequest(failed: FailedRequest): RingError {
  const { error, isGivenUp, isOutOfTime, isTooLarge, repeatsAreHarmless } = failed;
  if (isGivenUp) return new RingError("transient", "the request was given up", { code: "aborted" });
  const arrived = isTooLarge || isOutOfTime || !neverArrived(error);
  const details = { mayHaveRung: arrived, isRepeatable: repeatsAreHarmless || !arrived };
  if (isOutOfTime) {
    return new RingError("transient", "the push service did not answer in time", { ...details, code: "timeout" });
  }
  if (isTooLarge) {
    const message = `the push service's answer is over ${MAX_ANSWER_BYTES} bytes`;
    return new RingError("transient", message, { ...details, code: "answer_too_large" });
  }
  const code = errorCode(error);
  const message = arrived
    ? "the push service closed the connection before it had answered"
    : `the push service could not be reached (${code})`;
  return new RingError("transient", message, { ...details, code });
}

function parsed(text: string): unknown {
  // Apple takes a ring without a word, and an error that is thrown only to be caught is dear.
  if (text === "") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
