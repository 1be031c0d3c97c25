/** Brings every call of one answer to its result. */
import { approvalValueSchema } from "@leafmesh/protocol";
import { bridgeToolResult } from "../bridge/bridge-result.ts";
import { isOpenCall } from "../calls/pending-calls.ts";
import { isClientResult, textForModel } from "../client-tools/results.ts";
import type { CallRecord } from "../storage/contract.ts";
import type { Tool, ToolInvocation, ToolResult, ToolScope, WaitingCall } from "../tools/contract.ts";
import { HeldCalls } from "./held-calls.ts";
import { settleAsLost } from "./lost-calls.ts";
import type { RunContext } from "./run-context.ts";
import { callKey } from "./run-control.ts";
import type { SettledCall } from "./run-writes.ts";
import { failedCall, notStarted, runTool } from "./tool-execution.ts";
import type { PlannedCall } from "./tool-plan.ts";

/** The calls of one answer. */
export interface CallGroup {
  readonly turn: number;
  readonly plan: readonly PlannedCall[];
}

const OUTCOME_UNKNOWN = failedCall(
  "The outcome is unknown after a restart of the mesh. It may have happened; check before repeating it.",
);
const RUN_FAILED = failedCall("Not executed: the run failed.");
const NOBODY_APPROVES = "Not executed: the call needs an approval, and this conversation has nobody who could give it.";

/**
 * The results in asked order. `undefined` means that the run was parked, or that a shutdown came first: nothing of the
 * group is stored then, and the next attempt settles what is left, the next start from the records of its calls. Results are kept in the run's control, so that a repeated
 * attempt (storage failed) executes nothing twice.
 */
export async function settleCalls(context: RunContext, group: CallGroup): Promise<readonly SettledCall[] | undefined> {
  const { control, parallelToolCalls } = context;
  const { clock } = context.services;
  const inherited = group.turn <= control.inheritedTurn;
  const records = inherited || group.turn === control.answeredTurn ? await askedAbout(context, group.turn) : undefined;

  const waits = new HeldCalls(context);

  const begin = async (planned: PlannedCall): Promise<ToolResult | WaitingCall | undefined> => {
    const record = records?.get(planned.position);
    if (record?.face === "client") return clientCallResult(context, record);
    if (record?.face === "approval") return decidedCall(context, group.turn, planned, record);
    if (record) return recoverCall(context, record);
    return inherited
      ? executeInherited(context, group.turn, planned, beginTool)
      : executeCall(context, group.turn, planned, beginTool);
  };

  const settle = async (planned: PlannedCall): Promise<SettledCall | undefined> => {
    const key = callKey(group.turn, planned.position);
    const known = control.knownCall(key);
    const held = known?.held;
    const startedAtMs = held?.startedAtMs ?? clock.monotonicMs();
    let result = known?.result;
    if (!result) {
      const begun = held?.call ?? (await waits.work(() => begin(planned)));
      if (begun && "isEnded" in begun) {
        if (!held) control.hold(key, { call: begun, startedAtMs });
        result = await waits.wait(begun);
      } else result = begun;
    }
    if (!result) return undefined;
    control.settle(key, result);
    return { planned, result, durationMs: Math.round(clock.monotonicMs() - startedAtMs) };
  };

  const settled = parallelToolCalls
    ? await settleAll(group.plan, settle)
    : await settleInTurn(group.plan, settle, () => control.isParked);
  const complete = settled.filter((call) => call !== undefined);
  return complete.length === group.plan.length ? complete : undefined;
}

type Settle = (planned: PlannedCall) => Promise<SettledCall | undefined>;

/** When the store fails under one call, the others come to their end first: another attempt must not meet them. */
async function settleAll(plan: readonly PlannedCall[], settle: Settle): Promise<(SettledCall | undefined)[]> {
  const outcomes = await Promise.allSettled(plan.map(settle));
  return outcomes.map((outcome) => {
    if (outcome.status === "rejected") throw outcome.reason;
    return outcome.value;
  });
}

async function settleInTurn(
  plan: readonly PlannedCall[],
  settle: Settle,
  isParked: () => boolean,
): Promise<(SettledCall | undefined)[]> {
  const settled: (SettledCall | undefined)[] = [];
  for (const planned of plan) {
    settled.push(await settle(planned));
    if (isParked()) break;
  }
  return settled;
}

/** Records of the turn's calls by position. */
export async function askedAbout(
  { control, services }: RunContext,
  turn: number,
): Promise<ReadonlyMap<number, CallRecord>> {
  const records = await services.backend.calls({ runId: control.run.id });
  return new Map(records.filter((record) => record.turn === turn).map((record) => [record.position, record]));
}

async function executeCall<Result>(
  context: RunContext,
  turn: number,
  planned: PlannedCall,
  work: (tool: Tool, scope: ToolScope) => Promise<Result>,
  isApproved = false,
): Promise<Result | ToolResult | undefined> {
  const { control } = context;
  if (control.failure) return RUN_FAILED;
  if (planned.kind === "refuse") return failedCall(planned.error);
  if (control.signal.aborted) return notStarted(control);
  if (planned.tool.isClientOwned) return failedCall(`Not executed: ${planned.call.name} is executed by the client.`);
  if (planned.tool.requiresApproval && !isApproved) return failedCall(NOBODY_APPROVES);
  const { run } = control;
  const invocation: ToolInvocation = {
    sessionId: run.sessionId,
    runId: run.id,
    agent: run.agent,
    turn,
    position: planned.position,
    providerCallId: planned.call.id,
    arguments: planned.arguments,
  };
  return runTool(context, planned.tool, invocation, (scope) => work(planned.tool, scope));
}

function executeTool(tool: Tool, scope: ToolScope): Promise<ToolResult> {
  return tool.execute(scope);
}

function beginTool(tool: Tool, scope: ToolScope): Promise<ToolResult | WaitingCall> {
  return tool.begin ? tool.begin(scope) : tool.execute(scope);
}

/**
 * A call that a dead process left without a record. Tools with effects outside store a record before they act, so
 * theirs has not begun; of others nobody knows. That the mesh may have another configuration by now is no excuse:
 * only a call that could never be executed is refused as if it were new.
 */
async function executeInherited<Result>(
  context: RunContext,
  turn: number,
  planned: PlannedCall,
  work: (tool: Tool, scope: ToolScope) => Promise<Result>,
): Promise<Result | ToolResult | undefined> {
  const safe = planned.kind === "execute" ? planned.tool.ownDeadline : planned.arguments === undefined;
  return safe && !context.control.failure ? executeCall(context, turn, planned, work) : OUTCOME_UNKNOWN;
}

/** What the client said about its call. */
function clientCallResult({ toolResultMaxChars }: RunContext, record: CallRecord): ToolResult {
  const callId = record.id;
  if (!isClientResult(record.result)) return { ...OUTCOME_UNKNOWN, callId };
  const content = textForModel(record.result, toolResultMaxChars);
  return { success: !record.result.isError, content, isCapped: true, callId };
}

/** A call that somebody decided about. What an earlier process began after that is not begun again. */
async function decidedCall(
  context: RunContext,
  turn: number,
  planned: PlannedCall,
  record: CallRecord,
): Promise<ToolResult | undefined> {
  const callId = record.id;
  const decided = approvalValueSchema.safeParse(record.result);
  if (decided.data?.decision !== "approve") {
    const why = decided.data?.message ? ` They said: ${decided.data.message}` : "";
    return { ...failedCall(`Not executed: a person rejected the call.${why}`), callId };
  }
  const result =
    turn <= context.control.inheritedTurn
      ? await executeInherited(context, turn, planned, executeTool)
      : await executeCall(context, turn, planned, executeTool, true);
  return result && { ...result, callId };
}

/** A call with a record: what its tool makes of it, or without the tool the stored result. */
async function recoverCall(context: RunContext, record: CallRecord): Promise<ToolResult | undefined> {
  const { calls, clock } = context.services;
  const tool = context.tools.get(record.tool);
  if (!tool?.recover) {
    const stored = isOpenCall(record) ? await settleAsLost(calls, record, clock.nowMs()) : record.result;
    if (record.face === "bridge") return bridgeToolResult({ id: record.id, result: stored });
    return { success: isDone(stored), content: JSON.stringify(stored), callId: record.id };
  }
  const recover = tool.recover.bind(tool);
  const { sessionId, runId, agent, turn, position, providerCallId } = record;
  const invocation = { sessionId, runId, agent, turn, position, providerCallId, arguments: record.arguments };
  const result = await runTool(context, tool, invocation, (scope) => recover(record, scope));
  return result && { callId: record.id, ...result };
}

function isDone(result: unknown): boolean {
  return typeof result === "object" && result !== null && "success" in result && result.success === true;
}
