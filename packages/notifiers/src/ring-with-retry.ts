/** When a ring is sent again. The one place where that is decided: adapters send each ring once. */
import type { RingReceipt } from "./contract.ts";
import { RingError } from "./ring-error.ts";

export interface RingRetries {
  /** Time until the device could no longer join. */
  leftMs(): number;
  /** A number from 0 to 1. */
  random(): number;
  /** Resolves after so many milliseconds; rejects when the ask is given up. */
  pause(ms: number): Promise<void>;
  /** Told of each attempt that failed and is made again. */
  onRetry(error: RingError): void;
}

const MAX_ATTEMPTS = 3;
const FIRST_PAUSE_MS = 500;
/** Share of a pause that is left to chance, so that rings that failed together do not come back together. */
const JITTER = 0.25;

/**
 * The receipt of the first attempt that succeeds. Only a `transient` failure that may be repeated is, after the pause
 * that the vendor asked for (`retryAfterMs`) or a growing one, and never when the device could not join any more by
 * then. Throws the last {@link RingError}, and at once whatever else `attempt` or `pause` throws.
 */
export async function ringWithRetry(attempt: () => Promise<RingReceipt>, retries: RingRetries): Promise<RingReceipt> {
  for (let made = 1; ; made++) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof RingError) || error.kind !== "transient" || !error.isRepeatable) throw error;
      const pauseMs = pauseAfter(made, error, retries.random());
      if (made === MAX_ATTEMPTS || pauseMs >= retries.leftMs()) throw error;
      retries.onRetry(error);
      await retries.pause(pauseMs);
    }
  }
}

function pauseAfter(made: number, error: RingError, random: number): number {
  const waitMs = error.retryAfterMs ?? FIRST_PAUSE_MS * 2 ** (made - 1);
  return Math.max(waitMs, 0) * (1 + JITTER * random);
}
