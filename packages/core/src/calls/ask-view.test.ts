import { type AskResult, askViewSchema, type SessionEvent, silentLogger } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { afterEach, describe, expect, it } from "vitest";
import type { Backend } from "../storage/contract.ts";
import { createEmbeddedBackend } from "../storage/embedded/index.ts";
import { getAsk, listAsks } from "./ask-view.ts";
import { createPendingCalls } from "./pending-calls.ts";

const opened: Backend[] = [];
afterEach(async () => {
  for (const backend of opened.splice(0)) await backend.close();
});

const DONE: AskResult = { outcome: "done", success: true, device: "phone-7", data: { level: 80 } };

/** Two conversations: s1 with an ask that ended and one that waits, s2 with one that waits. */
async function createWorld() {
  const clock = createFakeClock(1_000_000);
  const backend = createEmbeddedBackend({ path: ":memory:", durable: false, clock, logger: silentLogger });
  opened.push(backend);
  await backend.migrate();
  for (const id of ["s1", "s2"]) {
    await backend.commit([
      {
        kind: "session.create",
        session: { id, meshName: "m", entryPoint: "chat", createdAt: 0, lastActiveAt: 0, context: {} },
      },
      {
        kind: "run.create",
        run: {
          id: `r-${id}`,
          sessionId: id,
          agent: "a",
          status: "running",
          input: "",
          createdAt: 0,
          deadlineAt: 9,
          version: 1,
        },
      },
    ]);
  }
  let ids = 0;
  const calls = createPendingCalls({ backend, clock, newId: (prefix) => `${prefix}_${++ids}` });
  const created = (id: string): SessionEvent => ({
    type: "ask.created",
    payload: {
      ask_id: id,
      device: "phone-7",
      run_id: "r",
      agent: "a",
      action: "read_battery",
      approval: "ask",
      join_by: 1_060,
    },
  });
  const open = async (id: string, sessionId: string) => {
    await clock.advance(1_000);
    const place = { sessionId, runId: `r-${sessionId}`, agent: "a", turn: 1, position: 0, providerCallId: "c" };
    const asked = { tool: "device_action", arguments: { action: "read_battery", inputs: { unit: "percent" } } };
    const moved = await calls.open(
      { id, ...place, ...asked, device: "phone-7", expiresAt: 0 },
      { events: [created(id)] },
    );
    if (moved.status !== "moved") throw new Error(moved.status);
    return moved.call;
  };
  const first = await open("ask_1", "s1");
  await clock.advance(250);
  await calls.note(first, { offers: [{ channel: "ring", via: "phones", error: "transient: busy" }] });
  await clock.advance(250);
  await calls.settle(
    first,
    { state: "answered", reached: "yes", result: DONE },
    { events: [{ type: "ask.settled", payload: { ask_id: "ask_1", duration_ms: 500, result: DONE } }] },
  );
  await open("ask_2", "s2");
  await open("ask_3", "s1");
  return { backend };
}

const idsOf = (asks: readonly { readonly ask_id: string }[]) => asks.map(({ ask_id }) => ask_id);

describe("an ask as people see it", () => {
  it("has what was asked, how it ended, and all that happened in order", async () => {
    const { backend } = await createWorld();
    const ask = await getAsk(backend, "ask_1");
    expect(askViewSchema.parse(ask)).toEqual({
      ask_id: "ask_1",
      session_id: "s1",
      run_id: "r-s1",
      agent: "a",
      device: "phone-7",
      action: "read_battery",
      inputs: { unit: "percent" },
      state: "settled",
      created_at: 1_001,
      settled_at: 1_001.5,
      result: DONE,
      timeline: [
        { ts: 1_001, type: "ask.created", payload: expect.objectContaining({ ask_id: "ask_1" }) },
        { ts: 1_001.25, type: "offer.failed", payload: { channel: "ring", via: "phones", error: "transient: busy" } },
        { ts: 1_001.5, type: "ask.settled", payload: expect.objectContaining({ duration_ms: 500 }) },
      ],
    });
  });

  it("waits in the state that is stored", async () => {
    const { backend } = await createWorld();
    expect(await getAsk(backend, "ask_3")).toMatchObject({ state: "created" });
    expect(await getAsk(backend, "ask_3")).not.toHaveProperty("result");
    expect(await getAsk(backend, "ask_99")).toBeUndefined();
  });
});

describe("a list of asks", () => {
  it("is newest first, across conversations or of one", async () => {
    const { backend } = await createWorld();
    expect(idsOf(await listAsks(backend, { limit: 10 }))).toEqual(["ask_3", "ask_2", "ask_1"]);
    expect(idsOf(await listAsks(backend, { limit: 2 }))).toEqual(["ask_3", "ask_2"]);
    expect(idsOf(await listAsks(backend, { sessionId: "s1", limit: 10 }))).toEqual(["ask_3", "ask_1"]);
  });

  it("is of those that wait, or of those that have ended", async () => {
    const { backend } = await createWorld();
    expect(idsOf(await listAsks(backend, { open: true, limit: 10 }))).toEqual(["ask_3", "ask_2"]);
    expect(idsOf(await listAsks(backend, { open: false, limit: 10 }))).toEqual(["ask_1"]);
  });

  it("gives each its own timeline", async () => {
    const { backend } = await createWorld();
    const asks = await listAsks(backend, { limit: 10 });
    expect(asks.map(({ timeline }) => timeline.length)).toEqual([1, 1, 3]);
  });
});
