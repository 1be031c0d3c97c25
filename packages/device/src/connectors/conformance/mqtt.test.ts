import { createOpener, createSealer, importRoomKey, roomTopics } from "@leafmesh/mqtt/wire";
import { type JoinInfo, systemClock } from "@leafmesh/protocol";
import { mqttRoom } from "@leafmesh/rooms";
import { type Mosquitto, mosquittoAvailable, startMosquitto } from "@leafmesh/testkit/mosquitto";
import { type RoomServiceUnderTest, testRoom } from "@leafmesh/testkit/suites";
import { startTcpProxy } from "@leafmesh/testkit/tcp-proxy";
import mqtt, { type MqttClient } from "mqtt";
import { describe } from "vitest";
import { createDevices, type Link } from "../../../testing/conformance/devices.ts";
import { watched } from "../../../testing/conformance/opened-rooms.ts";
import { mqttConnector } from "../mqtt.ts";

const MARKER = "marker";
const PASSWORDS = { mesh: "the-broker-password-of-the-mesh", device: "device-password", spy: "spy-password" };

/** Devices do not pass the proxy, which lies between the mesh and its broker. */
async function start(): Promise<RoomServiceUnderTest> {
  const broker = await startMosquitto({ users: PASSWORDS });
  const between = await startTcpProxy(broker.ports.tcp);
  const devices = createDevices(["mqtt"], () => brokerLink(broker));
  const spy = await mqtt.connectAsync(broker.url, {
    ...{ protocolVersion: 5, username: "spy", password: PASSWORDS.spy },
  });
  const heard = await listenToAll(spy);
  const { definition, opened } = watched(mqttRoom);
  const record = {
    url: `mqtt://127.0.0.1:${between.port}`,
    ...{ username: "mesh", password: PASSWORDS.mesh, room_topic_prefix: "leafmesh" },
  };
  const publish = async (topic: string, payload: string | Uint8Array): Promise<void> => {
    await spy.publishAsync(topic, Buffer.from(payload), { qos: 1 });
  };
  return {
    definition,
    record,
    secrets: [PASSWORDS.mesh],
    connector: devices.connector,
    cut: devices.cut,
    restore: (ring) => devices.in(ring).restore(),
    async inject({ join }, from, text) {
      const { key = "", topic = "" } = join.params ?? {};
      const { up } = roomTopics(topic);
      const sealer = createSealer(await importRoomKey(from === "device" ? key : "A".repeat(43)), up);
      await publish(up, await sealer.seal(text));
    },
    async repeat(ring) {
      const { up } = roomTopics(ring.join.params?.topic ?? "");
      await publish(up, heard.of(up).at(-1) ?? "");
    },
    stall() {
      between.set({ stallUp: true, stallDown: true });
      return () => between.set({ stallUp: false, stallDown: false });
    },
    refuse: () => undefined,
    refuseCheck(how) {
      if (how === "failing") return { ...record, password: "another-password" };
      between.block();
      return record;
    },
    async tasksTaken() {
      // The broker keeps the order: what was published before has been heard when this has.
      await publish(MARKER, "x");
      await heard.first(MARKER);
      const texts = await Promise.all(opened.map((join) => textsOf(join, heard)));
      return texts.flat().filter((text) => text.startsWith('{"type":"task"')).length;
    },
    async close() {
      await devices.close();
      await spy.endAsync(true);
      await between.stop();
      await broker.stop();
    },
  };
}

async function brokerLink(broker: Mosquitto): Promise<Link> {
  const proxy = await startTcpProxy(broker.ports.tcp);
  const access = { url: `mqtt://127.0.0.1:${proxy.port}`, username: "device", password: PASSWORDS.device };
  return {
    connector: mqttConnector({ mqtt, broker: access, random: () => 0.5 }),
    cut: () => proxy.block(),
    restore: () => proxy.restore(),
    close: () => proxy.stop(),
  };
}

interface Heard {
  of(topic: string): readonly Uint8Array[];
  first(topic: string): Promise<void>;
}

async function listenToAll(spy: MqttClient): Promise<Heard> {
  const all = new Map<string, Uint8Array[]>();
  const watchers = new Set<() => void>();
  spy.on("message", (topic, payload) => {
    all.set(topic, [...(all.get(topic) ?? []), payload]);
    for (const look of watchers) look();
  });
  await spy.subscribeAsync("#", { qos: 1 });
  return {
    of: (topic) => all.get(topic) ?? [],
    first: (topic) =>
      new Promise((resolve) => {
        const look = (): void => {
          if (all.has(topic)) resolve();
        };
        watchers.add(look);
        look();
      }),
  };
}

/** What the mesh said in a room, opened with the key of its ring. */
async function textsOf({ params: { key = "", topic = "" } = {} }: JoinInfo, heard: Heard): Promise<readonly string[]> {
  const { down } = roomTopics(topic);
  const opener = createOpener(await importRoomKey(key), down);
  const opened = await Promise.all(heard.of(down).map((payload) => opener.open(payload)));
  return opened.flatMap((message) => (message.ok ? [message.text] : []));
}

describe.skipIf(!mosquittoAvailable())("on Mosquitto (needs mosquitto)", () => {
  testRoom("mqtt", start, {
    // The broker holds a will back for 5 s; the adapter's own patience is a tenth.
    clock: { ...systemClock, schedule: (afterMs, run) => systemClock.schedule(afterMs / 10, run) },
    holdsTask: true,
    cannot: {
      secondHolder: "the second takes the place of the first, as the connector's own tests show",
      tooLarge: "what is too large is not opened, and until then anybody may have sent it",
      expire: "MQTT has no credential for one room: the device keeps its login, and the kit keeps the ring's end",
      end: "a broker ends no topic; a login that is taken away is in the adapter's own tests",
    },
  });
});
