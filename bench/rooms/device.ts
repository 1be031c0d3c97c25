/**
 * The device's process. Rings come as lines of JSON over one socket to the address in RINGS: those of the mesh go to the
 * device kit, those of bare clients to the vendor's client. MESH_KEY is the mesh's public key.
 */
import { createDevice } from "@leafmesh/device";
import { ablyConnector } from "@leafmesh/device/ably";
import { livekitConnector } from "@leafmesh/device/livekit";
import { pubnubConnector } from "@leafmesh/device/pubnub";
import { pusherConnector } from "@leafmesh/device/pusher";
import { meshKeySchema } from "@leafmesh/protocol";
import { WebSocket } from "ws";
import { type RawClient, type RawPlace, rawClient } from "./raw.ts";
import { ANSWER, DEVICE, type Rung } from "./rings.ts";

const device = createDevice({
  id: DEVICE,
  meshKeys: [meshKeySchema.parse(JSON.parse(process.env.MESH_KEY ?? "{}"))],
  connectors: [ablyConnector(), pubnubConnector(), pusherConnector(), livekitConnector()],
  handlers: { "battery.read": () => ANSWER },
});

/** Joins with a client of its own, answers one task, and leaves. */
async function serveRaw(place: RawPlace, room: string): Promise<void> {
  const client = await rawClient(place, "device");
  const answered = Promise.withResolvers<void>();
  const seat = await client.join(room, (text) => {
    if (text === "task") void seat.say(JSON.stringify({ type: "reply", data: ANSWER })).then(answered.resolve);
  });
  await seat.say("hello");
  await answered.promise;
  // Pusher's client loses what it has sent when it leaves at once.
  if (place.provider !== "pusher") await seat.leave();
  await client.close();
}

/** Clients that stay and send back what they hear. */
const echoes: RawClient[] = [];
async function echo(place: RawPlace, room: string): Promise<void> {
  const client = await rawClient(place, "device");
  echoes.push(client);
  const seat = await client.join(room, (text) => {
    if (text === "ping") void seat.say("pong");
  });
  await seat.say("hello");
}

const socket = new WebSocket(process.env.RINGS ?? "");
socket.on("message", (data) => {
  const rung = JSON.parse(String(data)) as Rung;
  if (rung.kind === "ring") void device.handleRing(rung.ring, "bench");
  else if (rung.kind === "raw") void serveRaw(rung.place, rung.room);
  else void echo(rung.place, rung.room);
});
socket.on("close", () => process.exit(0));
