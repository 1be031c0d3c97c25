/**
 * Ends a suspended run: cancelled, past its deadline, or given up. One commit closes the history (every call of the turn
 * gets a result, and no model is asked), the wait and the run, so nothing of it is ever seen half done.
 */
import { isOpenCall, type PendingCalls, type Settlement } from "../calls/pending-calls.ts";
import { openGroup } from "../runs/conversation.ts";
import { CommitConflict } from "../runs/run-services.ts";
import { endWrites, type RunEnd, resultMessage, resultWrites, type SettledCall } from "../runs/run-writes.ts";
import { failedCall } from "../runs/tool-execution.ts";
import type { Backend, CallRecord, RunPatch, RunRecord, WaitRecord, Write } from "../storage/contract.ts";
import type { ToolResult } from "../tools/contract.ts";
import { isClientResult, textForModel } from "./results.ts";
import { openWait } from "./resume.ts";

/** Longer results are cut only where the model would read them, and no model is asked here. */
const NO_CUT = Number.POSITIVE_INFINITY;

/**
 * The run as it has ended.
 *
 * @throws {CommitConflict} when the run moved meanwhile
 */
export async function closeSuspended(
  { backend, calls }: { readonly backend: Backend; readonly calls: PendingCalls },
  run: RunRecord,
  end: RunEnd,
  at: number,
): Promise<RunRecord> {
  const wait = await openWait(backend, run.id);
  if (!wait) throw movedMeanwhile();
  const held = await backend.calls({ waitId: wait.id });
  const { writes, patch } = await closingWrites(backend, run, wait, end, at);
  const to = end.status === "timed_out" ? "expired" : "cancelled";
  const settlements = new Map(
    held.map(({ id, reached }): [string, Settlement<unknown>] => [id, { state: to, reached, result: { ended: to } }]),
  );
  const used = held.map(
    ({ id, version }): Write => ({
      kind: "call.update",
      callId: id,
      version: version + 1,
      patch: { state: "used", usedAt: at },
    }),
  );
  const settled = await calls.settleGroup({ waitId: wait.id, to, settlements }, { writes: [...used, ...writes] });
  if (settled.status !== "moved") throw movedMeanwhile();
  return { ...run, ...patch, version: run.version + 1 };
}

function movedMeanwhile(): CommitConflict {
  return new CommitConflict({ committed: false, at: 0, reason: "conflict" }, []);
}

/** How a run ends whose wait nobody answered. */
export function unanswered(wait: WaitRecord): RunEnd {
  if (wait.face === "approval") {
    return {
      status: "timed_out",
      error: { code: "approval_deadline", message: "Nobody decided about the tool call before the deadline." },
      failure: { class: "timeout", detail: "approval_deadline" },
    };
  }
  return {
    status: "timed_out",
    error: { code: "client_tool_deadline", message: "No results of the client's tools came before the deadline." },
    failure: { class: "timeout", detail: "client_tool_deadline" },
  };
}

async function closingWrites(
  backend: Backend,
  run: RunRecord,
  wait: WaitRecord,
  end: RunEnd,
  at: number,
): Promise<{ readonly writes: Write[]; readonly patch: RunPatch }> {
  const own = await backend.messages(run.sessionId, { runId: run.id });
  const group = openGroup(own);
  const records = (await backend.calls({ runId: run.id })).filter((call) => call.turn === wait.turn);
  const byPosition = new Map(records.map((record) => [record.position, record]));
  const isExpired = end.status === "timed_out";
  // The deadline of the wait is what ended the run, whichever timer noticed it first.
  const told = isExpired ? unanswered(wait) : end;
  const settled = (group?.calls ?? []).map((call, position): SettledCall => {
    const error = "not executed";
    const result = closingResult(byPosition.get(position), isExpired);
    return { planned: { kind: "refuse", position, call, error }, result, durationMs: 0 };
  });
  const messages = settled.map((call) => resultMessage(call, NO_CUT));
  const { writes, patch } = endWrites(run, at, told);
  return {
    patch,
    writes: [
      ...resultWrites(run, at, wait.turn, settled, messages),
      ...(await answeredWrites(backend, records, at)),
      ...writes,
    ],
  };
}

/** Answers of the same turn that were taken before the run had to wait once more. */
async function answeredWrites(backend: Backend, records: readonly CallRecord[], at: number): Promise<Write[]> {
  const answered = records.filter((record) => record.state === "answered");
  const writes: Write[] = answered.map(({ id, version }) => ({
    kind: "call.update",
    callId: id,
    version,
    patch: { state: "used", usedAt: at },
  }));
  for (const waitId of new Set(answered.map((record) => record.waitId))) {
    const wait = await backend.wait(waitId);
    if (wait?.state === "complete") writes.push({ kind: "wait.update", waitId, from: "complete", to: "continued" });
  }
  return writes;
}

function closingResult(record: CallRecord | undefined, isExpired: boolean): ToolResult {
  if (record?.face === "client" && isClientResult(record.result)) {
    return { success: !record.result.isError, content: textForModel(record.result, NO_CUT) };
  }
  const why = isExpired ? "nobody answered before the deadline" : "the run ended before an answer came";
  if (record?.face === "client" && isOpenCall(record)) {
    return { success: false, content: `error: ${why}. It may have happened; check before repeating it.` };
  }
  return failedCall(`Not executed: ${why}.`);
}
