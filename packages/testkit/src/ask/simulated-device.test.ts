import type { DeviceEnvelope, Ring, TaskEnvelope } from "@leafmesh/protocol";
import type { RoomEvent } from "@leafmesh/rooms/contract";
import { describe, expect, it } from "vitest";
import { createFakeClock } from "../fake-clock.ts";
import type { FaultPlan } from "./fault-plan.ts";
import { FaultyRooms } from "./faulty-rooms.ts";
import { SimulatedDevice } from "./simulated-device.ts";

const CALM: FaultPlan = { answer: "done", latencyMs: 10, joinAfterMs: 100, workMs: 1_000, clockOffMs: 0, seed: 1 };

/** A room, and a device that was rung into it. */
async function createWorld(plan: Partial<FaultPlan> = {}) {
  const clock = createFakeClock();
  const planOf = (): FaultPlan => ({ ...CALM, ...plan });
  const rooms = new FaultyRooms({ clock, planOf, surviveTheMesh: false });
  const device = new SimulatedDevice({ clock, planOf, roomOf: (ring) => rooms.of(ring.ask) });
  const opening = rooms.open({
    askId: "ask_1",
    deviceId: "phone",
    approval: "ask",
    joinWithinMs: 60_000,
    lifetimeMs: 1,
  });
  await clock.advance(10);
  const room = await opening;
  const events: RoomEvent[] = [];
  void (async () => {
    for await (const event of room.events) events.push(event);
  })();
  const ring: Ring = {
    v: 1,
    ask: "ask_1",
    device: "phone",
    approval: "ask",
    iat: clock.nowMs() / 1000,
    exp: clock.nowMs() / 1000 + 60,
    join: room.join,
  };
  device.ring(ring);
  await clock.advance(200);
  const task = (more: Partial<TaskEnvelope> = {}): TaskEnvelope => ({
    type: "task",
    id: "ask_1",
    action: "a",
    inputs: {},
    budget_ms: 60_000,
    expires_at: clock.nowMs() / 1000 + 60,
    ...more,
  });
  const send = async (given: TaskEnvelope = task()) => {
    const sending = room.send(given, new AbortController().signal);
    await clock.advance(20);
    return sending;
  };
  const said = (): readonly DeviceEnvelope[] =>
    events.flatMap((event) => (event.type === "frame" ? [event.envelope] : []));
  return { clock, device, room, ring, events, task, send, said, deeds: () => device.ledger.deeds("ask_1") };
}

describe("a device that keeps to the rules", () => {
  it("joins, stores, accepts, acts once, answers", async () => {
    const world = await createWorld();
    expect(world.events).toEqual([{ type: "joined", capabilities: undefined }]);
    expect(await world.send()).toEqual({ status: "handed" });
    await world.clock.advance(5_000);
    expect(world.said().map(({ type }) => type)).toEqual(["accepted", "progress", "reply"]);
    expect(world.said().at(-1)).toMatchObject({ outcome: "done", data: { did: "ask_1" } });
    expect(world.deeds()).toEqual({ starts: 1, effects: 1, ignored: 0 });
  });

  it("answers a repeat from its record", async () => {
    const world = await createWorld({ send: "twice" });
    await world.send();
    await world.clock.advance(20_000);
    expect(world.deeds()).toEqual({ starts: 1, effects: 1, ignored: 1 });
  });

  it("does not begin what has expired", async () => {
    const world = await createWorld();
    await world.send(world.task({ expires_at: world.clock.nowMs() / 1000 - 1 }));
    await world.clock.advance(5_000);
    expect(world.deeds()).toEqual({ starts: 0, effects: 0, ignored: 1 });
    expect(world.said()).toEqual([]);
  });

  it("does not begin when the room is closed before it has the task", async () => {
    const world = await createWorld({ send: "very_late" });
    await world.send(world.task({ expires_at: world.clock.nowMs() / 1000 + 900 }));
    void world.room.close("over");
    await world.clock.advance(300_000);
    expect(world.deeds()).toEqual({ starts: 0, effects: 0, ignored: 0 });
  });

  it("does not know after a crash, and never begins again", async () => {
    const world = await createWorld({ crash: "while_acting" });
    await world.send();
    await world.clock.advance(60_000);
    expect(world.deeds().starts).toBe(1);
    expect(world.device.ledger.entry("ask_1")?.reply).toMatchObject({
      outcome: "failed",
      error: { code: "outcome_unknown", may_have_happened: true },
    });
  });

  it("takes a second ring of the same ask for the first", async () => {
    const world = await createWorld();
    world.device.ring(world.ring);
    await world.clock.advance(1_000);
    expect(world.events).toHaveLength(1);
  });
});

describe("a room that goes wrong", () => {
  it("says that a task did not leave only when it did not", async () => {
    const world = await createWorld({ send: "not_handed" });
    expect(await world.send()).toMatchObject({ status: "not_handed" });
    await world.clock.advance(300_000);
    expect(world.deeds().starts).toBe(0);
  });

  it("says that a task never arrived only when it never will", async () => {
    const world = await createWorld({ room: { type: "link_down", afterMs: 300, back: false } });
    await world.clock.advance(200);
    await world.send();
    await world.clock.advance(300_000);
    expect(world.events.at(-1)).toEqual({ type: "left", reason: "lost", delivered: "no" });
    expect(world.room).toMatchObject({ record: { saidNeverDelivered: true } });
    expect(world.deeds().starts).toBe(0);
  });

  it("takes no task any more once the device is gone", async () => {
    const world = await createWorld({ join: "leaves_at_once" });
    expect(world.events.at(-1)).toMatchObject({ type: "left", reason: "left", delivered: "no" });
    expect(await world.send()).toMatchObject({ status: "not_handed" });
  });

  it("lets nobody in who comes too late", async () => {
    const world = await createWorld({ joinAfterMs: 5_000 });
    void world.room.close("over");
    await world.clock.advance(10_000);
    expect(world.events).toEqual([]);
  });
});
