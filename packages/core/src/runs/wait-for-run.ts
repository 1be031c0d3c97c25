import { FINAL_RUN_STATUSES } from "@leafmesh/protocol";
import type { Backend, RunRecord } from "../storage/contract.ts";

/** `promise`, unless `signal` is aborted first: then rejects with the signal's reason. */
export function abortable<Value>(promise: Promise<Value>, signal: AbortSignal): Promise<Value> {
  if (signal.aborted) return Promise.reject(signal.reason);
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

/** A run that another process drives, once it has ended. Listens before it looks, so that no end is missed. */
export async function finishedElsewhere(
  backend: Backend,
  { id, sessionId }: RunRecord,
  signal: AbortSignal,
): Promise<RunRecord> {
  const { promise, resolve, reject } = Promise.withResolvers<RunRecord>();
  const look = async (): Promise<void> => {
    const run = await backend.run(id);
    if (run && FINAL_RUN_STATUSES.has(run.status)) resolve(run);
  };
  const unsubscribe = backend.subscribe(sessionId, {
    onEvents(events) {
      const ended = events.some((event) => event.type === "run.finished" && event.payload.run_id === id);
      if (ended) look().catch(reject);
    },
    onTransient() {},
  });
  try {
    look().catch(reject);
    return await abortable(promise, signal);
  } finally {
    unsubscribe();
  }
}
