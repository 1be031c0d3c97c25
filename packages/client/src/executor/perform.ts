/**
 * Running calls at most once, whatever is delivered how often, and bringing what came of them. The order of one call: known
 * in the ledger? known tool? allowed now? entered in the ledger, run, entered again, brought, closed.
 */
import { aborted, type Clock } from "@leafmesh/protocol";
import { LeafMeshError } from "../errors.ts";
import { retrying } from "../wait.ts";
import { type Answer, answerOf, answerOfThrown, failed } from "./answer.ts";
import type { CallEntry, CallLedger } from "./entries.ts";
import type { ExecutorEvent } from "./events.ts";
import { holding, type Locks } from "./locks.ts";
import { CallStopped, type ClientTool, type ToolCall } from "./tool.ts";

/** Whether a call may be run now. A text is the reason why not, for the model. */
export type Allow = (call: ToolCall) => boolean | string | Promise<boolean | string>;

export interface PerformServices {
  readonly tools: Readonly<Record<string, ClientTool>>;
  readonly ledger: CallLedger;
  readonly allow: Allow;
  readonly report: (event: ExecutorEvent) => void;
  readonly locks: Locks | undefined;
  readonly clock: Clock;
  readonly random: () => number;
}

/** Calls that are answered together: one of a conversation, or all that a run is suspended for. */
export interface Offer {
  /** Unique for ever. */
  readonly key: string;
  readonly calls: readonly [ToolCall, ...ToolCall[]];
  /** How long an answer is waited for, in milliseconds from now. */
  readonly budgetMs: number;
  /** Aborted, with a `CallStopped` as reason, when no answer is wanted any more. */
  readonly signal: AbortSignal;
  /** Brings the answers, in the order of the calls. Rejects with a {@link LeafMeshError}. */
  deliver(answers: readonly Answer[]): Promise<void>;
}

/** How long a tool may take to end after its time is over. */
const STOP_WITHIN_MS = 2_000;

const NOT_IN_TIME = failed("not_run", "The time was over before the tool was allowed to run");

/** Refusals of an answer that no repeat can change. */
const FINAL_STATUSES: ReadonlySet<number> = new Set([400, 403, 404, 409, 410, 413, 422]);

/** Never rejects. Resolves when nothing is left to be done about the offer. */
export async function perform(services: PerformServices, offer: Offer): Promise<void> {
  const { clock, report, locks } = services;
  const expired = new AbortController();
  const timer = clock.schedule(offer.budgetMs, () => expired.abort(new CallStopped("expired")));
  const signal = AbortSignal.any([offer.signal, expired.signal]);
  const until = clock.monotonicMs() + offer.budgetMs;
  try {
    const alone = await holding(locks, offer.key, () => answerAll(services, offer, signal, until));
    if (!alone) for (const call of offer.calls) report({ type: "elsewhere", call });
  } finally {
    timer.cancel();
  }
}

async function answerAll(services: PerformServices, offer: Offer, signal: AbortSignal, until: number): Promise<void> {
  const answers: Answer[] = [];
  // One after the other, as the model asked: what one call does to a page, the next one may stand on.
  for (const call of offer.calls) {
    const answer = await answerTo(services, call, signal);
    if (!answer) return;
    answers.push(answer);
  }
  if (await bring(services, offer, answers, until)) await close(services, offer.calls);
}

/** `undefined`: there is nothing to say about it, now or ever. */
async function answerTo(services: PerformServices, call: ToolCall, signal: AbortSignal): Promise<Answer | undefined> {
  const { ledger, tools, allow, report, clock } = services;
  let began = false;
  try {
    const known = await ledger.get(call.key);
    if (known) return await answerFrom(services, call, known);
    const tool = Object.hasOwn(tools, call.tool) ? tools[call.tool] : undefined;
    if (!tool) return failed("unknown_tool", `This client has no tool ${call.tool}`);
    const refusal = await Promise.race([refusalOf(allow, call), aborted(signal).then(() => NOT_IN_TIME)]);
    if (refusal) return refusal;
    if (signal.aborted) return NOT_IN_TIME;
    const claimed = await ledger.claim({ id: call.key, at: clock.nowMs(), state: "started" });
    if (claimed) return await answerFrom(services, call, claimed);

    began = true;
    report({ type: "started", call });
    const answer = await run(services, tool, call, signal);
    if (!answer) return undefined;
    report({ type: "answered", call, answer });
    await ledger.put({ id: call.key, at: clock.nowMs(), state: "answered", answer }).catch((error: unknown) => {
      // The answer is known all the same: it is brought, only not remembered.
      report({ type: "ledger_failed", call, error });
    });
    return answer;
  } catch (error) {
    report({ type: "ledger_failed", call, error });
    return began ? undefined : failed("ledger_unavailable", "The client could not record the call and did not run it");
  }
}

/** What is said about a call that came before. */
async function answerFrom(
  { ledger, report }: PerformServices,
  call: ToolCall,
  known: CallEntry,
): Promise<Answer | undefined> {
  if (known.state === "closed") {
    report({ type: "repeated", call });
    return undefined;
  }
  if (known.answer) return known.answer;
  const answer = failed(
    "outcome_unknown",
    "The client was interrupted while it ran this call. It may have happened: check before repeating it.",
  );
  await ledger.put({ ...known, state: "answered", answer });
  report({ type: "answered", call, answer });
  return answer;
}

async function refusalOf(allow: Allow, call: ToolCall): Promise<Answer | undefined> {
  try {
    const allowed = await allow(call);
    if (allowed === true) return undefined;
    return failed("permission_denied", allowed === false ? "The call is not allowed on this client" : allowed);
  } catch (error) {
    return answerOfThrown(error);
  }
}

/** Calls the tool; `undefined` when it does not end in time. */
async function run(
  { report, clock }: PerformServices,
  tool: ClientTool,
  call: ToolCall,
  signal: AbortSignal,
): Promise<Answer | undefined> {
  const ended = invoke(tool, call, signal).then(answerOf, answerOfThrown);
  const patience = new AbortController();
  const gaveUp = aborted(signal).then(
    () =>
      new Promise<undefined>((resolve) => {
        const timer = clock.schedule(STOP_WITHIN_MS, () => resolve(undefined));
        patience.signal.addEventListener("abort", () => timer.cancel());
        if (patience.signal.aborted) timer.cancel();
      }),
  );
  const answer = await Promise.race([ended, gaveUp]);
  patience.abort();
  if (!answer) report({ type: "abandoned", call });
  return answer;
}

/** So that what it throws at once and what it throws later look the same. */
async function invoke(tool: ClientTool, call: ToolCall, signal: AbortSignal): Promise<unknown> {
  return tool.run(call.args, { call, signal });
}

/** True when nothing is owed any more: the mesh has the answers, or has said that it does not want them. */
async function bring(
  { clock, random, report }: PerformServices,
  offer: Offer,
  answers: readonly Answer[],
  until: number,
): Promise<boolean> {
  const each = (event: (call: ToolCall) => ExecutorEvent): void => {
    for (const call of offer.calls) report(event(call));
  };
  try {
    await retrying(() => offer.deliver(answers), {
      clock,
      random,
      signal: undefined,
      goOn: ({ waitMs }) => clock.monotonicMs() + waitMs <= until,
    });
    each((call) => ({ type: "delivered", call }));
    return true;
  } catch (error) {
    const final = error instanceof LeafMeshError && FINAL_STATUSES.has(error.status);
    each((call) => (final ? { type: "refused", call, error } : { type: "undelivered", call, error }));
    return final;
  }
}

/** The answer is forgotten, that there was one is not. */
async function close({ ledger, clock, report }: PerformServices, calls: readonly ToolCall[]): Promise<void> {
  for (const call of calls) {
    try {
      await ledger.put({ id: call.key, at: clock.nowMs(), state: "closed" });
    } catch (error) {
      report({ type: "ledger_failed", call, error });
    }
  }
}
