/** When a run has to wait for somebody outside before it executes anything of a turn, and what it says then. Pure. */
import type { ClientToolCall, NewId, RunOutput, Suspension } from "@leafmesh/protocol";
import type { NewCall } from "../calls/pending-calls.ts";
import { frameWrites } from "../runs/run-frames.ts";
import type { PlannedCall } from "../runs/tool-plan.ts";
import type { CallRecord, RunPatch, RunRecord, WaitRecord, Write } from "../storage/contract.ts";

/** Faces whose calls let the run's worker go. */
export const SUSPENDING_FACES = ["client", "approval"] as const;
export type SuspendingFace = (typeof SUSPENDING_FACES)[number];

type ExecutableCall = Extract<PlannedCall, { kind: "execute" }>;

/** What a run has to wait for next. */
export interface NeededAnswer {
  readonly face: SuspendingFace;
  readonly calls: readonly ExecutableCall[];
}

/**
 * The client's calls come first and all at once; then, one after the other, the calls that need an approval.
 *
 * @param records of the turn's calls, by position: these were asked about already
 */
export function neededAnswer(
  run: RunRecord,
  plan: readonly PlannedCall[],
  records: ReadonlyMap<number, CallRecord>,
): NeededAnswer | undefined {
  if (!run.options) return undefined;
  const unasked = plan.filter((planned) => planned.kind === "execute" && !records.has(planned.position));
  const calls = unasked.filter(isExecutable);
  const own = calls.filter(({ tool }) => tool.isClientOwned);
  if (own.length > 0 && run.options.clientTools === "suspend") return { face: "client", calls: own };
  const held = calls.find(({ tool }) => tool.requiresApproval);
  return held && { face: "approval", calls: [held] };
}

/** The calls of a turn that end a run whose client does not execute any. */
export function callsForCaller(run: RunRecord, plan: readonly PlannedCall[]): readonly ExecutableCall[] {
  if (run.options?.clientTools === "suspend") return [];
  return plan.filter(isExecutable).filter(({ tool }) => tool.isClientOwned);
}

function isExecutable(planned: PlannedCall): planned is ExecutableCall {
  return planned.kind === "execute";
}

/** The client's wait as it asked for it; an approval may take as long as the run. */
export function deadlineOf(run: RunRecord, { face }: NeededAnswer, at: number, runDeadlineAt: number): number {
  const last = Math.floor(runDeadlineAt);
  if (face === "approval" || !run.options) return last;
  return Math.min(at + run.options.clientToolTimeoutMs, last);
}

/** What a suspension stores beside its wait: the run that lets its worker go, and the frame that says what is waited for. */
export interface PlannedSuspension {
  readonly calls: readonly NewCall[];
  readonly patch: RunPatch;
  readonly writes: readonly Write[];
}

export function planSuspension(
  run: RunRecord,
  at: number,
  turn: number,
  { face, calls: needed }: NeededAnswer,
  deadlineAt: number,
  newId: NewId,
): PlannedSuspension {
  const patch = { status: "suspended" } as const;
  const calls = needed.map(({ position, call, arguments: given }) => ({
    id: newId("call"),
    sessionId: run.sessionId,
    runId: run.id,
    agent: run.agent,
    face,
    turn,
    position,
    providerCallId: call.id,
    tool: call.name,
    arguments: given,
    expiresAt: deadlineAt,
  }));
  const offers = calls.map(
    ({ id }): Write => ({ kind: "offer.append", offer: { callId: id, channel: "frame", via: run.id, at } }),
  );
  return {
    calls,
    patch,
    writes: [
      ...offers,
      { kind: "run.update", runId: run.id, version: run.version, patch },
      ...frameWrites(run, at, "suspend", describeSuspension({ face, deadlineAt }, calls, at)),
    ],
  };
}

type AnnouncedCall = Pick<CallRecord, "providerCallId" | "tool" | "arguments">;

/** @param since when the wait began, in milliseconds */
export function describeSuspension(
  { face, deadlineAt }: { readonly face: WaitRecord["face"]; readonly deadlineAt: number },
  calls: readonly AnnouncedCall[],
  since: number,
): Suspension {
  const isApproval = face === "approval";
  return {
    kind: "external_wait",
    resume_contract: isApproval ? "approval" : "result",
    deadline_at: isoTime(deadlineAt),
    prompt: {
      reason: isApproval ? "approval" : "client_tools",
      timeout_s: Math.max(0, deadlineAt - since) / 1000,
      tool_calls: calls.map(({ providerCallId, tool, arguments: given }) => toolCall(providerCallId, tool, given)),
    },
  };
}

/** What a run hands back when it ends with calls that its caller may execute. */
export function callerOutput(message: string | null, calls: readonly ExecutableCall[]): RunOutput {
  return {
    result: {
      message,
      client_tool_calls: calls.map(({ call, arguments: given }) => toolCall(call.id, call.name, given)),
    },
  };
}

/** Arguments were parsed from JSON before they were stored. */
function toolCall(id: string, name: string, given: Readonly<Record<string, unknown>>): ClientToolCall {
  return { id, name, arguments: given as ClientToolCall["arguments"] };
}

/** ISO 8601 with an offset, in UTC. */
export function isoTime(ms: number): string {
  return new Date(ms).toISOString().replace("Z", "+00:00");
}
