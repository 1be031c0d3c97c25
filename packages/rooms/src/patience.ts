/** Waits that end. */
import type { Clock } from "@leafmesh/protocol";
import { RoomError } from "./contract.ts";

/**
 * What `promise` gives, or a {@link RoomError} as soon as the signal fires: whatever it was, it was not to be had in time.
 * `who` is the provider, for the sentence.
 */
export function untilAborted<Value>(promise: Promise<Value>, signal: AbortSignal, who: string): Promise<Value> {
  promise.catch(() => {});
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(new RoomError("unavailable", `${who} did not answer in time.`));
    if (signal.aborted) return onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

/** A goodbye or a cancel is worth so long and no longer. */
const FAREWELL_TIMEOUT_MS = 2_000;

/** Gives `work` a moment. Never rejects. */
export async function briefly(clock: Clock, work: Promise<unknown>): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = clock.schedule(FAREWELL_TIMEOUT_MS, resolve);
    const end = (): void => {
      timer.cancel();
      resolve();
    };
    work.then(end, end);
  });
}
