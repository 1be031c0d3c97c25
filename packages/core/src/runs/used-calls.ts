/** Marks stored calls as used in the commit that brings their results into the history. */
import { isOpenCall } from "../calls/pending-calls.ts";
import type { CallRecord, Write } from "../storage/contract.ts";
import { settleAsLost } from "./lost-calls.ts";
import type { RunServices } from "./run-services.ts";
import type { SettledCall } from "./run-writes.ts";

/** The writes that close the records which the results name, and the waits that these belong to. */
export async function usedCallWrites(
  services: RunServices,
  settled: readonly SettledCall[],
  at: number,
): Promise<Write[]> {
  const writes: Write[] = [];
  const waits = new Set<string>();
  for (const { result } of settled) {
    const call = result.callId === undefined ? undefined : await settledCall(services, result.callId, at);
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

/** A tool that could not store its outcome (the store was down) leaves its record open; nothing may stay so. */
async function settledCall(services: RunServices, callId: string, at: number): Promise<CallRecord | undefined> {
  const { backend, calls } = services;
  const call = await backend.call(callId);
  if (!call || !isOpenCall(call)) return call;
  await settleAsLost(calls, call, at);
  return backend.call(callId);
}
