/** The configuration that `infra/mosquitto` ships, started as it is: what the mesh and the devices may do, and what not. */
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { checkMqtt, mqttOptions } from "@leafmesh/mqtt";
import { systemClock } from "@leafmesh/protocol";
import {
  type Authority,
  type Broker,
  createAuthority,
  mosquittoAvailable,
  startBroker,
} from "@leafmesh/testkit/mosquitto";
import mqtt, { type IClientOptions, type MqttClient } from "mqtt";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type MqttMesh, patient, startMqttMesh } from "../../testing/mqtt-mesh.ts";
import { createDevice } from "../device.ts";
import { listenForRings, type MqttBroker, mqttConnector } from "./mqtt.ts";

const shipped = resolve(import.meta.dirname, "../../../../infra/mosquitto");
const USERS = {
  mesh: "mesh-password",
  "phone-7": "phone-password",
  "phone-8": "other-password",
  curious: "curious-password",
};
type Listener = "8883" | "8884" | "8885";

describe.skipIf(!mosquittoAvailable())("the Mosquitto configuration that is shipped (needs mosquitto)", () => {
  let authority: Authority;
  let broker: Broker<Listener>;
  let mesh: MqttMesh;
  const url = (listener: Listener): string =>
    `${listener === "8884" ? "wss" : "mqtts"}://localhost:${broker.ports[listener]}`;

  beforeAll(async () => {
    authority = await createAuthority();
    const server = await authority.issue({ commonName: "localhost", hosts: ["localhost"] });
    const configuration = await readFile(resolve(shipped, "mosquitto.conf"), "utf8");
    broker = await startBroker<Listener>({
      listeners: ["8883", "8884", "8885"],
      users: USERS,
      files: {
        acl: await readFile(resolve(shipped, "leafmesh.acl"), "utf8"),
        "broker.pem": server.cert,
        "broker.key": server.key,
        "clients-ca.pem": authority.ca,
      },
      config: ({ folder, ports }) =>
        configuration
          .replaceAll("/etc/mosquitto/leafmesh.passwords", `${folder}/passwords`)
          .replaceAll("/etc/mosquitto/leafmesh.acl", `${folder}/acl`)
          .replaceAll("/etc/mosquitto/certs", folder)
          .replaceAll(/^listener (\d+)$/gm, (_line, port: Listener) => `listener ${ports[port]} 127.0.0.1`)
          .concat("\nlog_type all\n"),
    });
    mesh = startMqttMesh({ url: url("8883"), ca_cert: authority.ca, username: "mesh", password: USERS.mesh });
  });
  afterAll(async () => {
    await mesh?.close();
    await broker?.stop();
    await authority?.close();
  });

  /** A client with a device's login and no manners. */
  async function client(user: keyof typeof USERS, options: IClientOptions = {}): Promise<MqttClient> {
    const connected = await mqtt.connectAsync(url("8883"), {
      ca: authority.ca,
      protocolVersion: 5,
      reconnectPeriod: 0,
      username: user,
      password: USERS[user],
      ...options,
    });
    onTestFinished(() => connected.endAsync(true));
    return connected;
  }

  /** What `listener` hears of one message that `sender` publishes; `fence` is a topic that it may hear. */
  async function heard(listener: MqttClient, fence: () => Promise<unknown>, fenceTopic: string): Promise<string[]> {
    const topics: string[] = [];
    const done = new Promise<void>((resolveDone) =>
      listener.on("message", (topic) => {
        if (topic === fenceTopic) resolveDone();
        else topics.push(topic);
      }),
    );
    await fence();
    await done;
    return topics;
  }

  const publish = async (sender: MqttClient, topic: string, retain = false): Promise<number> =>
    await sender.publishAsync(topic, "x", { qos: 1, retain }).then(
      () => 0,
      (error: { code: number }) => error.code,
    );

  it.each<[string, (broker: string) => Promise<MqttBroker>, Listener]>([
    ["by password", async (at) => ({ url: at, username: "phone-7", password: USERS["phone-7"] }), "8883"],
    ["over WebSocket", async (at) => ({ url: at, username: "phone-7", password: USERS["phone-7"] }), "8884"],
    [
      "by certificate",
      async (at) => {
        const { cert, key } = await authority.issue({ commonName: "phone-7" });
        return { url: at, clientCert: cert, clientKey: key };
      },
      "8885",
    ],
  ])("lets a device %s be rung, come and answer", async (_how, access, listener) => {
    const at = { ...(await access(url(listener))), caCert: authority.ca };
    const device = createDevice({
      id: "phone-7",
      connectors: [mqttConnector({ broker: at, mqtt })],
      handlers: { "battery.read": () => ({ level: 71 }) },
      meshKeys: async () => [],
      verifyRing: async () => true,
    });
    const topic = "leafmesh/phone-7/connect";
    const rings = listenForRings({ broker: at, topic, mqtt, onRing: (ring) => void device.handleRing(ring) });
    onTestFinished(async () => {
      await rings.close();
      await device.close();
    });
    await rings.ready();
    const { room, ring, event, task } = await mesh.open({ sig: "x" });
    await mesh.ring(ring, topic);
    await event("joined");
    expect(await task()).toEqual({ status: "handed" });
    await event("frame");
    expect(await event("frame")).toMatchObject({ envelope: { type: "reply", data: { level: 71 } } });
    await room.close("settled");
  });

  it("lets the mesh's record pass its test", async () => {
    const record = { url: url("8883"), ca_cert: authority.ca, username: "mesh", password: USERS.mesh };
    const options = mqttOptions.parse({ ...record, room_topic_prefix: "leafmesh" });
    expect(await checkMqtt(options, systemClock, patient)).toEqual({ status: "active" });
  });

  it("does not let a device hear others, whatever it subscribes to", async () => {
    const meshClient = await client("mesh");
    const neighbour = await client("phone-8");
    const curious = await client("curious");
    const filters = [
      "#",
      "$SYS/#",
      "leafmesh/#",
      "leafmesh/+/connect",
      "leafmesh/room/+/d/+/+",
      "leafmesh/phone-8/connect",
    ];
    await curious.subscribeAsync(filters, { qos: 1 });
    const fence = "leafmesh/curious/connect";
    const topics = await heard(
      curious,
      async () => {
        await publish(meshClient, "leafmesh/phone-8/connect");
        await publish(meshClient, "leafmesh/room/r1/d/phone-8/down");
        await publish(neighbour, "leafmesh/room/r1/d/phone-8/up");
        await publish(neighbour, "leafmesh/room/r1/d/phone-8/presence", true);
        await publish(curious, "leafmesh/room/r1/d/curious/up");
        await publish(meshClient, fence);
      },
      fence,
    );
    expect(topics).toEqual([]);
  });

  it("lets a device hear its own rings and tasks, from the mesh alone", async () => {
    const meshClient = await client("mesh");
    const neighbour = await client("phone-8");
    const device = await client("phone-7");
    const [ring, down] = ["leafmesh/phone-7/connect", "leafmesh/room/r2/d/phone-7/down"];
    await device.subscribeAsync([ring, down], { qos: 1 });
    const topics = await heard(
      device,
      async () => {
        for (const stranger of [neighbour, device]) {
          expect(await publish(stranger, ring)).toBe(135);
          expect(await publish(stranger, down)).toBe(135);
        }
        expect(await publish(meshClient, down)).toBe(0);
        expect(await publish(meshClient, ring)).toBe(0);
      },
      ring,
    );
    expect(topics).toEqual([down]);
  });

  it("lets the mesh hear a device's room, from that device alone", async () => {
    const meshClient = await client("mesh");
    const neighbour = await client("phone-8");
    const device = await client("phone-7");
    const [up, presence] = ["leafmesh/room/r3/d/phone-7/up", "leafmesh/room/r3/d/phone-7/presence"];
    await meshClient.subscribeAsync([up, presence], { qos: 1 });
    const topics = await heard(
      meshClient,
      async () => {
        expect(await publish(neighbour, up)).toBe(135);
        expect(await publish(neighbour, presence, true)).toBe(135);
        expect(await publish(device, up)).toBe(0);
        expect(await publish(device, presence)).toBe(0);
      },
      presence,
    );
    expect(topics).toEqual([up]);
  });

  it("does not publish a device's will outside its own room", async () => {
    const meshClient = await client("mesh");
    const [foreign, own] = ["leafmesh/room/r4/d/phone-8/up", "leafmesh/room/r4/d/phone-7/up"];
    await meshClient.subscribeAsync([foreign, own], { qos: 1 });
    const rude = await client("phone-7", {
      will: { topic: foreign, payload: Buffer.from("x"), qos: 1, retain: false },
    });
    const from = broker.log().length;
    rude.stream.destroy();
    await broker.logged("closed", from);
    const device = await client("phone-7");
    expect(await heard(meshClient, () => publish(device, own), own)).toEqual([]);
  });

  it("lets nobody in without a login, with a wrong one, or with another authority's certificate", async () => {
    const at = { ca: authority.ca, protocolVersion: 5, reconnectPeriod: 0 } as const;
    await expect(mqtt.connectAsync(url("8883"), at)).rejects.toMatchObject({ code: 135 });
    const guess = { ...at, username: "phone-7", password: "guess" };
    await expect(mqtt.connectAsync(url("8883"), guess)).rejects.toMatchObject({ code: 135 });
    const other = await createAuthority("Somebody else");
    onTestFinished(() => other.close());
    const { cert, key } = await other.issue({ commonName: "mesh" });
    await expect(mqtt.connectAsync(url("8885"), { ...at, cert, key })).rejects.toThrow();
  });
});
