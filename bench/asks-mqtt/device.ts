/**
 * The device's process: the device kit on one ring topic, bare MQTT.js on another, and an echo. Prints one line of JSON
 * when it is ready. Environment: BROKER (address), MESH_KEY (the mesh's public key, JSON).
 */
import { createDevice } from "@leafmesh/device";
import { listenForRings, mqttConnector } from "@leafmesh/device/mqtt";
import { meshKeySchema } from "@leafmesh/protocol";
import mqtt from "mqtt";
import { bareClient } from "./bare-client.ts";
import { ANSWER, DEVICE, ECHO, RAW_RING_TOPIC, RING_TOPIC, rawRoom } from "./topics.ts";

const url = process.env.BROKER ?? "";
const key = meshKeySchema.parse(JSON.parse(process.env.MESH_KEY ?? "{}"));

const device = createDevice({
  id: DEVICE,
  meshKeys: [key],
  connectors: [mqttConnector({ mqtt })],
  handlers: { "battery.read": () => ANSWER },
});
const rings = listenForRings({
  broker: { url },
  topic: RING_TOPIC,
  mqtt,
  onRing: (ring) => void device.handleRing(ring, "mqtt"),
});

/** The same steps as the kit's, with nothing checked, sealed or remembered. */
async function serveRaw(room: string): Promise<void> {
  const { down, up, presence } = rawRoom(room);
  const will = { topic: presence, payload: Buffer.from("lost"), qos: 1, retain: true } as const;
  const client = await bareClient(url, { keepalive: 15, properties: { sessionExpiryInterval: 60 }, will });
  client.on("message", (_topic, payload) => {
    const { id } = JSON.parse(payload.toString());
    client.publish(up, JSON.stringify({ type: "accepted", id }), { qos: 1 });
    client.publish(up, JSON.stringify({ type: "reply", id, outcome: "done", data: ANSWER }), { qos: 1 }, () => {
      client.publish(presence, "left", { qos: 1, retain: true }, () => client.end());
    });
  });
  await client.subscribeAsync(down, { qos: 1 });
  client.publish(presence, "joined", { qos: 1, retain: true });
}

const raw = await bareClient(url, { keepalive: 15 });
raw.on("message", (topic, payload) => {
  if (topic === ECHO.request) raw.publish(ECHO.reply, payload, { qos: 1 });
  else void serveRaw(payload.toString());
});
await raw.subscribeAsync([RAW_RING_TOPIC, ECHO.request], { qos: 1 });
await rings.ready();
console.log(JSON.stringify({ ready: true }));
