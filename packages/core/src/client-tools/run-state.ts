/** Where a run stands, as its client reads it. */
import type { RunOutput, RunState, Suspension } from "@leafmesh/protocol";
import type { Backend, RunRecord } from "../storage/contract.ts";
import { openWait } from "./resume.ts";
import { describeSuspension, isoTime } from "./suspension.ts";

export async function runState(backend: Backend, run: RunRecord): Promise<RunState> {
  const time = (ms: number | undefined): string | null => (ms === undefined ? null : isoTime(ms));
  return {
    run_id: run.id,
    session_id: run.sessionId,
    agent_slug: run.agent,
    status: run.status,
    client_tools: run.options?.clientTools ?? "end",
    created_at: isoTime(run.createdAt),
    started_at: time(run.startedAt),
    finished_at: time(run.finishedAt),
    deadline_at: isoTime(run.deadlineAt),
    replay_of: run.options?.replayOf ?? null,
    suspension: await pendingSuspension(backend, run),
    // Written from this very type, and read back from JSON.
    output: (run.output as RunOutput | undefined) ?? null,
    failure_class: run.failure?.class ?? null,
    failure_detail: run.failure?.detail ?? null,
    error: run.error ?? null,
  };
}

/** What the run waits for, in the words of its `suspend` frame. */
async function pendingSuspension(backend: Backend, run: RunRecord): Promise<Suspension | null> {
  const wait = run.status === "suspended" ? await openWait(backend, run.id) : undefined;
  if (!wait) return null;
  const calls = await backend.calls({ waitId: wait.id });
  const [first] = calls;
  return first ? describeSuspension(wait, calls, first.createdAt) : null;
}
