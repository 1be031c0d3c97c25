import type { Clock } from "@leafmesh/protocol";

/** Runs `work` with a signal that fires after `ms`, or with `outer`. The timer is gone when the work is. */
export async function withTimeLimit<Value>(
  clock: Clock,
  ms: number,
  outer: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<Value>,
): Promise<Value> {
  const limit = new AbortController();
  const end = (): void => limit.abort(outer?.reason);
  const timer = clock.schedule(ms, end);
  if (outer?.aborted) end();
  outer?.addEventListener("abort", end, { once: true });
  try {
    return await work(limit.signal);
  } finally {
    timer.cancel();
    outer?.removeEventListener("abort", end);
  }
}

/** Resolves after `ms`, or as soon as `signal` fires. */
export async function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => {
    const end = (): void => {
      timer.cancel();
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = clock.schedule(ms, end);
    signal.addEventListener("abort", end, { once: true });
  });
}
