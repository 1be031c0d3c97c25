/**
 * Calls that are answered together or not at all: what a run waits for while it is suspended. Pure: each function makes
 * the writes of one move, for the commit that the move belongs to. Its preconditions (the calls' versions, the wait's
 * state) let one of several concurrent moves win.
 */
import type { CallRecord, RunRecord, WaitRecord, Write } from "../storage/contract.ts";
import { isOpenCall } from "./pending-calls.ts";

/** Faces whose calls release the run's worker. */
export const SUSPENDING_FACES = ["client", "approval"] as const;
export type SuspendingFace = (typeof SUSPENDING_FACES)[number];

export interface NewCallGroup {
  readonly waitId: string;
  readonly face: SuspendingFace;
  readonly turn: number;
  readonly deadlineAt: number;
  readonly calls: readonly Pick<CallRecord, "id" | "position" | "providerCallId" | "tool" | "arguments">[];
}

/** Stores the group as offered: the frame that announces it goes into the same commit. */
export function openGroupWrites(run: RunRecord, group: NewCallGroup, at: number): Write[] {
  const { waitId, face, turn, deadlineAt } = group;
  const shared = { runId: run.id, sessionId: run.sessionId, agent: run.agent, face, turn };
  return [
    {
      kind: "wait.create",
      wait: { ...shared, id: waitId, state: "open", deadlineAt, callIds: group.calls.map(({ id }) => id) },
    },
    ...group.calls.flatMap((call): Write[] => [
      {
        kind: "call.create",
        call: {
          ...shared,
          ...call,
          waitId,
          state: "offered",
          reached: "maybe",
          expiresAt: deadlineAt,
          createdAt: at,
          version: 1,
        },
      },
      { kind: "offer.append", offer: { callId: call.id, channel: "frame", via: run.id, at } },
    ]),
  ];
}

/** The whole group is answered. `results` are by call id. */
export function answerGroupWrites(
  wait: WaitRecord,
  calls: readonly CallRecord[],
  answer: {
    readonly results: ReadonlyMap<string, unknown>;
    readonly digest: string;
    readonly answeredBy: string | undefined;
  },
  at: number,
): Write[] {
  return [
    ...calls.map(
      (call): Write => ({
        kind: "call.update",
        callId: call.id,
        version: call.version,
        patch: {
          state: "answered",
          reached: "yes",
          result: answer.results.get(call.id),
          answeredBy: answer.answeredBy,
          settledAt: at,
        },
      }),
    ),
    { kind: "wait.update", waitId: wait.id, from: "open", to: "complete", answerDigest: answer.digest },
  ];
}

/** The group ends without an answer, in the commit that brings that into the history. */
export function endGroupWrites(
  wait: WaitRecord,
  calls: readonly CallRecord[],
  to: "expired" | "cancelled",
  at: number,
): Write[] {
  return [
    ...calls.filter(isOpenCall).map(
      (call): Write => ({
        kind: "call.update",
        callId: call.id,
        version: call.version,
        patch: { state: "used", result: { ended: to }, settledAt: at, usedAt: at },
      }),
    ),
    { kind: "wait.update", waitId: wait.id, from: "open", to },
  ];
}
