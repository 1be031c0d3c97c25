/** Where a run stands, from the store: its own messages and what it shows of the conversation before. */
import { setImmediate } from "node:timers/promises";
import type { MessageRecord, RunRecord, Write } from "../storage/contract.ts";
import { type Entry, earlierWindow } from "./conversation.ts";
import { lateNotes, withNotes } from "./late-notes.ts";
import type { RunControl } from "./run-control.ts";
import { commit, type RunServices } from "./run-services.ts";
import { resumeWrites, startWrites } from "./run-writes.ts";

export interface Conversation {
  /** Before this run. */
  readonly earlier: readonly Entry[];
  /** Of this run, the user's message first. Grows with the run. */
  readonly own: Entry[];
}

/** Starts a queued run, or goes on with one that an earlier attempt left or that was answered from outside. */
export async function takeUp(control: RunControl, services: RunServices, historyLimit: number): Promise<Conversation> {
  if (control.begunWithSession) {
    // Whoever sent the message is to listen before the first text comes.
    await setImmediate();
    control.begunWithSession = false;
    return { earlier: [], own: openingOf(control.run) };
  }
  return control.run.startedAt === undefined
    ? begin(control, services, historyLimit)
    : resume(control, services, historyLimit);
}

async function begin(control: RunControl, services: RunServices, historyLimit: number): Promise<Conversation> {
  const { run } = control;
  const earlier = control.opensConversation ? [] : await lastMessages(services, run.sessionId, historyLimit - 1);
  const notes = await lateNotes(services, run);
  const { patch, told } = startWrites(run, services.clock.nowMs());
  const started: Write = { kind: "run.update", runId: run.id, version: run.version, patch };
  await commit(services.backend, [started, ...told, ...notes.writes]);
  control.run = { ...run, ...patch, version: run.version + 1 };
  control.announced = true;
  return { earlier: earlierWindow(earlier, historyLimit - 1), own: withNotes(openingOf(run), notes) };
}

function openingOf({ input }: RunRecord): Entry[] {
  return [{ turn: 0, message: { role: "user", content: input } }];
}

async function resume(control: RunControl, services: RunServices, historyLimit: number): Promise<Conversation> {
  const { run } = control;
  const own = await services.backend.messages(run.sessionId, { runId: run.id });
  const recent = await lastMessages(services, run.sessionId, own.length + historyLimit - 1);
  if (run.status === "queued") await goOn(control, services, own.at(-1)?.turn ?? 0);
  else if (!control.announced) {
    if (control.answeredTurn === undefined) control.inheritedTurn = own.at(-1)?.turn ?? 0;
    await commit(services.backend, resumeWrites(run, services.clock.nowMs()));
    control.announced = true;
  }
  const earlier = recent.filter((message) => message.runId !== run.id);
  const notes = await lateNotes(services, run);
  return { earlier: earlierWindow(earlier, historyLimit - 1), own: withNotes(own, notes) };
}

/** An answer from outside is in the store and nothing else of its turn has been executed. */
async function goOn(control: RunControl, services: RunServices, turn: number): Promise<void> {
  const { run } = control;
  const patch = { status: "running" } as const;
  control.answeredTurn = turn;
  await commit(services.backend, [
    { kind: "run.update", runId: run.id, version: run.version, patch },
    ...resumeWrites(run, services.clock.nowMs()),
  ]);
  control.run = { ...run, ...patch, version: run.version + 1 };
  control.announced = true;
}

async function lastMessages(
  { backend }: RunServices,
  sessionId: string,
  limit: number,
): Promise<readonly MessageRecord[]> {
  return limit <= 0 ? [] : backend.messages(sessionId, { limit });
}
