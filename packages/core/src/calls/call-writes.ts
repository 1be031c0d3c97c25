/** The writes behind each move of a call. Pure: one list is one commit, or the beginning of one. */
import { type Outcome, outcomeSchema } from "@leafmesh/protocol";
import type { CallFace, CallPatch, CallRecord, WaitRecord, Write } from "../storage/contract.ts";
import type { NewCall, Settlement } from "./pending-calls.ts";

/** A wait that is to be stored with its calls; all calls are of one run and one turn. */
export interface NewWait {
  readonly id: string;
  readonly deadlineAt: number;
  readonly state: "open" | "continued";
}

/** How a call is stored at first. */
export type FirstState = Pick<CallRecord, "state" | "reached"> & Partial<CallRecord>;

export function createWrites(wait: NewWait, calls: readonly NewCall[], first: FirstState, at: number): Write[] {
  const [one] = calls;
  if (!one) throw new Error("a wait holds at least one call");
  const { runId, sessionId, agent, turn } = one;
  const face: CallFace = one.face ?? "device";
  return [
    { kind: "wait.create", wait: { ...wait, runId, sessionId, agent, turn, face, callIds: calls.map(({ id }) => id) } },
    ...calls.map(
      (call): Write => ({
        kind: "call.create",
        call: { ...call, face, ...first, waitId: wait.id, createdAt: at, version: 1 },
      }),
    ),
  ];
}

/** What a settled record says. The token is of no use any more, its hash still recognises a repeat. */
export function settledPatch(
  settlement: Settlement<unknown>,
  at: number,
): CallPatch & Pick<CallRecord, "state" | "reached"> {
  const { state, reached, result, answeredBy, resultDigest } = settlement;
  return {
    state,
    reached,
    result,
    outcome: outcomeOf(result),
    settledAt: at,
    sealedToken: undefined,
    ...(answeredBy === undefined ? {} : { answeredBy }),
    ...(resultDigest === undefined ? {} : { resultDigest }),
  };
}

export function settleWrite(call: Pick<CallRecord, "id" | "version">, patch: CallPatch): Write {
  return { kind: "call.update", callId: call.id, version: call.version, patch };
}

export function closeWaitWrite(
  waitId: string,
  to: Exclude<WaitRecord["state"], "open" | "continued">,
  answerDigest?: string,
): Write {
  return { kind: "wait.update", waitId, from: "open", to, answerDigest };
}

/** The result of an ask names its outcome; other results have none. */
function outcomeOf(result: unknown): Outcome | undefined {
  if (typeof result !== "object" || result === null || !("outcome" in result)) return undefined;
  return outcomeSchema.safeParse(result.outcome).data;
}
