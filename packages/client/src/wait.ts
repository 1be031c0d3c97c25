/** Waiting and trying again, on a clock that tests can move. */
import { type Clock, createBackoff } from "@leafmesh/protocol";
import { type LeafMeshError, mayWorkLater } from "./errors.ts";

/** Resolves after `ms` milliseconds; rejects with the signal's reason when it is aborted before. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const stop = (): void => {
      timer.cancel();
      reject(signal?.reason);
    };
    const timer = clock.schedule(ms, () => {
      signal?.removeEventListener("abort", stop);
      resolve();
    });
    signal?.addEventListener("abort", stop, { once: true });
  });
}

export interface RetryOptions {
  readonly clock: Clock;
  readonly random: () => number;
  readonly signal?: AbortSignal | undefined;
  /** Asked after each failure that may pass; `waitMs` is how long the next try would be waited for. */
  readonly goOn: (failed: { readonly tries: number; readonly waitMs: number }) => boolean;
}

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 5_000;

/** Does `work` until it works, fails for good, or `goOn` has enough; then rejects with the last error. */
export async function retrying<Value>(work: () => Promise<Value>, options: RetryOptions): Promise<Value> {
  const { clock, random, signal, goOn } = options;
  const backoff = createBackoff({ firstMs: FIRST_WAIT_MS, longestMs: LONGEST_WAIT_MS, random });
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (!mayWorkLater(error)) throw error;
      const waitMs = waitAfter(error, backoff.nextMs());
      if (!goOn({ tries, waitMs })) throw error;
      await sleep(clock, waitMs, signal);
    }
  }
}

/** The mesh's own word on when to come back counts more than the back-off. */
export function waitAfter(error: LeafMeshError, backoffMs: number): number {
  return Math.max(backoffMs, error.retryAfterMs ?? 0);
}
