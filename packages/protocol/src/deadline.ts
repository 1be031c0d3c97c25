import type { Clock } from "./runtime.ts";

export interface Deadline {
  /** Aborted when the time is over or `parent` is aborted, whichever comes first. */
  readonly signal: AbortSignal;
  /** Ends it at the latest so many milliseconds from now. */
  shorten(afterMs: number): void;
  /** Disarms it. To be called on every way out. */
  dispose(): void;
}

/** A wait that ends. (`AbortSignal.any` and `AbortSignal.timeout` are missing in React Native and blind to the clock.) */
export function deadline(clock: Clock, afterMs: number, parent?: AbortSignal): Deadline {
  const controller = new AbortController();
  const pass = (): void => controller.abort(parent?.reason);
  const arm = (ms: number) => clock.schedule(ms, () => controller.abort(new Error("the time is over")));
  const timers = [arm(afterMs)];
  if (parent?.aborted) pass();
  else parent?.addEventListener("abort", pass, { once: true });
  return {
    signal: controller.signal,
    shorten(ms) {
      timers.push(arm(ms));
    },
    dispose() {
      for (const timer of timers) timer.cancel();
      parent?.removeEventListener("abort", pass);
    },
  };
}

/** Resolves when `signal` is aborted; at once when it already is. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
