/** The mesh's side of what is measured: each party's `ask` resolves when the device's answer is there. */

import type { Agent, Mesh } from "@leafmesh/core";
import { loadMesh } from "@leafmesh/core/config";
import { createEmbeddedBackend } from "@leafmesh/core/storage/embedded";
import { createConnectionPool, createDeviceAction } from "@leafmesh/device-action";
import { createMqttConnection, mqttOptions } from "@leafmesh/mqtt";
import { mqttNotifier } from "@leafmesh/notifiers";
import { type RingSigner, randomId, Secret, silentLogger, systemClock } from "@leafmesh/protocol";
import { mqttRoom } from "@leafmesh/rooms";
import type { MqttClient } from "mqtt";
import { bareClient } from "./bare-client.ts";
import { DEVICE, ECHO, RAW_RING_TOPIC, RING_TOPIC, rawRoom } from "./topics.ts";

export interface Party {
  ask(): Promise<void>;
  close(): Promise<void>;
}

const RUN_MS = 3_600_000;
const patient = new AbortController().signal;

/** `device_action` with everything behind it: the ask's machine, the store (SQLite on disk, WAL), signed rings. */
export async function leafmeshAsks(url: string, folder: string, signer: RingSigner): Promise<Party> {
  const clock = systemClock;
  const mesh = meshOn(url, folder);
  const agent = agentOf(mesh);
  const backend = createEmbeddedBackend({ path: `${folder}/bench.db`, durable: false, clock, logger: silentLogger });
  await backend.migrate();
  const pool = createConnectionPool({ mesh, ...registry, clock, logger: silentLogger, newId: randomId });
  const deviceAction = createDeviceAction({
    backend,
    devices: { list: async () => [{ id: DEVICE, pushToken: new Secret(RING_TOPIC) }] },
    connectionsOf: () => pool,
    signer,
    clock,
    logger: silentLogger,
    newId: randomId,
    random: Math.random,
  });
  const at = clock.nowMs();
  const [sessionId, runId] = [randomId("session"), randomId("run")];
  const session = {
    id: sessionId,
    meshName: mesh.name,
    entryPoint: "chat",
    createdAt: at,
    lastActiveAt: at,
    context: {},
  };
  const run = { id: runId, sessionId, agent: agent.name, status: "running", input: "", createdAt: at } as const;
  await backend.commit([
    { kind: "session.create", session },
    { kind: "run.create", run: { ...run, deadlineAt: at + RUN_MS, version: 1 } },
  ]);
  const [tool] = await deviceAction.provider.toolsFor(agent, { sessionId, runId, mesh });
  if (!tool) throw new Error("the agent has no device_action");
  let position = 0;

  return {
    async ask() {
      const call = { turn: 1, position: position++, providerCallId: `call_${position}` };
      const result = await tool.execute({
        invocation: { sessionId, runId, agent: agent.name, ...call, arguments: { action: "battery.read", inputs: {} } },
        signal: patient,
        deadlineAtMs: clock.nowMs() + RUN_MS,
      });
      if (!result.success) throw new Error(result.content);
    },
    async close() {
      await deviceAction.stop({ graceMs: 0 });
      await pool.close();
      await backend.close();
    },
  };
}

/** The notifier, the room and the device kit alone: what an ask costs before anything is decided or stored. */
export async function leafmeshRooms(url: string, signer: RingSigner): Promise<Party> {
  const pool = createConnectionPool({
    mesh: meshOn(url, "/"),
    ...registry,
    clock: systemClock,
    logger: silentLogger,
    newId: randomId,
  });
  const [notifier, rooms] = [pool.notifier("broker")?.notifier, pool.room("broker")?.rooms];
  if (!notifier || !rooms) throw new Error("the mesh has no broker");
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
    close: () => pool.close(),
  };
}

const registry = {
  notifiers: new Map([[mqttNotifier.provider, mqttNotifier]]),
  rooms: new Map([[mqttRoom.provider, mqttRoom]]),
};

function meshOn(url: string, folder: string): Mesh {
  const text = `
name: bench
connections: { broker: { provider: mqtt, url: "${url}", room_topic_prefix: leafmesh } }
agents:
  phone_helper:
    model: gpt-4o-mini
    prompt: Read the battery.
    device: { connection: broker, room: broker, approval: silent }
`;
  const loaded = loadMesh(text, {
    registry,
    env: { OPENAI_API_KEY: "none" },
    readFile: () => ({ ok: false, why: "missing" }),
    folder,
  });
  if (!loaded.ok) throw new Error(loaded.diagnostics.map(({ message }) => message).join("\n"));
  const { mesh } = loaded;
  return { ...mesh, limits: { ...mesh.limits, maxAsksPerRun: 1_000_000, maxOpenAsksPerSession: 1_000 } };
}

function agentOf(mesh: Mesh): Agent {
  const [agent] = mesh.agents.values();
  if (!agent) throw new Error("the mesh has no agent");
  return agent;
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
