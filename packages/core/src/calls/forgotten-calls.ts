/** Closes calls of runs that have ended: nothing may stay open, or settled and unused, that no run will come back to. */
import { type Clock, FINAL_RUN_STATUSES, type Logger } from "@leafmesh/protocol";
import { settleAsLost } from "../runs/lost-calls.ts";
import { type Backend, type CallRecord, OPEN_CALL_STATES, SETTLED_CALL_STATES } from "../storage/contract.ts";
import { isOpenCall, type PendingCalls } from "./pending-calls.ts";

/** Calls that one start looks at; a later start takes the rest. */
const MAX_CALLS = 10_000;

/** Faces whose calls end before their run does; the others end in the very commit that ends it. */
const PARKING_FACES = ["device", "bridge"] as const;

export async function closeForgottenCalls({
  backend,
  calls,
  clock,
  logger,
}: {
  readonly backend: Backend;
  readonly calls: PendingCalls;
  readonly clock: Clock;
  readonly logger: Logger;
}): Promise<void> {
  const unused = await backend.calls({
    faces: PARKING_FACES,
    states: [...OPEN_CALL_STATES, ...SETTLED_CALL_STATES],
    limit: MAX_CALLS,
  });
  let closed = 0;
  for (const [runId, ofRun] of Map.groupBy(unused, (call) => call.runId)) {
    const run = await backend.run(runId);
    if (run && !FINAL_RUN_STATUSES.has(run.status)) continue;
    for (const call of ofRun) await close(call);
    closed += ofRun.length;
  }
  if (closed > 0) logger.warn("calls of runs that had ended were closed", { count: closed });

  async function close(call: CallRecord): Promise<void> {
    if (isOpenCall(call)) await settleAsLost(calls, call, clock.nowMs());
    const settled = await backend.call(call.id);
    if (!settled || settled.state === "used") return;
    const patch = { state: "used", usedAt: clock.nowMs() } as const;
    await backend.commit([{ kind: "call.update", callId: call.id, version: settled.version, patch }]);
  }
}
