import { type AskResult, silentLogger } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import type { Backend } from "../storage/contract.ts";
import { createEmbeddedBackend } from "../storage/embedded/index.ts";
import { createPendingCalls, type Moved, type NewCall, type OpenCall, type Settlement } from "./pending-calls.ts";

const opened: Backend[] = [];
afterEach(async () => {
  for (const backend of opened.splice(0)) await backend.close();
});

async function createWorld() {
  const clock = createFakeClock(1_000);
  const backend = createEmbeddedBackend({ path: ":memory:", durable: false, clock, logger: silentLogger });
  opened.push(backend);
  await backend.migrate();
  await backend.commit([
    {
      kind: "session.create",
      session: { id: "s1", meshName: "m", entryPoint: "chat", createdAt: 0, lastActiveAt: 0, context: {} },
    },
    {
      kind: "run.create",
      run: {
        id: "r1",
        sessionId: "s1",
        agent: "a",
        status: "running",
        input: "",
        createdAt: 0,
        deadlineAt: 9,
        version: 1,
      },
    },
  ]);
  let ids = 0;
  const calls = createPendingCalls({ backend, clock, newId: (prefix) => `${prefix}_${++ids}` });
  return { clock, backend, calls };
}

function call(id: string): NewCall {
  return {
    id,
    sessionId: "s1",
    runId: "r1",
    agent: "a",
    turn: 1,
    position: 0,
    providerCallId: "call_0",
    tool: "device_action",
    arguments: { action: "read_battery" },
    device: "phone-7",
    expiresAt: 61_000,
  };
}

const DONE: AskResult = { outcome: "done", success: true, device: "phone-7" };
const ANSWERED: Settlement = { state: "answered", reached: "yes", result: DONE };
const LOST: Settlement = {
  state: "lost",
  reached: "maybe",
  result: { outcome: "failed", success: false, error: "Gone.", reason: "connection_lost", may_have_happened: true },
};

function moved(result: Moved): OpenCall {
  if (result.status !== "moved") throw new Error(`expected a move, got ${result.status}`);
  return result.call;
}

const settledEvent = (result: AskResult) =>
  ({ type: "ask.settled", payload: { ask_id: "ask_1", duration_ms: 5, result } }) as const;

describe("a call", () => {
  it("is stored with its wait, its events and its offers, each move in one commit", async () => {
    const { backend, calls, clock } = await createWorld();
    const open = moved(await calls.open(call("ask_1")));
    expect(open).toEqual({ id: "ask_1", waitId: "wait_1", sessionId: "s1", version: 1 });
    expect(await backend.wait("wait_1")).toMatchObject({ state: "open", callIds: ["ask_1"], deadlineAt: 61_000 });
    await clock.advance(500);
    const offered = moved(
      await calls.advance(
        open,
        { state: "offered", reached: "maybe", room: { connection: null, label: "room-1" } },
        { offers: [{ channel: "task", via: "leafmesh" }] },
      ),
    );
    expect(await backend.call("ask_1")).toMatchObject({
      state: "offered",
      reached: "maybe",
      version: 2,
      createdAt: 1_000,
    });
    expect(await backend.offers("ask_1")).toEqual([{ callId: "ask_1", channel: "task", via: "leafmesh", at: 1_500 }]);
    moved(await calls.settle(offered, ANSWERED, { events: [settledEvent(DONE)] }));
    expect(await backend.call("ask_1")).toMatchObject({
      state: "answered",
      outcome: "done",
      result: DONE,
      reached: "yes",
      settledAt: 1_500,
      version: 3,
    });
    expect(await backend.wait("wait_1")).toMatchObject({ state: "complete" });
    expect((await backend.events("s1")).map(({ type }) => type)).toEqual(["ask.settled"]);
  });

  it("can be stored with its result used from the start", async () => {
    const { backend, calls } = await createWorld();
    const refused = { outcome: "refused", success: false, error: "No.", reason: "no_action" } as const;
    const settlement = { state: "undeliverable", reached: "no", result: refused } as const;
    const writes = calls.usedWrites(call("ask_1"), settlement, { events: [settledEvent(refused)] });
    expect(await backend.commit(writes)).toMatchObject({ committed: true });
    const stored = {
      state: "used",
      outcome: "refused",
      reached: "no",
      result: refused,
      settledAt: 1_000,
      usedAt: 1_000,
    };
    expect(await backend.call("ask_1")).toMatchObject(stored);
    expect(await backend.wait("wait_1")).toMatchObject({ state: "continued", callIds: ["ask_1"] });
    expect((await backend.events("s1")).map(({ type }) => type)).toEqual(["ask.settled"]);
  });

  it("is settled once: the second learns the first outcome and writes nothing", async () => {
    const { backend, calls } = await createWorld();
    const open = moved(await calls.open(call("ask_1")));
    moved(await calls.settle(open, ANSWERED, { events: [settledEvent(DONE)] }));
    const second = await calls.settle(open, LOST, { events: [settledEvent(LOST.result)] });
    expect(second).toMatchObject({ status: "settled", call: { state: "answered", result: DONE } });
    expect(await calls.advance(open, { state: "claimed" })).toMatchObject({ status: "settled" });
    expect(await backend.events("s1")).toHaveLength(1);
  });

  it("is moved by one who saw an older version, as long as it is open", async () => {
    const { backend, calls } = await createWorld();
    const open = moved(await calls.open(call("ask_1")));
    moved(await calls.advance(open, { state: "reaching" }));
    expect(moved(await calls.settle(open, LOST)).version).toBe(3);
    expect(await backend.call("ask_1")).toMatchObject({ state: "lost" });
  });

  it("is found by one who does not know whether its own creation was stored", async () => {
    const { backend, calls } = await createWorld();
    const blind: OpenCall = { id: "ask_1", waitId: "", sessionId: "s1", version: 0 };
    expect(await calls.settle(blind, LOST)).toEqual({ status: "gone" });
    moved(await calls.open(call("ask_1")));
    moved(await calls.settle(blind, LOST));
    expect(await backend.wait("wait_1")).toMatchObject({ state: "complete" });
  });

  it("is not opened in a session that has ended", async () => {
    const { backend, calls } = await createWorld();
    const open = moved(await calls.open(call("ask_1")));
    await backend.commit([{ kind: "session.end", sessionId: "s1", at: 2_000 }]);
    expect(await calls.open(call("ask_2"))).toEqual({ status: "gone" });
    expect(await backend.call("ask_2")).toBeUndefined();
    moved(await calls.settle(open, LOST));
  });

  it("has an id of its own", async () => {
    const { calls } = await createWorld();
    moved(await calls.open(call("ask_1")));
    await expect(calls.open(call("ask_1"))).rejects.toThrow("ask_1 exists already");
  });

  it("keeps what is noted about it after its end", async () => {
    const { backend, calls } = await createWorld();
    const open = moved(await calls.open(call("ask_1")));
    moved(await calls.settle(open, LOST));
    await calls.note(open, {
      events: [{ type: "ask.late_reply", payload: { ask_id: "ask_1", device: "phone-7", outcome: "done" } }],
    });
    expect((await backend.events("s1")).map(({ type }) => type)).toEqual(["ask.late_reply"]);
  });
});

describe("any number of processes", { timeout: 60_000 }, () => {
  const step = fc.constantFrom("reaching", "offered", "claimed", "answered", "lost");

  it("settle a call once, and all that try agree on how", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(step, { maxLength: 4 }), { minLength: 2, maxLength: 4 }), async (lives) => {
        const { backend, calls } = await createWorld();
        const open = moved(await calls.open(call("ask_1")));
        const outcomes: unknown[] = [];
        await Promise.all(
          lives.map(async (life) => {
            let seen = open;
            for (const to of [...life, "lost" as const]) {
              const settlement = to === "answered" ? ANSWERED : LOST;
              const isEnd = to === "answered" || to === "lost";
              const result = isEnd
                ? await calls.settle(seen, settlement, { events: [settledEvent(settlement.result)] })
                : await calls.advance(seen, { state: to });
              if (result.status === "settled") return void outcomes.push(result.call.outcome);
              if (isEnd) return void outcomes.push(settlement.result.outcome);
              seen = moved(result);
            }
          }),
        );
        const stored = await backend.call("ask_1");
        expect(new Set(outcomes)).toEqual(new Set([stored?.outcome]));
        expect(await backend.events("s1", { types: ["ask.settled"] })).toHaveLength(1);
        expect(await backend.wait("wait_1")).toMatchObject({ state: "complete" });
      }),
      { numRuns: 100 },
    );
  });
});
