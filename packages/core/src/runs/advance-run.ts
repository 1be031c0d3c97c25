/**
 * One attempt to carry a run to its end, from what is stored of it. The stored messages are the journal: an answer and
 * the calls it asks for are stored before a call is executed, and the results of all its calls before the model is
 * asked again. So an attempt may stop anywhere, and the next one, in this process or another, goes on from there.
 */

import { closeSuspended } from "../client-tools/closing.ts";
import {
  callerOutput,
  callsForCaller,
  deadlineOf,
  type NeededAnswer,
  neededAnswer,
  planSuspension,
} from "../client-tools/suspension.ts";
import type { Agent } from "../config/mesh.ts";
import type { ModelAnswer, ModelToolCall } from "../models/contract.ts";
import type { StoredMessage, Write } from "../storage/contract.ts";
import type { Tool } from "../tools/contract.ts";
import { countToolCalls, type Entry, openGroup, toChatMessages } from "./conversation.ts";
import type { MeshLease } from "./mesh-leases.ts";
import { askModel } from "./model-turn.ts";
import type { RunContext } from "./run-context.ts";
import { callKey, type RunControl } from "./run-control.ts";
import { agentIsGone } from "./run-failures.ts";
import { CommitConflict, commit, type RunServices } from "./run-services.ts";
import { answerWrites, endWrites, type RunEnd, resultMessage, resultWrites, type SettledCall } from "./run-writes.ts";
import { askedAbout, type CallGroup, settleCalls } from "./settle-calls.ts";
import { ImageShelf } from "./shown-images.ts";
import { type Conversation, takeUp } from "./take-up.ts";
import { type PlannedCall, planCalls } from "./tool-plan.ts";
import { usedCallWrites } from "./used-calls.ts";

/**
 * Returns when the run has ended (`control.finish` was called), when it waits for somebody outside (its status is
 * `suspended`), or when a shutdown came first. Rejects with `StorageError` or
 * `CommitConflict` when another attempt is needed, and with anything else for a bug.
 */
export async function advanceRun(control: RunControl, services: RunServices): Promise<void> {
  if (control.isWaiting) return;
  control.lease ??= services.leases.acquire();
  const { lease } = control;
  const agent = control.failure ? undefined : lease.mesh.agents.get(control.run.agent);
  if (!agent) control.failure ??= agentIsGone(control.run.agent);

  if (control.interruption === "shutdown") return;
  if (control.isSuspended) return endSuspended(control, services);
  const early = control.run.startedAt === undefined ? endFromOutside(control) : undefined;
  if (early) return finish(control, services, early);

  const conversation = await takeUp(control, services, agent?.historyLimit ?? 0);
  const context = await openContext(control, services, lease, agent);
  const images = new ImageShelf(services.uploads, services.logger);
  let group = inheritedGroup(context, conversation, agent);
  for (;;) {
    if (group) {
      if (await waitsForAnswer(context, group)) return;
      const settled = await settleCalls(context, group);
      if (!settled) return;
      await storeResults(context, conversation, group, settled);
      if (control.isFinished) return;
      group = undefined;
    }
    const end = endFromOutside(control);
    if (end) return finish(control, services, end);
    if (control.interruption || !agent) return;

    const entries = [...conversation.earlier, ...conversation.own];
    const asked = await askModel(control, services, {
      lease,
      agent,
      messages: toChatMessages(agent.prompt, entries, await images.choose(entries)),
      tools: context.definitions,
      turn: nextTurn(conversation),
      toolsSpent: areToolsSpent(conversation, agent),
    });
    if (asked.status === "failed") return finish(control, services, { status: "failed", error: asked.error });
    if (asked.status === "answered") group = await storeAnswer(context, conversation, agent, asked.answer);
    if (control.isFinished || control.isSuspended) return;
  }
}

/** An end that does not come from the run's own course. */
function endFromOutside(control: RunControl): RunEnd | undefined {
  if (control.interruption === "cancelled") {
    return { status: "cancelled", error: { code: "cancelled", message: "The run was cancelled." } };
  }
  if (control.interruption === "timed_out") {
    return { status: "timed_out", error: { code: "timed_out", message: "The run was not done at its deadline." } };
  }
  return control.failure && { status: "failed", error: control.failure };
}

async function openContext(
  control: RunControl,
  services: RunServices,
  { mesh }: MeshLease,
  agent: Agent | undefined,
): Promise<RunContext> {
  const tools = new Map<string, Tool>();
  const waitsForClient = control.run.options?.clientTools === "suspend";
  const isShown = (tool: Tool): boolean => waitsForClient || !tool.isClientOwned;
  if (agent) {
    const { id: runId, sessionId, deviceTools } = control.run;
    const request = { sessionId, runId, mesh, deviceTools };
    for (const provider of services.toolProviders) {
      for (const tool of await provider.toolsFor(agent, request)) tools.set(tool.definition.name, tool);
    }
  }
  return {
    control,
    services,
    tools,
    definitions: [...tools.values()].filter(isShown).map((tool) => tool.definition),
    toolCallTimeoutMs: agent?.toolCallTimeoutMs ?? 0,
    parallelToolCalls: agent?.allowParallelToolCalls ?? true,
    toolResultMaxChars: mesh.limits.toolResultMaxChars,
  };
}

/** Calls that an earlier attempt stored and did not settle. */
function inheritedGroup(context: RunContext, { own }: Conversation, agent: Agent | undefined): CallGroup | undefined {
  const open = openGroup(own);
  if (!open) return undefined;
  const before = countToolCalls(own) - open.calls.length;
  const limit = agent?.maxToolCallsPerMessage ?? 0;
  return { turn: open.turn, plan: planCalls(open.calls, context.tools, before, limit, shownNames(context)) };
}

function shownNames({ definitions }: RunContext): readonly string[] {
  return definitions.map(({ name }) => name);
}

function nextTurn({ own }: Conversation): number {
  return (own.at(-1)?.turn ?? 0) + 1;
}

function areToolsSpent({ own }: Conversation, { maxToolCallsPerMessage }: Agent): boolean {
  return maxToolCallsPerMessage === 0 || countToolCalls(own) > maxToolCallsPerMessage;
}

/** Stores the answer: as the reply, which ends the run, or with the calls that are to be executed next. */
async function storeAnswer(
  context: RunContext,
  conversation: Conversation,
  agent: Agent,
  answer: ModelAnswer,
): Promise<CallGroup | undefined> {
  const { control, services, tools } = context;
  const { run } = control;
  const at = services.clock.nowMs();
  const turn = nextTurn(conversation);
  if (answer.toolCalls.length === 0) {
    const reply = answer.content ?? "";
    const end = endWrites(run, at, { status: "succeeded", reply });
    const message: StoredMessage = { role: "assistant", content: reply };
    await commit(services.backend, [...answerWrites(run, at, turn, answer, message, []), ...end.writes]);
    control.finish({ ...run, ...end.patch, version: run.version + 1 });
    return undefined;
  }
  const toolCalls = withOwnIds(answer.toolCalls, turn);
  const before = countToolCalls(conversation.own);
  const plan = planCalls(toolCalls, tools, before, agent.maxToolCallsPerMessage, shownNames(context));
  const message: StoredMessage = { role: "assistant", content: answer.content || null, toolCalls };
  const writes = answerWrites(run, at, turn, answer, message, plan);
  const needed = control.isOver ? undefined : neededAnswer(run, plan, new Map());
  if (needed) {
    await suspend(context, turn, needed, writes);
    return undefined;
  }
  if (!control.isOver && callsForCaller(run, plan).length > 0) {
    await endWithCalls(context, turn, plan, message, writes);
    return undefined;
  }
  await commit(services.backend, writes);
  conversation.own.push({ turn, message });
  return { turn, plan };
}

/** Whether the calls of the group cannot be settled before somebody outside has answered; if so that is stored. */
async function waitsForAnswer(context: RunContext, group: CallGroup): Promise<boolean> {
  const { control } = context;
  if (control.isOver || control.failure || control.interruption) return false;
  if (group.turn !== control.answeredTurn && group.turn > control.inheritedTurn) return false;
  const needed = neededAnswer(control.run, group.plan, await askedAbout(context, group.turn));
  if (needed) await suspend(context, group.turn, needed, []);
  return needed !== undefined;
}

/** One commit: what came before, and that the run waits. Nothing of the turn is executed first. */
async function suspend(
  { control, services }: RunContext,
  turn: number,
  needed: NeededAnswer,
  before: readonly Write[],
): Promise<void> {
  const { run } = control;
  const at = services.clock.nowMs();
  const deadlineAt = deadlineOf(run, needed, at, control.deadlineAtMs);
  const { calls, patch, writes } = planSuspension(run, at, turn, needed, deadlineAt, services.newId);
  const opened = await services.calls.openGroup(
    calls,
    { startedAt: at, deadlineAt },
    { writes: [...before, ...writes] },
  );
  if (opened.status !== "moved") throw new CommitConflict({ committed: false, at: 0, reason: "conflict" }, writes);
  control.run = { ...run, ...patch, version: run.version + 1 };
  services.onSuspended({ id: opened.waitId, runId: run.id, deadlineAt });
}

/** The caller may execute the calls, not this run: nothing of the turn is executed. */
async function endWithCalls(
  { control, services }: RunContext,
  turn: number,
  plan: readonly PlannedCall[],
  message: StoredMessage,
  before: readonly Write[],
): Promise<void> {
  const { run } = control;
  const at = services.clock.nowMs();
  const output = callerOutput(message.content, callsForCaller(run, plan));
  const returned = { success: false, content: "error: not executed, returned to the caller" } as const;
  const settled = plan.map((planned) => ({ planned, result: returned, durationMs: 0 }));
  const messages = settled.map((call) => resultMessage(call, Number.POSITIVE_INFINITY));
  const end = endWrites(run, at, { status: "succeeded", reply: message.content ?? "", output });
  await commit(services.backend, [...before, ...resultWrites(run, at, turn, settled, messages), ...end.writes]);
  control.finish({ ...run, ...end.patch, version: run.version + 1 });
}

/** The history tells results apart by the ids of their calls, which some services leave empty or repeat. */
function withOwnIds(calls: readonly ModelToolCall[], turn: number): readonly ModelToolCall[] {
  const seen = new Set(calls.map((call) => call.id));
  if (seen.size === calls.length && !seen.has("")) return calls;
  return calls.map((call, position) => ({ ...call, id: `call_${turn}_${position}` }));
}

/** One commit: all results in asked order, their records used, and the run's end if it is over. */
async function storeResults(
  { control, services, toolResultMaxChars }: RunContext,
  conversation: Conversation,
  { turn }: CallGroup,
  settled: readonly SettledCall[],
): Promise<void> {
  const { run } = control;
  const at = services.clock.nowMs();
  const messages = settled.map((call) => resultMessage(call, toolResultMaxChars));
  const used = await usedCallWrites(services, run, turn, settled, at);
  const over = endFromOutside(control);
  const end = over && endWrites(run, at, over);
  const writes = [...used, ...resultWrites(run, at, turn, settled, messages), ...(end?.writes ?? [])];
  await commit(services.backend, writes).catch((error: unknown) => {
    // An ended session takes no new records: another attempt does without.
    for (const { planned, result } of error instanceof CommitConflict ? settled : []) {
      if (result.records) control.settle(callKey(turn, planned.position), { ...result, records: undefined });
    }
    throw error;
  });
  for (const [index, message] of messages.entries()) {
    const call = settled[index];
    conversation.own.push({ turn, message, images: call?.result.images } satisfies Entry);
    if (call) control.forget(callKey(turn, call.planned.position));
  }
  if (end) control.finish({ ...run, ...end.patch, version: run.version + 1 });
}

async function endSuspended(control: RunControl, services: RunServices): Promise<void> {
  const end = endFromOutside(control);
  if (end) control.finish(await closeSuspended(services, control.run, end, services.clock.nowMs()));
}

async function finish(control: RunControl, services: RunServices, end: RunEnd): Promise<void> {
  const { run } = control;
  const { writes, patch } = endWrites(run, services.clock.nowMs(), end);
  await commit(services.backend, writes);
  control.finish({ ...run, ...patch, version: run.version + 1 });
}
