import type { Backend, Write } from "@leafmesh/core";
import { createPendingCalls } from "@leafmesh/core/calls";
import { createEmbeddedBackend } from "@leafmesh/core/storage/embedded";
import { type AskResult, silentLogger } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { afterEach, expect, it } from "vitest";
import { AskRecord } from "./ask-record.ts";

const opened: Backend[] = [];
afterEach(async () => {
  for (const backend of opened.splice(0)) await backend.close();
});

const DONE: AskResult = { outcome: "done", success: true, device: "phone" };
const SETTLEMENT = { state: "answered", reached: "yes", result: DONE } as const;
const CALL = { id: "ask_1", sessionId: "s", runId: "r", agent: "a", turn: 1, position: 0 } as const;
const event = (type: "ask.back" | "ask.accepted") => ({ type, payload: { ask_id: "ask_1", device: "phone" } }) as const;

/** A record whose call is stored, and the writes of every commit from then on. */
async function createdRecord() {
  const clock = createFakeClock();
  const backend = createEmbeddedBackend({ path: ":memory:", durable: false, clock, logger: silentLogger });
  opened.push(backend);
  await backend.migrate();
  const at = clock.nowMs();
  const session = { id: "s", meshName: "m", entryPoint: "chat", createdAt: at, lastActiveAt: at, context: {} };
  const run = { id: "r", sessionId: "s", agent: "a", status: "running", input: "", createdAt: at } as const;
  await backend.commit([
    { kind: "session.create", session },
    { kind: "run.create", run: { ...run, deadlineAt: at + 60_000, version: 1 } },
  ]);
  const commits: string[][] = [];
  const commit: Backend["commit"] = (writes) => {
    commits.push(writes.map(nameOf));
    return backend.commit(writes);
  };
  const calls = createPendingCalls({ backend: { ...backend, queue: backend.queue, commit }, clock, newId: (p) => p });
  const record = new AskRecord({ calls, clock, logger: silentLogger });
  const call = { ...CALL, providerCallId: "c", tool: "device_action", arguments: {}, device: "phone" };
  expect(await record.create({ ...call, expiresAt: at + 60_000 }, {})).toEqual({ status: "stored" });
  commits.length = 0;
  return { record, backend, commits, calls };
}

function nameOf(write: Write): string {
  if (write.kind === "event.append") return write.event.type;
  return write.kind === "call.update" ? `call ${write.patch.state}` : write.kind;
}

it("stores what happened together with the step that follows from it", async () => {
  const { record, commits } = await createdRecord();
  record.note({ events: [event("ask.back")] });
  expect(await record.advance({ state: "offered", reached: "maybe" }, {})).toEqual({ status: "stored" });
  expect(commits).toEqual([["call offered", "ask.back"]]);
});

it("stores what happened by itself when nothing follows", async () => {
  const { record, commits } = await createdRecord();
  record.note({ events: [event("ask.back")] });
  expect(await record.fact({ state: "claimed", reached: "yes" }, { events: [event("ask.accepted")] })).toEqual({
    status: "stored",
  });
  expect(commits).toEqual([["call claimed", "ask.back", "ask.accepted"]]);
});

it("stores a fact with the outcome that overtakes it, and leaves a step out", async () => {
  const { record, backend, commits } = await createdRecord();
  const fact = record.fact({ state: "claimed", reached: "yes" }, { events: [event("ask.accepted")] });
  const step = record.advance({ state: "offered" }, { offers: [{ channel: "task", via: "leafmesh" }] });
  expect(await record.settle(SETTLEMENT, {})).toEqual(DONE);
  expect(await step).toEqual({ status: "gone" });
  expect(await fact).toEqual({ status: "stored" });
  expect(commits).toEqual([["call answered", "wait.update", "ask.accepted"]]);
  expect(await backend.call("ask_1")).toMatchObject({ state: "answered", version: 2 });
});

it("takes no step once the outcome is asked for", async () => {
  const { record } = await createdRecord();
  const settled = record.settle(SETTLEMENT, {});
  expect(await record.advance({ state: "offered" }, {})).toEqual({ status: "gone" });
  await settled;
});

it("keeps what happened here although somebody else stored the outcome", async () => {
  const { record, backend, calls, commits } = await createdRecord();
  const call = await backend.call("ask_1");
  if (!call) throw new Error("the call is not stored");
  const theirs: AskResult = { outcome: "failed", success: false, error: "gone", may_have_happened: true };
  await calls.settle(call, { state: "lost", reached: "maybe", result: theirs });
  commits.length = 0;
  record.note({ events: [event("ask.back")] });
  expect(await record.settle(SETTLEMENT, {})).toEqual(theirs);
  expect(commits.at(-1)).toEqual(["ask.back"]);
});

it("is idle when everything that was asked for is stored", async () => {
  const { record, commits } = await createdRecord();
  record.note({ events: [event("ask.back")] });
  await record.idle();
  expect(commits).toEqual([["ask.back"]]);
  record.note({ events: [event("ask.back")] });
  await record.idle();
  expect(commits).toHaveLength(2);
});
