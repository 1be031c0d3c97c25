import { createSealer, importRoomKey, roomTopics } from "@leafmesh/mqtt/wire";
import { createFakeClock } from "@leafmesh/testkit";
import { type Mosquitto, mosquittoAvailable, startMosquitto, startTlsMosquitto } from "@leafmesh/testkit/mosquitto";
import { Mailbox } from "@leafmesh/testkit/suites";
import { startTcpProxy } from "@leafmesh/testkit/tcp-proxy";
import mqtt from "mqtt";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type MqttMesh, type MqttMeshRoom, patient, startMqttMesh } from "../../testing/mqtt-mesh.ts";
import { ringFor } from "../../testing/rings.ts";
import type { DeviceRoom, DeviceRoomEvent, JoinError } from "../connector.ts";
import { createDevice } from "../device.ts";
import { listenForRings, type MqttConnectorOptions, mqttConnector } from "./mqtt.ts";

function meshOn(record: Record<string, string>): MqttMesh {
  const mesh = startMqttMesh(record);
  onTestFinished(() => mesh.close());
  return mesh;
}

function eventsOf(room: DeviceRoom): Mailbox<DeviceRoomEvent> {
  const events = new Mailbox<DeviceRoomEvent>();
  void (async () => {
    for await (const event of room.events) events.put(event);
  })();
  return events;
}

/** A device in the room, and what it hears. */
async function join(meshRoom: MqttMeshRoom, options: MqttConnectorOptions = {}, signal = patient) {
  const room = await mqttConnector({ mqtt, ...options }).join(meshRoom.ring, { signal });
  onTestFinished(() => room.leave("test over"));
  return { room, events: eventsOf(room) };
}

function isEnvelope(event: DeviceRoomEvent): event is Extract<DeviceRoomEvent, { type: "envelope" }> {
  return event.type === "envelope";
}

async function joinErrorOf(attempt: Promise<unknown>): Promise<JoinError> {
  return (await attempt.then(
    () => {
      throw new Error("the join worked");
    },
    (error: unknown) => error,
  )) as JoinError;
}

describe.skipIf(!mosquittoAvailable())("a device in an MQTT room (needs mosquitto)", () => {
  let broker: Mosquitto;
  let mesh: MqttMesh;
  beforeAll(async () => {
    broker = await startMosquitto();
    mesh = startMqttMesh({ url: broker.url });
  });
  afterAll(async () => {
    await mesh.close();
    await broker.stop();
  });

  it("is rung, comes, does the task and is gone", async () => {
    const topic = "leafmesh/phone-7/connect";
    const device = createDevice({
      id: "phone-7",
      connectors: [mqttConnector({ mqtt })],
      handlers: { "battery.read": () => ({ level: 71 }) },
      capabilities: [{ name: "battery.read", effect: "read" }],
    });
    const listener = listenForRings({
      broker: { url: broker.url },
      topic,
      onRing: (ring) => void device.handleRing(ring, "mqtt"),
      mqtt,
    });
    onTestFinished(async () => {
      await listener.close();
      await device.close();
    });
    await listener.ready();
    const { ring, room, event, task } = await mesh.open();
    await mesh.ring(ring, topic);
    expect(await event("joined")).toMatchObject({ capabilities: [{ name: "battery.read", effect: "read" }] });
    expect(await task()).toEqual({ status: "handed" });
    expect(await event("frame")).toMatchObject({ envelope: { type: "accepted" } });
    expect(await event("frame")).toMatchObject({ envelope: { type: "reply", outcome: "done", data: { level: 71 } } });
    expect(await event("left")).toEqual({ type: "left", reason: "left", delivered: "yes" });
    await room.close("settled");
  });

  it("tells the mesh that the person did not allow it, without taking the seat", async () => {
    const { ring, event, takeAll } = await mesh.open();
    await mqttConnector({ mqtt }).refuse(ring, patient);
    await event("refused");
    expect(takeAll()).toEqual([]);
  });

  it("hears each message once, and only from who holds the room's key", async () => {
    const meshRoom = await mesh.open();
    const spy = await mqtt.connectAsync(broker.url, { protocolVersion: 5, reconnectPeriod: 0 });
    onTestFinished(() => spy.endAsync(true));
    const { down } = roomTopics(meshRoom.ring.join.params?.topic ?? "");
    const recorded = new Promise<Buffer>((resolve) => spy.once("message", (_topic, payload) => resolve(payload)));
    await spy.subscribeAsync(down, { qos: 1 });
    const { events } = await join(meshRoom);
    const forged = JSON.stringify({ type: "task", id: "ask_1", action: "unlock", inputs: {}, budget_ms: 1000 });
    const wrongKey = createSealer(await importRoomKey("A".repeat(43)), down);
    await spy.publishAsync(down, forged, { qos: 1 });
    await spy.publishAsync(down, Buffer.from(await wrongKey.seal(forged)), { qos: 1 });
    await meshRoom.task();
    for (let copy = 0; copy < 3; copy++) await spy.publishAsync(down, await recorded, { qos: 1 });
    await meshRoom.room.cancel("ask_1", "enough");
    expect((await events.next(isEnvelope)).envelope).toMatchObject({ type: "task", action: "battery.read" });
    expect((await events.next()) as object).toMatchObject({ envelope: { type: "cancel" } });
  });

  it("does not take a task that the broker had kept", async () => {
    const meshRoom = await mesh.open();
    const { key: keyText = "", topic = "" } = meshRoom.ring.join.params ?? {};
    const { down } = roomTopics(topic);
    const sealer = createSealer(await importRoomKey(keyText), down);
    const old = JSON.stringify({ type: "task", id: "ask_1", action: "old", inputs: {}, budget_ms: 1000 });
    const careless = await mqtt.connectAsync(broker.url, { protocolVersion: 5, reconnectPeriod: 0 });
    onTestFinished(() => careless.endAsync(true));
    await careless.publishAsync(down, Buffer.from(await sealer.seal(old)), { qos: 1, retain: true });
    const { events } = await join(meshRoom);
    const fresh = JSON.stringify({ type: "task", id: "ask_1", action: "fresh", inputs: {}, budget_ms: 1000 });
    await careless.publishAsync(down, Buffer.from(await sealer.seal(fresh)), { qos: 1 });
    expect((await events.next(isEnvelope)).envelope).toMatchObject({ action: "fresh" });
    await careless.publishAsync(down, "", { qos: 1, retain: true });
  });

  it("comes back after a lost link, with what it had to say and to hear", async () => {
    await using proxy = await startTcpProxy(broker.ports.tcp);
    const meshRoom = await mesh.open();
    const { room, events } = await join(meshRoom, { broker: { url: `mqtt://127.0.0.1:${proxy.port}` } });
    await meshRoom.event("joined");
    proxy.block();
    expect(await events.next()).toEqual({ type: "away" });
    expect(room.send({ type: "accepted", id: "ask_1" })).toBe("queued");
    expect(room.send({ type: "progress", id: "ask_1", pct: 5 })).toBe("dropped");
    expect(room.send({ type: "reply", id: "ask_1", outcome: "done" })).toBe("queued");
    expect(await meshRoom.task()).toEqual({ status: "handed" });
    proxy.restore();
    // The task lay in the device's session, which comes with the connection.
    expect([(await events.next()).type, (await events.next()).type].sort()).toEqual(["back", "envelope"]);
    expect(await room.acked(patient)).toBe(true);
    expect(await meshRoom.event("frame")).toMatchObject({ envelope: { type: "accepted" } });
    expect(await meshRoom.event("frame")).toMatchObject({ envelope: { type: "reply" } });
    // It was back before the broker's patience with its will was over: the mesh never thought it gone.
    expect(meshRoom.takeAll()).toEqual([]);
  });

  it("says everything once, however often the link is cut while it does", { timeout: 20_000 }, async () => {
    await using proxy = await startTcpProxy(broker.ports.tcp);
    const meshRoom = await mesh.open();
    const { room } = await join(meshRoom, { broker: { url: `mqtt://127.0.0.1:${proxy.port}` } });
    await meshRoom.event("joined");
    await meshRoom.task();
    const said = ["accepted"];
    room.send({ type: "accepted", id: "ask_1" });
    for (let cut = 0; cut < 5; cut++) {
      proxy.cut();
      if (room.send({ type: "progress", id: "ask_1", pct: cut }) === "queued") said.push(`progress ${cut}`);
      await proxy.connected();
    }
    room.send({ type: "reply", id: "ask_1", outcome: "done" });
    expect(await room.acked(patient)).toBe(true);
    const heard: string[] = [];
    while (heard.at(-1) !== "reply") {
      const { envelope } = await meshRoom.event("frame");
      heard.push(envelope.type === "progress" ? `progress ${envelope.pct}` : envelope.type);
    }
    expect(heard).toEqual([...said, "reply"]);
  });

  it("is seen to leave at once", async () => {
    const meshRoom = await mesh.open();
    const { room } = await join(meshRoom);
    await Promise.all([room.leave("done"), room.leave("again")]);
    expect(await meshRoom.event("left")).toEqual({ type: "left", reason: "left", delivered: "no" });
    expect(room.send({ type: "accepted", id: "ask_1" })).toBe("ended");
    expect(await room.acked(patient)).toBe(true);
  });

  it("is told that the room is closed", async () => {
    const meshRoom = await mesh.open();
    const { room, events } = await join(meshRoom);
    await meshRoom.room.close("settled");
    expect(await events.next()).toEqual({
      type: "closed",
      reason: "closed",
      detail: "the mesh closed the room: settled",
    });
    expect(room.send({ type: "accepted", id: "ask_1" })).toBe("ended");
  });

  it("finds a closed room when it comes late", async () => {
    const meshRoom = await mesh.open();
    await meshRoom.room.close("settled");
    const error = await joinErrorOf(join(meshRoom));
    expect(error).toMatchObject({ name: "JoinError", kind: "over" });
    expect((await joinErrorOf(mqttConnector({ mqtt }).refuse(meshRoom.ring, patient))).kind).toBe("over");
  });

  it("gives up on a room that nobody listens to, and leaves no trace in it", async () => {
    const base = "leafmesh/room/room_gone/d/phone-7";
    const params = { key: "A".repeat(43), topic: base, client: "0".repeat(20) };
    const ring = ringFor(Date.now(), { join: { provider: "mqtt", url: broker.url, room: "room_gone", params } });
    const clock = createFakeClock();
    const joining = joinErrorOf(mqttConnector({ mqtt, clock }).join(ring, { signal: patient }));
    let over = false;
    void joining.finally(() => {
      over = true;
    });
    while (!over) {
      await clock.advance(100);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(await joining).toMatchObject({ kind: "over" });
    const late = await mqtt.connectAsync(broker.url, { protocolVersion: 5, reconnectPeriod: 0 });
    onTestFinished(() => late.endAsync(true));
    const found: string[] = [];
    late.on("message", (topic) => found.push(topic));
    await late.subscribeAsync(`${base}/#`, { qos: 1 });
    await late.publishAsync(`${base}/marker`, "x", { qos: 1 });
    await expect.poll(() => found.at(-1)).toBe(`${base}/marker`);
    expect(found).toEqual([`${base}/marker`]);
  });

  it("leaves the seat to one of two programs that hold the same ring", async () => {
    const meshRoom = await mesh.open();
    const [first, second] = [await join(meshRoom), await join(meshRoom)];
    const isEnd = (event: DeviceRoomEvent) => event.type === "closed";
    const loser = await Promise.race([
      first.events.next(isEnd).then((end) => ({ end, other: second })),
      second.events.next(isEnd).then((end) => ({ end, other: first })),
    ]);
    expect(loser.end).toMatchObject({ reason: "replaced", detail: expect.stringMatching(/another program/) });
    await meshRoom.task();
    expect(loser.other.room.send({ type: "accepted", id: "ask_1" })).toBe("queued");
    expect(await loser.other.room.acked(patient)).toBe(true);
    expect(await meshRoom.event("frame")).toMatchObject({ envelope: { type: "accepted" } });
  });

  it("waits for a broker that is not there, until its signal ends", async () => {
    await using proxy = await startTcpProxy(broker.ports.tcp);
    proxy.block();
    const meshRoom = await mesh.open();
    const ending = new AbortController();
    const joining = joinErrorOf(join(meshRoom, { broker: { url: `mqtt://127.0.0.1:${proxy.port}` } }, ending.signal));
    await proxy.connected();
    await proxy.connected();
    ending.abort();
    expect(await joining).toMatchObject({ kind: "unreachable", message: expect.stringMatching(/not reached in time/) });
  });

  it("does not start with a signal that has ended", async () => {
    const meshRoom = await mesh.open();
    expect((await joinErrorOf(join(meshRoom, {}, AbortSignal.abort()))).kind).toBe("unreachable");
  });

  const client = "0".repeat(20);
  it.each<[string, object, RegExp]>([
    [
      "no connection's name",
      { params: { key: "A".repeat(43), topic: "leafmesh/room/r/d/phone-7" } },
      /names no connection/,
    ],
    ["no key", { params: { topic: "leafmesh/room/r/d/phone-7", client } }, /room key has 32 bytes/],
    ["a short key", { params: { key: "AAAA", topic: "leafmesh/room/r/d/phone-7", client } }, /room key has 32 bytes/],
    ["no topic", { params: { key: "A".repeat(43) } }, /room topic must not be empty/],
    ["a wildcard", { params: { key: "A".repeat(43), topic: "leafmesh/room/+/d/phone-7", client } }, /wildcards/],
    [
      "another device's topic",
      { params: { key: "A".repeat(43), topic: "leafmesh/room/r/d/phone-8", client } },
      /another device/,
    ],
    [
      "no address",
      { url: undefined, params: { key: "A".repeat(43), topic: "x/d/phone-7", client } },
      /holds no address/,
    ],
    [
      "a bad address",
      { url: "ftp://x", params: { key: "A".repeat(43), topic: "x/d/phone-7", client } },
      /broker.url must start/,
    ],
  ])("does not serve a ring with %s", async (_case, changes, reason) => {
    const join = { provider: "mqtt", url: broker.url, room: "r", ...changes };
    const ring = ringFor(Date.now(), { join });
    const error = await joinErrorOf(mqttConnector({ mqtt }).join(ring, { signal: patient }));
    expect(error).toMatchObject({ name: "JoinError", kind: "unsupported", message: expect.stringMatching(reason) });
  });

  it("imports MQTT.js by itself when it is not given", async () => {
    const meshRoom = await mesh.open();
    const room = await mqttConnector().join(meshRoom.ring, { signal: patient });
    await meshRoom.event("joined");
    await room.leave("done");
  });
});

describe.skipIf(!mosquittoAvailable())("a device's login at a broker (needs mosquitto)", () => {
  it("is sent to the broker that it was configured for, whatever address a ring holds", async () => {
    await using broker = await startMosquitto({ users: { mesh: "m", phone: "p" } });
    await using elsewhere = await startMosquitto();
    const mesh = meshOn({ url: broker.url, username: "mesh", password: "m" });
    const meshRoom = await mesh.open();
    const lured = { ...meshRoom, ring: { ...meshRoom.ring, join: { ...meshRoom.ring.join, url: elsewhere.url } } };
    await join(lured, { broker: { url: broker.url, username: "phone", password: "p" } });
    await meshRoom.event("joined");
    expect(elsewhere.log()).not.toContain("New client connected");
  });

  it("that is refused ends the attempt with the broker's word", async () => {
    await using broker = await startMosquitto({ users: { mesh: "m", phone: "p" } });
    const meshRoom = await meshOn({ url: broker.url, username: "mesh", password: "m" }).open();
    const broker2 = { url: broker.url, username: "phone", password: "guess" };
    const error = await joinErrorOf(join(meshRoom, { broker: broker2 }));
    expect(error).toMatchObject({ kind: "unsupported", message: expect.stringMatching(/not authorized/) });
    expect(error.message).not.toContain("guess");
  });

  it("may be a certificate, over TLS with a private CA", async () => {
    await using broker = await startTlsMosquitto({ users: { mesh: "m" } });
    const { ca } = broker.authority;
    const { cert, key } = await broker.authority.issue({ commonName: "phone-7" });
    const mesh = meshOn({ url: broker.urls.wss, ca_cert: ca, username: "mesh", password: "m" });
    const meshRoom = await mesh.open();
    await join(meshRoom, { broker: { url: broker.urls.certificate, clientCert: cert, clientKey: key, caCert: ca } });
    await meshRoom.event("joined");
    const stranger = await joinErrorOf(join(meshRoom, { broker: { url: broker.urls.certificate, caCert: ca } }));
    expect(stranger.message).toMatch(/client certificate/);
  });

  it("that may not write its room topics ends the room", async () => {
    const acl = "user mesh\ntopic readwrite leafmesh/#\nuser phone\ntopic read leafmesh/room/+/d/phone-7/down\n";
    await using broker = await startMosquitto({ users: { mesh: "m", phone: "p" }, acl });
    const meshRoom = await meshOn({ url: broker.url, username: "mesh", password: "m" }).open();
    const error = await joinErrorOf(join(meshRoom, { broker: { url: broker.url, username: "phone", password: "p" } }));
    expect(error).toMatchObject({ kind: "unsupported", message: expect.stringMatching(/135 not authorized/) });
  });

  it.each<[string, MqttConnectorOptions["broker"], RegExp]>([
    ["in clear", { url: "mqtt://broker.example.com", username: "phone", password: "x" }, /in clear/],
    ["of half a certificate", { url: "mqtts://broker.example.com", clientCert: "x" }, /belong together/],
    [
      "by certificate without TLS",
      { url: "mqtt://localhost", clientCert: "x", clientKey: "y" },
      /no effect without TLS/,
    ],
    ["at no broker at all", { url: "https://broker.example.com" }, /start with wss:/],
  ])("%s is refused before anything is sent", (_case, broker, reason) => {
    expect(() => mqttConnector(broker ? { broker } : {})).toThrow(reason);
  });
});

describe.skipIf(!mosquittoAvailable())("what fits into an MQTT room (needs mosquitto)", () => {
  it("is what the broker takes, at most 64 KiB", async () => {
    await using small = await startMosquitto({ settings: ["max_packet_size 2048"] });
    const meshRoom = await meshOn({ url: small.url }).open();
    const { room } = await join(meshRoom);
    expect(room.maxEnvelopeBytes).toBeGreaterThan(1800);
    expect(room.maxEnvelopeBytes).toBeLessThan(2048);
    const empty = JSON.stringify({ type: "reply", id: "ask_1", outcome: "done", data: "" }).length;
    const reply = (bytes: number) =>
      ({ type: "reply", id: "ask_1", outcome: "done", data: "x".repeat(bytes - empty) }) as const;
    expect(room.send(reply(room.maxEnvelopeBytes + 1))).toBe("too_large");
    expect(room.send(reply(room.maxEnvelopeBytes))).toBe("queued");
    expect(await meshRoom.event("frame")).toMatchObject({ envelope: { type: "reply" } });

    await using large = await startMosquitto();
    const { room: wide } = await join(await meshOn({ url: large.url }).open());
    expect(wide.maxEnvelopeBytes).toBe(64 * 1024);
  });
});
