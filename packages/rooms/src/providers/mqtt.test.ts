import { writeFile } from "node:fs/promises";
import { join as joinPath } from "node:path";
import { createOpener, createSealer, importRoomKey, roomTopics } from "@leafmesh/mqtt/wire";
import {
  type Clock,
  type DeviceEnvelope,
  type Logger,
  MAX_RING_BYTES,
  parseFromMesh,
  randomId,
  silentLogger,
  systemClock,
  type TaskEnvelope,
} from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { type Mosquitto, mosquittoAvailable, startMosquitto } from "@leafmesh/testkit/mosquitto";
import { startTcpProxy } from "@leafmesh/testkit/tcp-proxy";
import mqtt, { type MqttClient } from "mqtt";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import type { Closable, OpenRoom, Room, RoomEvent, RoomProvider } from "../contract.ts";
import { mqttRoom } from "./mqtt.ts";

const patient = new AbortController().signal;
const request: OpenRoom = {
  askId: "ask_1",
  deviceId: "phone-7",
  approval: "silent",
  joinWithinMs: 60_000,
  lifetimeMs: 180_000,
};
const task: TaskEnvelope = { type: "task", id: "ask_1", action: "read_battery", inputs: {}, budget_ms: 60_000 };

function providerFor(
  record: Record<string, string>,
  clock: Clock = systemClock,
  logger: Logger = silentLogger,
): RoomProvider {
  const options = mqttRoom.options.parse({ room_topic_prefix: "leafmesh", ...record });
  const shared = new Map<string, Closable>();
  onTestFinished(async () => {
    for (const each of shared.values()) await each.close();
  });
  return mqttRoom.create(options, {
    clock,
    logger,
    newId: randomId,
    scope: {
      share<Value extends Closable>(key: string, make: () => Value): Value {
        const value = (shared.get(key) as Value | undefined) ?? make();
        shared.set(key, value);
        return value;
      },
    },
  });
}

/** A room with everything it has reported so far. */
async function open(provider: RoomProvider, more: Partial<OpenRoom> = {}) {
  const room = await provider.open({ ...request, ...more }, patient);
  onTestFinished(() => room.close("test over"));
  const events: RoomEvent[] = [];
  const watchers = new Set<() => void>();
  const reading = (async () => {
    for await (const event of room.events) {
      events.push(event);
      for (const look of watchers) look();
    }
  })();
  const event = <Type extends RoomEvent["type"]>(type: Type) =>
    new Promise<Extract<RoomEvent, { type: Type }>>((resolve) => {
      const look = (): void => {
        const found = events.find((each): each is Extract<RoomEvent, { type: Type }> => each.type === type);
        if (found) resolve(found);
      };
      watchers.add(look);
      look();
    });
  return { room, events, event, reading };
}

/** A device that speaks MQTT.js and the room's messages, and keeps no rules at all. */
async function rawDevice(room: Room, url: string) {
  const { key: keyText = "", topic = "" } = room.join.params ?? {};
  const topics = roomTopics(topic);
  const key = await importRoomKey(keyText);
  const presence = createSealer(key, topics.presence);
  const up = createSealer(key, topics.up);
  const client = await rawClient(url);
  const frames: Buffer[] = [];
  const arrived = Promise.withResolvers<Buffer>();
  client.on("message", (_topic, payload) => {
    frames.push(payload);
    arrived.resolve(payload);
  });
  await client.subscribeAsync(topics.down, { qos: 1 });
  const publish = async (to: string, payload: Uint8Array | string, retain = false): Promise<void> => {
    await client.publishAsync(to, Buffer.from(payload), { qos: 1, retain });
  };
  return {
    client,
    topics,
    key,
    frames,
    /** The first message of the mesh. */
    task: arrived.promise,
    publish,
    seal: (envelope: DeviceEnvelope) => up.seal(JSON.stringify(envelope)),
    join: async (capabilities?: object[]) =>
      await publish(topics.presence, await presence.seal(JSON.stringify({ type: "joined", capabilities })), true),
    leave: async (reason: "left" | "lost") =>
      await publish(topics.presence, await presence.seal(JSON.stringify({ type: "left", reason })), true),
    say: async (envelope: DeviceEnvelope) => await publish(topics.up, await up.seal(JSON.stringify(envelope))),
  };
}

async function rawClient(url: string): Promise<MqttClient> {
  const client = await mqtt.connectAsync(url, { protocolVersion: 5, reconnectPeriod: 0 });
  onTestFinished(() => client.endAsync(true));
  return client;
}

describe("the mqtt room's definition", () => {
  it("needs a prefix for the topics", () => {
    const options = mqttRoom.options.parse({ url: "mqtt://localhost" });
    expect(mqttRoom.validate?.(options, {})).toEqual([
      { path: ["room_topic_prefix"], message: expect.stringMatching(/needed to use this broker as a room/) },
    ]);
  });
});

describe.skipIf(!mosquittoAvailable())("a room over MQTT (needs mosquitto)", () => {
  let broker: Mosquitto;
  let provider: RoomProvider;
  beforeAll(async () => {
    broker = await startMosquitto();
  });
  afterAll(() => broker.stop());

  it("gives the device what it needs to come, and fits a ring with it", async () => {
    provider = providerFor({ url: broker.url, username: "mesh", password: "top-secret" });
    const { room } = await open(provider, { deviceId: "d".repeat(128) });
    expect(room.join).toEqual({
      provider: "mqtt",
      url: broker.url,
      room: room.label,
      params: {
        key: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
        topic: `leafmesh/room/${room.label}/d/${"d".repeat(128)}`,
        client: expect.stringMatching(/^[0-9a-f]{20}$/),
      },
    });
    expect(JSON.stringify(room.join)).not.toContain("top-secret");
    expect(JSON.stringify(room.join).length).toBeLessThan(MAX_RING_BYTES / 2);
  });

  it("carries a task there and the answer back, in order", async () => {
    const { room, events, event } = await open(providerFor({ url: broker.url }));
    const device = await rawDevice(room, broker.url);
    await device.join([{ name: "read_battery", effect: "read" }]);
    expect(await event("joined")).toEqual({
      type: "joined",
      capabilities: [{ name: "read_battery", effect: "read" }],
    });
    expect(await room.send(task, patient)).toEqual({ status: "handed" });
    expect((await device.task).includes("read_battery")).toBe(false);
    await device.say({ type: "accepted", id: "ask_1" });
    await device.say({ type: "progress", id: "ask_1", pct: 50 });
    await device.say({ type: "reply", id: "ask_1", outcome: "done", data: { level: 71 } });
    await device.leave("left");
    expect(await event("left")).toEqual({ type: "left", reason: "left", delivered: "yes" });
    expect(events.slice(1, 4)).toEqual([
      { type: "frame", envelope: { type: "accepted", id: "ask_1" } },
      { type: "frame", envelope: { type: "progress", id: "ask_1", pct: 50 } },
      { type: "frame", envelope: { type: "reply", id: "ask_1", outcome: "done", data: { level: 71 } } },
    ]);
  });

  it("gives the task its budget as time to live", async () => {
    const { room } = await open(providerFor({ url: broker.url }));
    const device = await rawDevice(room, broker.url);
    const packet = new Promise<number | undefined>((resolve) =>
      device.client.on("message", (_topic, _payload, { properties }) => resolve(properties?.messageExpiryInterval)),
    );
    await room.send({ ...task, budget_ms: 1500 }, patient);
    expect(await packet).toBe(2);
  });

  it("knows when the person did not allow the connection, but only before the task", async () => {
    const { room, event } = await open(providerFor({ url: broker.url }));
    const device = await rawDevice(room, broker.url);
    await device.say({ type: "refused", reason: "not_allowed" });
    await event("refused");
    await room.send(task, patient);
    await device.say({ type: "refused", reason: "not_allowed" });
    expect((await event("dropped")).why).toBe("refused after the task was sent");
  });

  it("tells what is known of the task when the device goes", async () => {
    const before = await open(providerFor({ url: broker.url }));
    const early = await rawDevice(before.room, broker.url);
    await early.join();
    await early.leave("left");
    expect(await before.event("left")).toMatchObject({ delivered: "no" });

    const after = await open(providerFor({ url: broker.url }));
    const late = await rawDevice(after.room, broker.url);
    await late.join();
    await after.room.send(task, patient);
    await late.leave("left");
    expect(await after.event("left")).toMatchObject({ delivered: "maybe" });
  });

  it("gives a lost device time to come back, and no second chance after that", async () => {
    const clock = createFakeClock();
    const { room, events, event } = await open(providerFor({ url: broker.url }, clock));
    const device = await rawDevice(room, broker.url);
    await device.join();
    await device.leave("lost");
    expect(await event("away")).toEqual({ type: "away", graceMs: 10_000 });
    await clock.advance(9_000);
    await device.join();
    await event("back");
    await clock.advance(60_000);
    await device.leave("lost");
    await expect.poll(() => events.filter(({ type }) => type === "away").length).toBe(2);
    await clock.advance(10_000);
    expect(await event("left")).toEqual({ type: "left", reason: "lost", delivered: "no" });
    await device.join();
    await device.say({ type: "accepted", id: "ask_1" });
    await event("frame");
    expect(events.map(({ type }) => type)).toEqual(["joined", "away", "back", "away", "left", "frame"]);
  });

  it("sees an unclean loss by the last will that the broker publishes", { timeout: 20_000 }, async () => {
    const { room, event } = await open(providerFor({ url: broker.url }));
    const { key: keyText = "", topic = "" } = room.join.params ?? {};
    const { presence } = roomTopics(topic);
    const sealer = createSealer(await importRoomKey(keyText), presence);
    const joined = await sealer.seal('{"type":"joined"}');
    const client = await mqtt.connectAsync(broker.url, {
      protocolVersion: 5,
      reconnectPeriod: 0,
      properties: { sessionExpiryInterval: 60 },
      will: {
        topic: presence,
        payload: Buffer.from(await sealer.seal('{"type":"left","reason":"lost"}')),
        qos: 1,
        retain: true,
        properties: { willDelayInterval: 1 },
      },
    });
    await client.publishAsync(presence, Buffer.from(joined), { qos: 1, retain: true });
    await event("joined");
    client.stream.destroy();
    await event("away");
  });

  it("does not believe a client without the room's key, whatever it may write", async () => {
    const { room, events, event } = await open(providerFor({ url: broker.url }));
    const device = await rawDevice(room, broker.url);
    const forger = await rawClient(broker.url);
    const forgerKey = await importRoomKey("A".repeat(43));
    const reply = JSON.stringify({ type: "reply", id: "ask_1", outcome: "done" });
    await device.join();
    await room.send(task, patient);
    const { up } = device.topics;
    await forger.publishAsync(up, reply, { qos: 1 });
    await forger.publishAsync(up, Buffer.from(await createSealer(forgerKey, up).seal(reply)), { qos: 1 });
    await forger.publishAsync(up, await device.task, { qos: 1 });
    await device.say({ type: "accepted", id: "ask_1" });
    await event("frame");
    expect(events.slice(1)).toEqual([
      { type: "dropped", why: "malformed" },
      { type: "dropped", why: "forged" },
      { type: "dropped", why: "forged" },
      { type: "frame", envelope: { type: "accepted", id: "ask_1" } },
    ]);
  });

  it("hears a message that was recorded and played again once, and not at all in another room", async () => {
    const shared = providerFor({ url: broker.url });
    const [one, other] = [await open(shared), await open(shared)];
    const device = await rawDevice(one.room, broker.url);
    const neighbour = await rawDevice(other.room, broker.url);
    await one.room.send(task, patient);
    const frame = await device.seal({ type: "accepted", id: "ask_1" });
    for (let copy = 0; copy < 3; copy++) await device.publish(device.topics.up, frame);
    await device.publish(neighbour.topics.up, frame);
    await device.say({ type: "progress", id: "ask_1", pct: 10 });
    expect(await other.event("dropped")).toEqual({ type: "dropped", why: "forged" });
    await expect.poll(() => one.events.length).toBe(2);
    expect(one.events.map((each) => each.type === "frame" && each.envelope.type)).toEqual(["accepted", "progress"]);
  });

  it("is not ended, nor drowned, by a flood of junk", async () => {
    const { room, events, event } = await open(providerFor({ url: broker.url }));
    const device = await rawDevice(room, broker.url);
    await Promise.all(Array.from({ length: 500 }, () => device.publish(device.topics.up, "junk")));
    await device.say({ type: "accepted", id: "ask_1" });
    await event("frame");
    expect(events.filter(({ type }) => type === "dropped")).toHaveLength(16);
  });

  it("is ended by a device that says more than can be read", async () => {
    const room = await providerFor({ url: broker.url }).open(request, patient);
    onTestFinished(() => room.close("test over"));
    const device = await rawDevice(room, broker.url);
    for (let pct = 0; pct < 300; pct++) await device.say({ type: "progress", id: "ask_1" });
    const events: RoomEvent[] = [];
    for await (const event of room.events) events.push(event);
    expect(events).toHaveLength(257);
    expect(events.at(-1)).toMatchObject({ type: "closed", error: { kind: "mismatch", code: "flood" } });
  });

  it("takes one task, and tells the device when it is not wanted any more", async () => {
    const { room } = await open(providerFor({ url: broker.url }));
    const device = await rawDevice(room, broker.url);
    const messages: string[] = [];
    const opener = createOpener(device.key, device.topics.down);
    await room.send(task, patient);
    await expect(room.send(task, patient)).rejects.toThrow(/one task/);
    await room.cancel("ask_1", "the person hung up");
    await expect.poll(() => device.frames.length).toBe(2);
    for (const frame of device.frames) {
      const opened = await opener.open(frame);
      if (opened.ok) messages.push(parseFromMesh(opened.text)?.type ?? "?");
    }
    expect(messages).toEqual(["task", "cancel"]);
  });

  it("leaves nothing in the broker but, while the ring lives, the word that it is closed", async () => {
    const { room, reading } = await open(providerFor({ url: broker.url }), { joinWithinMs: 5_000 });
    const device = await rawDevice(room, broker.url);
    await device.join();
    await Promise.all([room.close("settled"), room.close("again")]);
    await reading;
    const late = await rawClient(broker.url);
    const found: { topic: string; expiry: number | undefined }[] = [];
    late.on("message", (topic, _payload, { properties }) => {
      found.push({ topic, expiry: properties?.messageExpiryInterval });
    });
    const base = room.join.params?.topic ?? "";
    await late.subscribeAsync(`${base}/#`, { qos: 1 });
    await late.publishAsync(`${base}/marker`, "x", { qos: 1 });
    await expect.poll(() => found.at(-1)?.topic).toBe(`${base}/marker`);
    expect(found).toHaveLength(2);
    expect(found[0]?.topic).toBe(`${base}/down`);
    expect(found[0]?.expiry).toBeLessThanOrEqual(5);
  });

  it("keeps what the device says while the mesh's own connection is lost", async () => {
    await using proxy = await startTcpProxy(broker.ports.tcp);
    const { room, event } = await open(providerFor({ url: `mqtt://127.0.0.1:${proxy.port}` }));
    const device = await rawDevice(room, broker.url);
    await device.join();
    await room.send(task, patient);
    proxy.block();
    await expect.poll(() => proxy.connections).toBe(0);
    await device.say({ type: "reply", id: "ask_1", outcome: "done" });
    proxy.restore();
    expect(await event("frame")).toMatchObject({ envelope: { type: "reply", outcome: "done" } });
  });

  it("waits a moment for its connection before it says that a task cannot leave", async () => {
    await using proxy = await startTcpProxy(broker.ports.tcp);
    const { room } = await open(providerFor({ url: `mqtt://127.0.0.1:${proxy.port}` }));
    const device = await rawDevice(room, broker.url);
    await device.join();
    proxy.cut();
    await expect.poll(() => proxy.connections).toBe(0);
    expect(await room.send(task, patient)).toEqual({ status: "handed" });
    await device.task;
  });
});

describe.skipIf(!mosquittoAvailable())("a task that cannot be handed over (needs mosquitto)", () => {
  it("is one that is too large for the broker: found without sending, and other rooms live on", async () => {
    await using broker = await startMosquitto({ settings: ["max_packet_size 4096"] });
    const provider = providerFor({ url: broker.url });
    const [one, other] = [await open(provider), await open(provider)];
    expect(one.room.maxTaskBytes).toBeGreaterThan(3900);
    expect(one.room.maxTaskBytes).toBeLessThan(4096);
    const devices = [await rawDevice(one.room, broker.url), await rawDevice(other.room, broker.url)] as const;
    const padded = (bytes: number): TaskEnvelope => {
      const empty = JSON.stringify({ ...task, inputs: { text: "" } }).length;
      return { ...task, inputs: { text: "x".repeat(bytes - empty) } };
    };
    const large = await one.room.send(padded(one.room.maxTaskBytes + 1), patient);
    expect(large).toMatchObject({ status: "not_handed", error: { kind: "too_big" } });
    expect(await one.room.send(padded(one.room.maxTaskBytes), patient)).toEqual({ status: "handed" });
    expect(await other.room.send(task, patient)).toEqual({ status: "handed" });
    await Promise.all(devices.map((device) => device.task));
  });

  it("is one that the access rules forbid", async () => {
    const acl = "user mesh\ntopic read leafmesh/room/#\ntopic write leafmesh/room/+/d/+/presence\n";
    await using broker = await startMosquitto({ users: { mesh: "secret" }, acl });
    const { room } = await open(providerFor({ url: broker.url, username: "mesh", password: "secret" }));
    expect(await room.send(task, patient)).toMatchObject({
      status: "not_handed",
      error: { kind: "bad_credential", code: "135" },
    });
  });

  it("is one that nobody is there to get", async () => {
    await using broker = await startMosquitto();
    const { room } = await open(providerFor({ url: broker.url }));
    expect(await room.send(task, patient)).toMatchObject({ status: "not_handed", error: { code: "16" } });
  });

  it("is one for which there is no connection, and none later", async () => {
    const broker = await startMosquitto();
    onTestFinished(() => broker.stop());
    const noticed = Promise.withResolvers<void>();
    const logger = { ...silentLogger, warn: () => noticed.resolve() };
    const provider = providerFor({ url: broker.url }, systemClock, logger);
    const { room } = await open(provider);
    await broker.kill();
    await noticed.promise;
    expect(await room.send(task, patient)).toMatchObject({ status: "not_handed", error: { kind: "unavailable" } });
    await broker.start();
    const device = await rawDevice(room, broker.url);
    await open(provider);
    await room.cancel("ask_1", "marker");
    await device.task;
    expect(device.frames).toHaveLength(1);
  });

  it("is one whose caller has gone", async () => {
    await using broker = await startMosquitto();
    const { room } = await open(providerFor({ url: broker.url }));
    expect(await room.send(task, AbortSignal.abort())).toMatchObject({ status: "not_handed" });
  });
});

describe.skipIf(!mosquittoAvailable())("a broker that fails under a task (needs mosquitto)", () => {
  it("is a doubt when it freezes, and the task arrives at most once", async () => {
    await using broker = await startMosquitto();
    const clock = createFakeClock();
    const { room } = await open(providerFor({ url: broker.url }, clock));
    const device = await rawDevice(room, broker.url);
    broker.freeze();
    const sent = room.send(task, patient);
    await expect.poll(() => clock.pendingTimers).toBeGreaterThan(0);
    await clock.advance(5_000);
    expect(await sent).toEqual({ status: "handed" });
    broker.thaw();
    await room.cancel("ask_1", "too late");
    await expect.poll(() => device.frames.length).toBeGreaterThan(0);
    expect(device.frames.length).toBeLessThanOrEqual(2);
  });

  it("never makes the mesh send a task twice, whenever it dies", { timeout: 30_000 }, async () => {
    const broker = await startMosquitto();
    onTestFinished(() => broker.stop());
    const provider = providerFor({ url: broker.url });
    for (let round = 0; round < 6; round++) {
      const { room } = await open(provider);
      const device = await rawDevice(room, broker.url);
      if (round % 2 === 0) broker.freeze();
      const [sent] = await Promise.all([room.send(task, patient), broker.kill()]);
      await broker.start();
      const again = await rawDevice(room, broker.url);
      await provider.open(request, patient).then((next) => next.close("marker"));
      await room.cancel("ask_1", "marker");
      await again.task;
      const copies = device.frames.length + again.frames.length - 1;
      expect(copies).toBeLessThanOrEqual(1);
      if (sent.status === "not_handed") expect(copies).toBe(0);
    }
  });

  it("ends the room when it does not let the mesh back in", async () => {
    const broker = await startMosquitto({ users: { mesh: "secret" } });
    onTestFinished(() => broker.stop());
    const { event } = await open(providerFor({ url: broker.url, username: "mesh", password: "secret" }));
    await broker.kill();
    await writeFile(joinPath(broker.folder, "passwords"), "");
    await broker.start();
    expect(await event("closed")).toMatchObject({ error: { kind: "bad_credential", code: "135" }, delivered: "no" });
  });

  it("lets a room close all the same", async () => {
    const broker = await startMosquitto();
    onTestFinished(() => broker.stop());
    const { room } = await open(providerFor({ url: broker.url }));
    await broker.kill();
    await room.close("settled");
  });

  it("cannot be opened a room on, and says why", async () => {
    const broker = await startMosquitto({ users: { mesh: "secret" } });
    const wrong = providerFor({ url: broker.url, username: "mesh", password: "guess" });
    await expect(wrong.open(request, patient)).rejects.toMatchObject({ name: "RoomError", kind: "bad_credential" });
    await broker.stop();
    const gone = providerFor({ url: broker.url, username: "mesh", password: "secret" });
    await expect(gone.open(request, patient)).rejects.toMatchObject({ kind: "unavailable", code: "ECONNREFUSED" });
  });
});

describe.skipIf(!mosquittoAvailable())("the test of a room's record (needs mosquitto)", () => {
  const login = { username: "mesh", password: "secret" };
  const withAcl = async (acl: string) => {
    const broker = await startMosquitto({ users: { mesh: "secret" }, acl });
    onTestFinished(() => broker.stop());
    return providerFor({ url: broker.url, ...login });
  };

  it("is passed with the rights that a room uses", async () => {
    const provider = await withAcl("user mesh\ntopic readwrite leafmesh/room/#\n");
    expect(await provider.check(patient)).toEqual({ status: "active" });
  });

  it.each([
    ["may not read", "user mesh\ntopic write leafmesh/room/#\n", /did not deliver it back/],
    ["may not write", "user mesh\ntopic read leafmesh/room/#\n", /135 not authorized/],
    ["may not write tasks", "user mesh\ntopic readwrite leafmesh/room/+/d/+/presence\n", /135 not authorized/],
    ["has the rights elsewhere", "user mesh\ntopic readwrite other/room/#\n", /135 not authorized/],
  ])("fails a login that %s", { timeout: 15_000 }, async (_case, acl, reason) => {
    const provider = await withAcl(acl);
    expect(await provider.check(patient)).toEqual({ status: "failing", reason: expect.stringMatching(reason) });
  });

  it("fails a wrong password", async () => {
    const broker = await startMosquitto({ users: { mesh: "secret" } });
    onTestFinished(() => broker.stop());
    const result = await providerFor({ url: broker.url, ...login, password: "guess" }).check(patient);
    expect(result).toMatchObject({ status: "failing", reason: expect.stringMatching(/check username and password/) });
    expect(JSON.stringify(result)).not.toContain("guess");
  });

  it("has no verdict about a broker that does not answer", async () => {
    const broker = await startMosquitto();
    await broker.stop();
    expect(await providerFor({ url: broker.url }).check(patient)).toMatchObject({ status: "readable" });
    const ended = await providerFor({ url: broker.url }).check(AbortSignal.abort());
    expect(ended).toMatchObject({ status: "readable" });
  });
});
