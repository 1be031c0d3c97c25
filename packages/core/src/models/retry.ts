/** When a failed model call is made again, and how long that waits. */
import type { Clock } from "@leafmesh/protocol";
import { type Model, type ModelAnswer, ModelError, type ModelErrorKind, type ModelRequest } from "./contract.ts";

export interface RetryPolicy {
  /** Calls in all, by what went wrong; a kind that is not named is not retried. */
  readonly maxAttempts: Readonly<Partial<Record<ModelErrorKind, number>>>;
  /** Upper end of the first wait; doubles with every further one. */
  readonly baseMs: number;
  readonly capMs: number;
}

/** An answer that breaks the protocol may be a slip, once; a network gets more chances. */
export const DEFAULT_RETRY_POLICY: RetryPolicy = {
  maxAttempts: { transient: 5, bad_answer: 2 },
  baseMs: 500,
  capMs: 20_000,
};

/** A failed attempt and how much is left. */
export interface FailedAttempt {
  readonly error: ModelError;
  /** From 1. */
  readonly attempt: number;
  /** Time until the deadline. */
  readonly leftMs: number;
  /** From 0 (included) to 1 (excluded). */
  readonly random: number;
}

/**
 * How long to wait before the next attempt, or `undefined` when there is none: exponential backoff with full jitter
 * (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/). A server that names a time is obeyed, with
 * jitter on top so that many callers do not come back at once, as long as the deadline leaves room.
 */
export function retryDelayMs(failed: FailedAttempt, policy: RetryPolicy = DEFAULT_RETRY_POLICY): number | undefined {
  const { error, attempt, leftMs, random } = failed;
  if (attempt >= (policy.maxAttempts[error.kind] ?? 1)) return undefined;
  const jitterMs = random * Math.min(policy.capMs, policy.baseMs * 2 ** (attempt - 1));
  const waitMs = Math.round((error.retryAfterMs ?? 0) + jitterMs);
  return waitMs < leftMs ? waitMs : undefined;
}

export interface RetryOptions {
  readonly clock: Clock;
  /** Wall clock: no attempt starts after it. An attempt under way is ended by `signal`. */
  readonly deadlineAtMs: number;
  readonly signal: AbortSignal;
  readonly random?: (() => number) | undefined;
  readonly policy?: RetryPolicy | undefined;
  /** Text of the attempt under way. */
  readonly onText?: ((text: string) => void) | undefined;
  /** Before the wait. What `onText` got so far is void: the next attempt starts over. */
  readonly onRetry?: ((retry: Retry) => void) | undefined;
}

export interface Retry {
  readonly error: ModelError;
  /** The attempt that failed, from 1. */
  readonly attempt: number;
  readonly waitMs: number;
}

/** Asks until there is an answer or no hope of one. Throws the last {@link ModelError}. */
export async function answerWithRetries(
  model: Model,
  request: ModelRequest,
  options: RetryOptions,
): Promise<ModelAnswer> {
  const { clock, deadlineAtMs, signal, random = Math.random, policy, onText, onRetry } = options;
  for (let attempt = 1; ; attempt++) {
    try {
      return await model.answer(request, onText ? { signal, onText } : { signal });
    } catch (error) {
      if (!(error instanceof ModelError)) throw error;
      const leftMs = deadlineAtMs - clock.nowMs();
      const waitMs = retryDelayMs({ error, attempt, leftMs, random: random() }, policy);
      if (waitMs === undefined) throw error;
      onRetry?.({ error, attempt, waitMs });
      await wait(waitMs, clock, signal);
    }
  }
}

/** Throws a `ModelError` of the kind `aborted` when the signal comes first. */
export function wait(delayMs: number, clock: Clock, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      timer.cancel();
      reject(new ModelError("aborted", "The wait was aborted.", { cause: signal.reason }));
    };
    const timer = clock.schedule(delayMs, () => {
      signal.removeEventListener("abort", abort);
      resolve();
    });
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
  });
}
