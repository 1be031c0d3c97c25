import type { Clock } from "@leafmesh/protocol";

export interface Deadline {
  /** Aborted when the time is over or `parent` is aborted, whichever comes first. */
  readonly signal: AbortSignal;
  /** Disarms it. To be called on every way out. */
  dispose(): void;
}

/** A wait that ends. (`AbortSignal.any` and `AbortSignal.timeout` are missing in React Native and blind to the clock.) */
export function deadline(clock: Clock, afterMs: number, parent?: AbortSignal): Deadline {
  const controller = new AbortController();
  const pass = (): void => controller.abort(parent?.reason);
  const timer = clock.schedule(afterMs, () => controller.abort(new Error("the time is over")));
  if (parent?.aborted) pass();
  else parent?.addEventListener("abort", pass, { once: true });
  return {
    signal: controller.signal,
    dispose() {
      timer.cancel();
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
