import { createMqttConnection, mqttOptions } from "@leafmesh/mqtt";
import { mqttNotifier } from "@leafmesh/notifiers";
import { type RingSigner, randomId, Secret, silentLogger, systemClock } from "@leafmesh/protocol";
import { mqttRoom } from "@leafmesh/rooms";
import type { Closable } from "@leafmesh/rooms/contract";
import type { MqttClient } from "mqtt";
import { deviceActionParty, type Party } from "../lib/ask-party.ts";
import { bareClient } from "./bare-client.ts";
import { DEVICE, ECHO, RAW_RING_TOPIC, RING_TOPIC, rawRoom } from "./topics.ts";

const patient = new AbortController().signal;

/** `device_action` with everything behind it. */
export async function leafmeshAsks(url: string, folder: string, signer: RingSigner): Promise<Party> {
  return await deviceActionParty({
    connections: `{ broker: { provider: mqtt, url: "${url}", room_topic_prefix: leafmesh } }`,
    device: "{ connection: broker, room: broker, approval: silent }",
    notifiers: [mqttNotifier],
    rooms: [mqttRoom],
    deviceId: DEVICE,
    pushToken: RING_TOPIC,
    folder,
    signer,
  });
}

/** The notifier, the room and the device kit alone: what an ask costs before anything is decided or stored. */
export async function leafmeshRooms(url: string, signer: RingSigner): Promise<Party> {
  const shared = new Map<string, Closable>();
  const share = <Value extends Closable>(key: string, make: () => Value): Value => {
    const value = (shared.get(key) as Value | undefined) ?? make();
    shared.set(key, value);
    return value;
  };
  const dependencies = { clock: systemClock, logger: silentLogger, newId: randomId, scope: { share } };
  const options = mqttOptions.parse({ url, room_topic_prefix: "leafmesh" });
  const notifier = mqttNotifier.create(options, dependencies);
  const rooms = mqttRoom.create(options, dependencies);
  return {
    async ask() {
      const ask = randomId("ask");
      const opening = {
        askId: ask,
        deviceId: DEVICE,
        approval: "silent",
        joinWithinMs: 30_000,
        lifetimeMs: 90_000,
      } as const;
      const room = await rooms.open(opening, patient);
      const iat = Math.floor(Date.now() / 1000);
      const ring = await signer.sign({
        v: 1,
        ask,
        device: DEVICE,
        approval: "silent",
        iat,
        exp: iat + 30,
        join: room.join,
      });
      const request = {
        ring,
        body: JSON.stringify(ring),
        collapseKey: ask,
        ttlMs: 30_000,
        approval: "silent",
      } as const;
      const rung = notifier.ring(request, new Secret(RING_TOPIC), patient);
      for await (const event of room.events) {
        if (event.type === "joined") {
          const task = { type: "task", id: ask, action: "battery.read", inputs: {}, budget_ms: 60_000 } as const;
          void room.send(task, patient);
        }
        if (event.type === "frame" && event.envelope.type === "reply") break;
      }
      await rung;
      void room.close("the ask is over");
    },
    async close() {
      for (const each of shared.values()) await each.close();
    },
  };
}

/** Bare MQTT.js over the same hops: subscribe, ring, join, task, accepted, reply. */
export async function rawAsks(url: string): Promise<Party> {
  const client = await bareClient(url, { keepalive: 15 });
  const listeners = new Map<string, (payload: string) => void>();
  client.on("message", (topic, payload) => listeners.get(topic)?.(payload.toString()));
  let asked = 0;
  return {
    async ask() {
      const room = `room_${++asked}`;
      const { down, up, presence } = rawRoom(room);
      const joined = Promise.withResolvers<void>();
      const replied = Promise.withResolvers<void>();
      listeners.set(presence, (payload) => payload === "joined" && joined.resolve());
      listeners.set(up, (payload) => JSON.parse(payload).type === "reply" && replied.resolve());
      await client.subscribeAsync([up, presence], { qos: 1 });
      const rung = client.publishAsync(RAW_RING_TOPIC, room, { qos: 1 });
      await joined.promise;
      await client.publishAsync(down, JSON.stringify({ type: "task", id: room, action: "battery.read" }), { qos: 1 });
      await replied.promise;
      await rung;
      // The mesh closes its rooms behind its answer as well.
      void client.publishAsync(presence, "", { qos: 1, retain: true });
      void client.unsubscribeAsync([up, presence]);
      listeners.delete(up);
      listeners.delete(presence);
    },
    close: () => client.endAsync(true),
  };
}

/** One QoS 1 message there and one back over open connections, by bare MQTT.js. */
export async function rawEcho(url: string, noDelay: boolean): Promise<Party> {
  const client = await bareClient(url, { noDelay });
  await client.subscribeAsync(ECHO.reply, { qos: 1 });
  return {
    async ask() {
      const reply = nextMessage(client);
      await client.publishAsync(ECHO.request, "ping", { qos: 1 });
      await reply;
    },
    close: () => client.endAsync(true),
  };
}

function nextMessage(client: MqttClient): Promise<void> {
  return new Promise((resolve) => client.once("message", () => resolve()));
}

/** The same over the mesh's own connection. */
export async function leafmeshEcho(url: string): Promise<Party> {
  const connection = createMqttConnection(mqttOptions.parse({ url }), { clock: systemClock, logger: silentLogger });
  let heard: () => void = () => {};
  await connection.subscribe([ECHO.reply], { message: () => heard(), lost: () => {} }, patient);
  const payload = new TextEncoder().encode("ping");
  return {
    async ask() {
      const reply = new Promise<void>((resolve) => {
        heard = resolve;
      });
      await connection.publish({ topic: ECHO.request, payload }, patient);
      await reply;
    },
    close: () => connection.close(),
  };
}
