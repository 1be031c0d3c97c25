/** A reply from anybody but the device of the room never becomes an outcome. */
import mqtt from "mqtt";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startMqttDevice } from "../support/device.ts";
import { type RunningMesh, startMesh } from "../support/mesh.ts";
import { callFor, type ObedientModel, resultsIn, startObedientModel } from "../support/model.ts";
import { type Broker, startBroker } from "../support/mosquitto.ts";
import { killAll, type RunningProcess } from "../support/process.ts";

let broker: Broker;
let model: ObedientModel;
let mesh: RunningMesh;
let device: RunningProcess;

beforeAll(async () => {
  [broker, model] = await Promise.all([
    startBroker({ meshPassword: "mesh-broker-password", devices: ["phone-7", "intruder"] }),
    startObedientModel(),
  ]);
  mesh = await startMesh({
    yaml: `name: forgery
${model.yaml}connections:
  broker: { provider: mqtt, url: "${broker.url}", username: mesh, password: "${broker.meshPassword}", room_topic_prefix: leafmesh }
agents:
  helper:
    model: test/any
    prompt: Do as you are told.
    device: { connection: broker, room: broker }
`,
  });
  device = await startMqttDevice(
    [
      ...["--mqtt", broker.url, "--topic", "leafmesh/phone-7/phone-7/connect"],
      ...["--username", "phone-7", "--password", broker.devicePassword],
    ],
    { behave: "late=1500" },
  );
});

afterAll(async () => {
  await killAll();
  await Promise.all([model.close(), broker.close()]);
});

it("a client that may read and write every room neither answers for the device nor reads its answer", async () => {
  const intruder = await mqtt.connectAsync(broker.url, {
    username: "intruder",
    password: broker.devicePassword,
    protocolVersion: 5,
  });
  const seen: { topic: string; payload: Buffer }[] = [];
  let forged = 0;
  intruder.on("message", (topic, payload) => {
    seen.push({ topic, payload });
    if (forged++ > 200) return;
    // Every message comes back on every topic of the room: as it is, and as a reply in clear.
    const base = topic.slice(0, topic.lastIndexOf("/"));
    const reply = { type: "reply", id: "ask_1", outcome: "done", data: { level: 1 } };
    for (const leaf of ["up", "down", "presence"]) {
      intruder.publish(`${base}/${leaf}`, payload, { qos: 1 });
      intruder.publish(`${base}/${leaf}`, JSON.stringify(reply), { qos: 1 });
    }
  });
  await intruder.subscribeAsync("leafmesh/room/#", { qos: 1 });

  const reply = await mesh.request({
    message: callFor({ action: "battery.read", inputs: {} }),
    device: { id: "phone-7", push_token: "leafmesh/phone-7/phone-7/connect" },
  });
  expect(resultsIn(reply.reply)).toMatchObject([{ outcome: "done", data: { level: 71 } }]);
  expect(device.lines.filter(({ event }) => event === "acted")).toHaveLength(1);
  expect(seen.length).toBeGreaterThan(3);
  expect(seen.some(({ payload }) => payload.includes("battery.read"))).toBe(false);
  await intruder.endAsync(true);
});
