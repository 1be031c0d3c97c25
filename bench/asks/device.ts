/**
 * The device's process: the device kit on the direct socket, and a bare `ws` client that is rung over its own socket and
 * takes the same steps with nothing checked, signed or remembered. Prints one line of JSON when both can be rung.
 * Environment: MESH (base URL), MESH_KEY (the mesh's public key, JSON).
 */
import { connectDirect, createDevice, directAddress, leafmeshConnector } from "@leafmesh/device";
import { meshKeySchema, ROOM_SUBPROTOCOL } from "@leafmesh/protocol";
import { WebSocket } from "ws";
import { ACK_EVERY, ANSWER, DEVICE, PUSH_TOKEN, RAW_HELLO, RAW_RING_PATH } from "./meeting.ts";

const mesh = process.env.MESH ?? "";
const device = createDevice({
  id: DEVICE,
  meshKeys: [meshKeySchema.parse(JSON.parse(process.env.MESH_KEY ?? "{}"))],
  handlers: { "battery.read": () => ANSWER },
  // Both kinds of device stand on the same WebSocket client: Node's own takes twice as long to connect.
  connectors: [leafmeshConnector({ WebSocket })],
});
const direct = connectDirect({
  url: directAddress(mesh),
  id: DEVICE,
  token: PUSH_TOKEN,
  WebSocket,
  onRing: (ring) => void device.handleRing(ring, "direct"),
});

/** A bare client says who it is in its first message. */
function join(url: string): WebSocket {
  const socket = new WebSocket(url, { perMessageDeflate: false });
  socket.on("open", () => socket.send(RAW_HELLO));
  return socket;
}

/** One bare ask: hello, accepted, reply, goodbye. */
function answerOnce(url: string): void {
  const socket = join(url);
  socket.on("message", (data) => {
    const { id } = JSON.parse(data.toString());
    socket.send(JSON.stringify({ type: "accepted", id }));
    socket.send(JSON.stringify({ type: "reply", id, outcome: "done", data: ANSWER }));
    socket.close();
  });
}

/** A bare room in which everything that comes goes back. */
function echo(url: string): void {
  const socket = join(url);
  socket.on("message", (data) => socket.send(data.toString()));
}

/** A LeafMesh room in which every `cancel` is answered with a `progress`: the smallest frames that go both ways. */
function echoInRoom(url: string, token: string): void {
  const socket = new WebSocket(url, ROOM_SUBPROTOCOL, { perMessageDeflate: false });
  let seq = 0;
  socket.on("open", () => socket.send(JSON.stringify({ type: "hello", v: 1, token })));
  socket.on("message", (data) => {
    const frame = JSON.parse(data.toString());
    if (frame.type === "cancel") socket.send(JSON.stringify({ type: "progress", seq: ++seq, id: frame.id }));
    if (frame.type === "ping") socket.send(JSON.stringify({ type: "pong" }));
    if (frame.type !== "ack" && frame.seq % ACK_EVERY === 0)
      socket.send(JSON.stringify({ type: "ack", seq: frame.seq }));
  });
}

const raw = new WebSocket(`${mesh.replace("http", "ws")}${RAW_RING_PATH}`, { perMessageDeflate: false });
raw.on("message", (data) => {
  const ring = JSON.parse(data.toString());
  if (ring.token !== undefined) echoInRoom(ring.url, ring.token);
  else if (ring.echo) echo(ring.url);
  else answerOnce(ring.url);
});
await new Promise((resolve) => raw.once("open", resolve));
await direct.ready();
console.log(JSON.stringify({ ready: true }));
