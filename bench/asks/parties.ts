/** The bare parties, and the messages there and back over a room that is open. */
import { request } from "node:http";
import { Secret } from "@leafmesh/protocol";
import type { RoomService } from "@leafmesh/room-service";
import { WebSocket } from "ws";
import type { Party } from "../lib/ask-party.ts";
import { ACK_EVERY, RAW_HELLO, ROOM_KEY, rawPath } from "./meeting.ts";
import type { RawRooms } from "./raw-rooms.ts";
import type { RawStore } from "./raw-store.ts";

const TASK = { type: "task", action: "battery.read", inputs: {} };

function ring(rooms: RawRooms, message: object): void {
  const ringer = rooms.ringer();
  if (!ringer) throw new Error("the bare device cannot be rung");
  ringer.send(JSON.stringify(message));
}

/** Ring, connect, hello, task, accepted, reply over `ws`; the mesh is the room. With a store each step is kept first. */
export function rawAsks(meshUrl: string, rooms: RawRooms, name: string, steps?: RawStore): Party {
  let asked = 0;
  return {
    async ask() {
      const id = `${name}-${++asked}`;
      steps?.store(id, "created");
      steps?.store(id, "reaching");
      const joined = rooms.device(id);
      ring(rooms, { url: `${meshUrl.replace("http", "ws")}${rawPath(id, "device")}` });
      const device = await joined;
      steps?.store(id, "offered");
      device.send(JSON.stringify({ ...TASK, id }));
      await reply(device);
      steps?.store(id, "settled");
    },
    async close() {
      steps?.close();
    },
  };
}

/** The same with the room in a process of its own: opened, joined by both, closed. */
export function rawRemoteAsks(relayUrl: string, rooms: RawRooms): Party {
  let asked = 0;
  const at = relayUrl.replace("http", "ws");
  return {
    async ask() {
      const id = `room-${++asked}`;
      await call("POST", `${relayUrl}/rooms`);
      const mesh = await rawSeat(`${at}${rawPath(id, "mesh")}`);
      const joined = new Promise((resolve) => mesh.once("message", resolve));
      ring(rooms, { url: `${at}${rawPath(id, "device")}` });
      await joined;
      mesh.send(JSON.stringify({ ...TASK, id }));
      await reply(mesh);
      // The mesh closes its rooms behind its answer as well.
      mesh.close();
      void call("DELETE", `${relayUrl}/rooms/${id}`);
    },
    async close() {},
  };
}

/** One message there and one back between the mesh and a device that are connected. */
export async function rawEcho(meshUrl: string, rooms: RawRooms): Promise<Party> {
  const joined = rooms.device("echo");
  ring(rooms, { url: `${meshUrl.replace("http", "ws")}${rawPath("echo", "device")}`, echo: true });
  return echoParty(await joined);
}

/** The same through a bare relay. */
export async function rawRelayEcho(relayUrl: string, rooms: RawRooms): Promise<Party> {
  const at = relayUrl.replace("http", "ws");
  const mesh = await rawSeat(`${at}${rawPath("echo", "mesh")}`);
  const joined = new Promise((resolve) => mesh.once("message", resolve));
  ring(rooms, { url: `${at}${rawPath("echo", "device")}`, echo: true });
  await joined;
  return echoParty(mesh);
}

function echoParty(socket: WebSocket): Party {
  const message = JSON.stringify({ type: "cancel", id: "echo", reason: "over" });
  return {
    ask: () =>
      new Promise((resolve) => {
        socket.once("message", () => resolve());
        socket.send(message);
      }),
    async close() {
      socket.close();
    },
  };
}

const ECHO_TASK = { type: "task", id: "echo", action: "x", inputs: {}, budget_ms: 3_600_000 } as const;
const ECHO_CANCEL = { type: "cancel", id: "echo", reason: "over" } as const;

/** A `cancel` there and a `progress` back through the room in the mesh's own process. */
export async function leafmeshEcho(service: RoomService, rooms: RawRooms): Promise<Party> {
  let onJoined = (): void => {};
  let onProgress = (): void => {};
  const joined = new Promise<void>((resolve) => {
    onJoined = resolve;
  });
  const room = await service.openLocal({
    lifetimeMs: 3_600_000,
    joinWithinMs: 60_000,
    onFrame(frame) {
      if (frame.type === "peer") onJoined();
      if (frame.type === "progress") onProgress();
    },
  });
  ring(rooms, { url: room.connectUrl, token: room.deviceToken });
  await joined;
  room.send(ECHO_TASK);
  return {
    ask: () =>
      new Promise((resolve) => {
        onProgress = resolve;
        room.send(ECHO_CANCEL);
      }),
    async close() {
      room.close();
    },
  };
}

/** The same through LeafMesh's service in a process of its own, both seats over sockets. */
export async function leafmeshRelayEcho(roomsUrl: string, rooms: RawRooms): Promise<Party> {
  const key = new Secret(ROOM_KEY);
  const opened = await (
    await fetch(`${roomsUrl}/v1/rooms`, {
      method: "POST",
      headers: { authorization: `Bearer ${key.reveal()}` },
      body: JSON.stringify({ ttl_s: 900 }),
    })
  ).json();
  const mesh = new WebSocket(opened.connect_url, "leafmesh.room.v1", { perMessageDeflate: false });
  let onFrame: (type: string) => void = () => {};
  let seq = 0;
  mesh.on("open", () => mesh.send(JSON.stringify({ type: "hello", v: 1, token: opened.mesh_token })));
  mesh.on("message", (data) => {
    const frame = JSON.parse(data.toString());
    if (frame.type === "ping") mesh.send(JSON.stringify({ type: "pong" }));
    if (frame.type !== "ack" && frame.seq % ACK_EVERY === 0) mesh.send(JSON.stringify({ type: "ack", seq: frame.seq }));
    onFrame(frame.type);
  });
  const next = (type: string) =>
    new Promise<void>((resolve) => {
      onFrame = (came) => came === type && resolve();
    });
  const welcome = next("welcome");
  await welcome;
  const joined = next("peer");
  ring(rooms, { url: opened.connect_url, token: opened.device_token });
  await joined;
  mesh.send(JSON.stringify({ ...ECHO_TASK, seq: ++seq }));
  return {
    ask() {
      const progress = next("progress");
      mesh.send(JSON.stringify({ ...ECHO_CANCEL, seq: ++seq }));
      return progress;
    },
    async close() {
      mesh.close();
    },
  };
}

/** The mesh's seat of a bare room elsewhere, once its hello is answered. */
async function rawSeat(url: string): Promise<WebSocket> {
  const mesh = new WebSocket(url, { perMessageDeflate: false });
  mesh.on("open", () => mesh.send(RAW_HELLO));
  await new Promise((welcomed) => mesh.once("message", welcomed));
  return mesh;
}

function reply(socket: WebSocket): Promise<void> {
  return new Promise((resolve) => {
    socket.on("message", (data) => {
      if (JSON.parse(data.toString()).type === "reply") resolve();
    });
  });
}

function call(method: string, url: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method }, (response) => {
      response.resume();
      response.on("end", resolve);
    });
    sent.on("error", reject);
    sent.end();
  });
}
