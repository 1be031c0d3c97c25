/** Marks stored calls as used in the commit that brings their results into the history. */
import { isOpenCall } from "../calls/pending-calls.ts";
import type { CallRecord, RunRecord, Write } from "../storage/contract.ts";
import { settleAsLost } from "./lost-calls.ts";
import type { RunServices } from "./run-services.ts";
import type { SettledCall } from "./run-writes.ts";

/** The writes that close the records which results name, with the waits that these belong to, and the records they bring. */
export async function usedCallWrites(
  services: RunServices,
  run: RunRecord,
  turn: number,
  settled: readonly SettledCall[],
  at: number,
): Promise<Write[]> {
  const writes: Write[] = settled.flatMap(({ result }) => result.records ?? []);
  const waits = new Set<string>();
  for (const record of await recordsOf(services, run, turn, settled)) {
    const call = await closed(services, record, at);
    if (!call || call.state === "used") continue;
    waits.add(call.waitId);
    const patch = { state: "used", usedAt: at } as const;
    writes.push({ kind: "call.update", callId: call.id, version: call.version, patch });
  }
  for (const waitId of waits) {
    const wait = await services.backend.wait(waitId);
    if (wait?.state === "complete") writes.push({ kind: "wait.update", waitId, from: "complete", to: "continued" });
  }
  return writes;
}

async function recordsOf(
  { backend }: RunServices,
  run: RunRecord,
  turn: number,
  settled: readonly SettledCall[],
): Promise<readonly CallRecord[]> {
  if (settled.some(mayHideRecord)) {
    const positions = new Set(settled.map(({ planned }) => planned.position));
    return (await backend.calls({ runId: run.id })).filter(
      (call) => call.turn === turn && positions.has(call.position),
    );
  }
  const records: CallRecord[] = [];
  for (const { result } of settled) {
    const record = result.callId === undefined ? undefined : await backend.call(result.callId);
    if (record) records.push(record);
  }
  return records;
}

/** A tool that broke, or did not let go in time, does not name the record that it may have left. */
function mayHideRecord({ planned, result }: SettledCall): boolean {
  if (planned.kind !== "execute" || !planned.tool.ownDeadline || result.success) return false;
  return result.callId === undefined && result.records === undefined;
}

/** A tool that could not settle its record (the store was down, say) leaves it open; nothing may stay so. */
async function closed({ backend, calls }: RunServices, call: CallRecord, at: number): Promise<CallRecord | undefined> {
  if (!isOpenCall(call)) return call;
  await settleAsLost(calls, call, at);
  return backend.call(call.id);
}
