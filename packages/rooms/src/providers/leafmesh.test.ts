import { randomId, silentLogger, systemClock, type TaskEnvelope } from "@leafmesh/protocol";
import { type ServeRoomsOptions, serveRooms } from "@leafmesh/room-service";
import { describe, expect, it, onTestFinished } from "vitest";
import { joinAsDevice, readRoom } from "../../testing/test-device.ts";
import type { OpenRoom } from "../contract.ts";
import { leafmeshRooms } from "./leafmesh.ts";

const patient = new AbortController().signal;
const request: OpenRoom = {
  askId: "ask_1",
  deviceId: "phone-7",
  approval: "ask",
  joinWithinMs: 30_000,
  lifetimeMs: 60_000,
};
const task: TaskEnvelope = { type: "task", id: "ask_1", action: "battery.read", inputs: {}, budget_ms: 60_000 };

async function start(options: Partial<ServeRoomsOptions> = {}) {
  const server = await serveRooms({ host: "127.0.0.1", port: 0, ...options });
  onTestFinished(() => server.close());
  const definition = leafmeshRooms(() => server.service);
  const provider = definition.create(definition.options.parse({}), {
    clock: systemClock,
    logger: silentLogger,
    newId: randomId,
    scope: { share: (_key, make) => make() },
  });
  const open = async (more: Partial<OpenRoom> = {}) => {
    const room = await provider.open({ ...request, ...more }, patient);
    return { room, read: readRoom(room) };
  };
  return { server, definition, provider, open };
}

describe("the built-in room", () => {
  it("asks the operator for nothing and refuses what is no field", async () => {
    const { definition } = await start();
    expect(definition.options.safeParse({ url: "https://x" }).success).toBe(false);
    expect(definition).toMatchObject({
      provider: "leafmesh",
      traits: { lossSeenWithinMs: 40_000, maxTaskBytes: 32_768 },
    });
  });

  it("starts nothing before the first room", () => {
    const definition = leafmeshRooms(() => {
      throw new Error("not running");
    });
    definition.create(definition.options.parse({}), {
      clock: systemClock,
      logger: silentLogger,
      newId: randomId,
      scope: { share: (_key, make) => make() },
    });
  });

  it("brings a task to the device and its answer back", async () => {
    const { open } = await start();
    const { room, read } = await open();
    expect(room.join).toEqual({
      provider: "leafmesh",
      url: expect.stringMatching(/^ws:/),
      room: room.label,
      token: expect.any(String),
    });
    const device = await joinAsDevice(room, { capabilities: [{ name: "battery.read" }] });
    expect(await read.event("joined")).toEqual({ type: "joined", capabilities: [{ name: "battery.read" }] });
    expect(await room.send(task, patient)).toEqual({ status: "handed" });
    expect(await device.frame("task")).toMatchObject(task);
    device.send({ type: "accepted", id: "ask_1" });
    device.send({ type: "reply", id: "ask_1", outcome: "done", data: { level: 71 } });
    await expect.poll(() => read.events.length).toBe(3);
    expect(read.events.slice(1)).toEqual([
      { type: "frame", envelope: { type: "accepted", id: "ask_1" } },
      { type: "frame", envelope: { type: "reply", id: "ask_1", outcome: "done", data: { level: 71 } } },
    ]);
    await room.cancel("ask_1", "no longer needed");
    await device.frame("cancel");
    await room.close("done");
    expect(await device.closed()).toBe(4000);
    await read.end;
    expect(read.events).toHaveLength(3);
    await room.close("again");
    await room.cancel("ask_1", "too late");
    await expect(room.send(task, patient)).rejects.toThrow("one task");
  });

  it("says what it knows of the task when the device is lost", async () => {
    const { open } = await start({ limits: { grace_s: 0.2 } });
    const { room, read } = await open();
    const device = await joinAsDevice(room);
    await read.event("joined");
    await room.send(task, patient);
    await device.frame("task");
    device.drop();
    expect(await read.event("away")).toEqual({ type: "away", graceMs: 200 });
    expect(await read.event("left")).toMatchObject({
      reason: "lost",
      delivered: expect.stringMatching(/^(maybe|yes)$/),
    });

    const empty = await open();
    const early = await joinAsDevice(empty.room);
    await empty.read.event("joined");
    early.drop();
    expect(await empty.read.event("left")).toMatchObject({ reason: "lost", delivered: "no" });
  });

  it("hears of a device that may not connect, and of one that says goodbye", async () => {
    const { open } = await start();
    const refused = await open();
    await joinAsDevice(refused.room, { refuse: "not_allowed" });
    await refused.read.event("refused");
    const left = await open();
    const device = await joinAsDevice(left.room);
    device.sendText(JSON.stringify({ type: "leave" }));
    expect(await left.read.event("left")).toEqual({ type: "left", reason: "left", delivered: "no" });
    expect(await left.room.send(task, patient)).toMatchObject({
      status: "not_handed",
      error: { message: "The device has left the room." },
    });
  });

  it("notices an answer that does not fit", async () => {
    const { open } = await start();
    const { room, read } = await open();
    const device = await joinAsDevice(room);
    await read.event("joined");
    await room.send(task, patient);
    await device.frame("task");
    device.send({ type: "reply", id: "ask_1", outcome: "done", data: "x".repeat(70_000) });
    expect(await read.event("dropped")).toMatchObject({ tooLarge: true });
    await read.event("left");
  });

  it("does not send what does not fit, nor into a room that is over", async () => {
    const { open } = await start();
    const { room } = await open();
    expect(room.maxTaskBytes).toBe(32_768);
    const large = { ...task, inputs: { text: "x".repeat(33_000) } };
    expect(await room.send(large, patient)).toMatchObject({ status: "not_handed", error: { kind: "too_big" } });
    expect(await room.send(task, AbortSignal.abort())).toMatchObject({ status: "not_handed" });
    const { room: short, read } = await open({ lifetimeMs: 50 });
    expect(await read.event("closed")).toMatchObject({
      error: { kind: "unavailable", code: "expired" },
      delivered: "no",
    });
    expect(await short.send(task, patient)).toMatchObject({ status: "not_handed", error: { kind: "unavailable" } });
  });

  it("ends with the service", async () => {
    const { server, open, provider } = await start();
    const { room, read } = await open();
    await joinAsDevice(room);
    await read.event("joined");
    await room.send(task, patient);
    await server.close();
    expect(await read.event("closed")).toMatchObject({ error: { code: "shutdown" } });
    await expect(provider.open(request, patient)).rejects.toMatchObject({ name: "RoomError", kind: "unavailable" });
    expect(await provider.check(patient)).toEqual({ status: "failing", reason: expect.stringContaining("shut down") });
  });

  it("can be checked without a device, and closes its rooms with it", async () => {
    const { server, open, provider } = await start();
    expect(await provider.check(patient)).toEqual({ status: "active" });
    expect(server.service.stats().rooms).toBe(0);
    const { read } = await open();
    await provider.close();
    await read.end;
    expect(server.service.stats().rooms).toBe(0);
  });
});
