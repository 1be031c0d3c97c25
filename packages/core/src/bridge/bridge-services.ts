import type { Clock, Logger, NewId } from "@leafmesh/protocol";
import type { PendingCalls } from "../calls/pending-calls.ts";
import type { Sealer } from "../security/sealer.ts";
import type { Backend, CallRecord } from "../storage/contract.ts";

/** What the bridge stands on. */
export interface BridgeServices {
  readonly backend: Backend;
  readonly calls: PendingCalls;
  readonly sealer: Sealer;
  readonly clock: Clock;
  readonly newId: NewId;
  readonly logger: Logger;
  /** Deadlines of the calls that this process waits for, by id, on the monotonic clock. */
  readonly deadlines: Map<string, number>;
  /** Calls by session that this process is about to store: those of one turn must not pass the limit together. */
  readonly opening: Map<string, number>;
}

/** What a call's sealed token is bound to. */
export function tokenContext({ sessionId, id }: Pick<CallRecord, "sessionId" | "id">): string {
  return `device_tool_token:${sessionId}:${id}`;
}

/**
 * Whether it is too late for an answer; at the deadline itself it is not. The process that waits for the call measures
 * on its monotonic clock, so that setting the machine's clock neither shortens nor lengthens the wait.
 */
export function isPastDeadline({ clock, deadlines }: BridgeServices, call: CallRecord): boolean {
  const deadline = deadlines.get(call.id);
  return deadline === undefined ? clock.nowMs() > call.expiresAt : clock.monotonicMs() > deadline;
}
