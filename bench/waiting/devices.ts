/**
 * Many light devices in one process: each is rung over its direct socket, joins the room, accepts the task and holds it
 * until a signal says to answer. Once in the room a device lets its direct socket go, so that a mesh needs one socket
 * for each waiting ask.
 */
import { DIRECT_PATH, DIRECT_SUBPROTOCOL, ROOM_SUBPROTOCOL } from "@leafmesh/protocol";
import { WebSocket } from "ws";
import { ANSWER, type DevicesLine, type DevicesOptions, deviceId, pushToken } from "./protocol.ts";

const { mesh, first, count }: DevicesOptions = JSON.parse(process.env.DEVICES ?? "{}");
const direct = `${mesh.replace(/^http/, "ws")}${DIRECT_PATH}`;

/** A mesh counts connections by address; these come from as many as real devices would, near enough. */
const ADDRESSES = 200;
/** Devices that connect at a time. */
const AT_A_TIME = 100;

interface Holding {
  readonly room: WebSocket;
  readonly task: string;
}

const holding: Holding[] = [];
let closed = 0;

function say(line: DevicesLine): void {
  console.log(JSON.stringify(line));
}

function open(url: string, protocol: string, index: number): WebSocket {
  const localAddress = `127.0.1.${1 + (index % ADDRESSES)}`;
  const socket = new WebSocket(url, protocol, { perMessageDeflate: false, localAddress });
  socket.on("error", (error) => {
    console.error(`device ${index}: ${error.message}`);
    process.exit(1);
  });
  return socket;
}

/** Resolves when the device can be rung. */
function connect(index: number): Promise<void> {
  const socket = open(direct, DIRECT_SUBPROTOCOL, index);
  socket.on("open", () => {
    socket.send(JSON.stringify({ type: "hello", v: 1, id: deviceId(index), token: pushToken(index) }));
  });
  return new Promise((resolve) => {
    socket.on("message", (data) => {
      const frame = JSON.parse(data.toString());
      if (frame.type === "welcome") resolve();
      else if (frame.type === "ping") socket.send('{"type":"pong"}');
      else if (frame.type === "ring") {
        const ring = JSON.parse(frame.body);
        socket.send(JSON.stringify({ type: "ring.received", ask: ring.ask }));
        join(ring.join, index, () => socket.close());
      }
    });
  });
}

function join(
  { url, token }: { readonly url: string; readonly token: string },
  index: number,
  joined: () => void,
): void {
  const room = open(url, ROOM_SUBPROTOCOL, index);
  room.on("open", () => room.send(JSON.stringify({ type: "hello", v: 1, token })));
  room.on("message", (data) => {
    const frame = JSON.parse(data.toString());
    if (frame.type === "welcome") joined();
    else if (frame.type === "ping") room.send('{"type":"pong"}');
    else if (frame.type === "task") {
      room.send(JSON.stringify({ type: "ack", seq: frame.seq }));
      room.send(JSON.stringify({ type: "accepted", seq: 1, id: frame.id }));
      holding.push({ room, task: frame.id });
      if (holding.length === count) say({ event: "holding" });
    }
  });
  room.on("close", () => {
    closed++;
    if (closed === count) say({ event: "closed", at: Date.now() });
  });
}

process.on(ANSWER, () => {
  for (const { room, task } of holding) {
    room.send(JSON.stringify({ type: "reply", seq: 2, id: task, outcome: "done", data: { level: 71 } }));
  }
});
process.on("SIGTERM", () => process.exit(0));

for (let start = first; start < first + count; start += AT_A_TIME) {
  const end = Math.min(start + AT_A_TIME, first + count);
  await Promise.all(Array.from({ length: end - start }, (_, offset) => connect(start + offset)));
}
say({ event: "ringable" });
