/** Whether somebody is there who can run a tool of the client's device. Pure. */
import type { SessionPresence } from "../storage/contract.ts";

/** An executor that left no longer ago than this still counts: it may be about to reconnect. */
export const EXECUTOR_GRACE_MS = 5_000;

/**
 * Before a call is offered. Once a stream of the session has said that it executes calls, only such streams count, with
 * the grace; before that any attached stream does.
 */
export function isExecutorPresent(presence: SessionPresence, nowMs: number): boolean {
  if (!presence.executorDeclared) return presence.streams > 0;
  return presence.executors > 0 || isWithinGrace(presence.executorLeftAt, nowMs);
}

/**
 * When a call that was offered is lost for want of an executor, in wall-clock milliseconds. `undefined` while one is
 * there, and for sessions that never had a declared one: their calls have the full time.
 *
 * @param graceFrom the grace does not begin before this: a process that just started has seen nobody leave
 */
export function lostAt(presence: SessionPresence, graceFrom: number): number | undefined {
  if (!presence.executorDeclared || presence.executors > 0) return undefined;
  return Math.max(presence.executorLeftAt ?? graceFrom, graceFrom) + EXECUTOR_GRACE_MS;
}

function isWithinGrace(leftAt: number | undefined, nowMs: number): boolean {
  return leftAt !== undefined && nowMs - leftAt <= EXECUTOR_GRACE_MS;
}
