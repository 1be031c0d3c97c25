/** Waits that have an end, on a clock that is handed in. */
import type { Clock } from "@leafmesh/protocol";

/** The work took longer than it may, or was given up from outside. */
export class GivenUp extends Error {
  override readonly name = "GivenUp";
  readonly why: "timeout" | "aborted";

  constructor(why: GivenUp["why"]) {
    super(why === "timeout" ? "took too long" : "was given up");
    this.why = why;
  }
}

/**
 * Runs `work` with a signal that fires after `limitMs`, or with `outer` if there is one. Rejects with {@link GivenUp} at that moment,
 * whether `work` heeds the signal or not; what it brings later goes to `late`.
 */
export function bounded<Value>(
  clock: Clock,
  limitMs: number,
  outer: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<Value>,
  late: (value: Value) => void = () => {},
): Promise<Value> {
  return new Promise((resolve, reject) => {
    const inner = new AbortController();
    let over = false;
    const giveUp = (why: GivenUp["why"]): void => {
      over = true;
      timer.cancel();
      outer?.removeEventListener("abort", onOuterAbort);
      const reason = new GivenUp(why);
      inner.abort(reason);
      reject(reason);
    };
    const onOuterAbort = (): void => giveUp("aborted");
    const timer = clock.schedule(limitMs, () => giveUp("timeout"));
    if (outer?.aborted) {
      giveUp("aborted");
      return;
    }
    outer?.addEventListener("abort", onOuterAbort);
    const finish = (): boolean => {
      if (over) return false;
      timer.cancel();
      outer?.removeEventListener("abort", onOuterAbort);
      return true;
    };
    started(work, inner.signal).then(
      (value) => (finish() ? resolve(value) : late(value)),
      (error: unknown) => {
        if (finish()) reject(error);
      },
    );
  });
}

/** Resolves after `ms`; rejects with {@link GivenUp} when `signal` fires first. */
export function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(new GivenUp("aborted"));
      return;
    }
    const onAbort = (): void => {
      timer.cancel();
      reject(new GivenUp("aborted"));
    };
    const timer = clock.schedule(ms, () => {
      signal.removeEventListener("abort", onAbort);
      resolve();
    });
    signal.addEventListener("abort", onAbort, { once: true });
  });
}

/** Makes a rejection of what a broken contract throws at once. */
async function started<Value>(work: (signal: AbortSignal) => Promise<Value>, signal: AbortSignal): Promise<Value> {
  return work(signal);
}
