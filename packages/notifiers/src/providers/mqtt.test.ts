import { randomId, Secret, silentLogger, systemClock } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import {
  type Mosquitto,
  mosquittoAvailable,
  startMosquitto,
  startTlsMosquitto,
  type TlsMosquitto,
} from "@leafmesh/testkit/mosquitto";
import mqtt, { type IClientOptions, type MqttClient } from "mqtt";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type Closable, type Notifier, RingError, type RingRequest } from "../contract.ts";
import { mqttNotifier } from "./mqtt.ts";

const patient = new AbortController().signal;
const TOPIC = "leafmesh/phone-7/connect";

function notifierFor(record: Record<string, string>, clock = systemClock): Notifier {
  const shared = new Map<string, Closable>();
  onTestFinished(async () => {
    for (const each of shared.values()) await each.close();
  });
  return mqttNotifier.create(mqttNotifier.options.parse(record), {
    clock,
    logger: silentLogger,
    newId: randomId,
    scope: {
      share<Value extends Closable>(key: string, make: () => Value): Value {
        const value = (shared.get(key) as Value | undefined) ?? make();
        shared.set(key, value);
        return value;
      },
    },
  });
}

function ringRequest(ttlMs = 30_000): RingRequest {
  const nowS = Math.floor(Date.now() / 1000);
  const ring = {
    v: 1,
    ask: "ask_1",
    device: "phone-7",
    approval: "silent",
    iat: nowS,
    exp: nowS + 30,
    join: { provider: "leafmesh", url: "wss://mesh.example.com/v1/connect", room: "r1", token: "t" },
  } as const;
  return { ring, body: JSON.stringify(ring), collapseKey: "ask_1", ttlMs, approval: "silent" };
}

async function ringErrorOf(attempt: Promise<unknown>): Promise<RingError> {
  const error = await attempt.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof RingError)) throw new Error(`expected a RingError, got ${String(error)}`);
  return error;
}

interface Ringable {
  readonly client: MqttClient;
  readonly rings: { body: string; retain: boolean; expiry: number | undefined; contentType: string | undefined }[];
}

async function deviceOn(url: string, topic: string, options: IClientOptions = {}): Promise<Ringable> {
  const client = mqtt.connect(url, { protocolVersion: 5, reconnectPeriod: 0, ...options });
  onTestFinished(() => client.endAsync(true));
  const rings: Ringable["rings"] = [];
  client.on("message", (_topic, payload, { retain, properties }) => {
    const { messageExpiryInterval: expiry, contentType } = properties ?? {};
    rings.push({ body: payload.toString(), retain, expiry, contentType });
  });
  await new Promise<void>((resolve) => client.once("connect", () => resolve()));
  await client.subscribeAsync(topic, { qos: 1 });
  return { client, rings };
}

describe("the push token of mqtt", () => {
  it.each([TOPIC, "acme/leafmesh/phone:7@a|b/connect", "x"])("is an exact topic such as %s", (token) => {
    expect(mqttNotifier.pushToken.safeParse(token).success).toBe(true);
  });

  it.each([
    "",
    "leafmesh/+/connect",
    "leafmesh/#",
    "#",
    "leafmesh/phone+7/connect",
    "$SYS/broker",
    "$share/all/leafmesh/phone-7/connect",
    "$CONTROL/dynamic-security/v1",
    "/leafmesh/phone-7",
    "leafmesh//connect",
    "leafmesh/phone-7/",
    "leafmesh/phone-7\u0000/connect",
    "leafmesh/phone-7\r\n/connect",
    `leafmesh/${"x".repeat(65_536)}`,
  ])("is not %.40j", (token) => {
    const result = mqttNotifier.pushToken.safeParse(token);
    expect(result.error?.issues[0]?.message).toMatch(/; for example leafmesh\/phone-7\/connect$/);
  });
});

describe("an mqtt record", () => {
  it("is judged over several fields when it is loaded", () => {
    const options = mqttNotifier.options.parse({ url: "mqtt://broker", username: "mesh", password: "x" });
    expect(mqttNotifier.validate?.(options)).toEqual([
      { path: ["url"], message: expect.stringMatching(/login in clear/) },
    ]);
  });
});

describe.skipIf(!mosquittoAvailable())("ringing over MQTT (needs mosquitto)", () => {
  let broker: Mosquitto;
  beforeAll(async () => {
    broker = await startMosquitto();
  });
  afterAll(() => broker.stop());

  it("is one message to the device's topic, as it was signed, with the ring's time to live", async () => {
    const { rings } = await deviceOn(broker.url, TOPIC);
    const request = ringRequest(29_100);
    expect(await notifierFor({ url: broker.url }).ring(request, new Secret(TOPIC), patient)).toEqual({});
    await expect.poll(() => rings.length).toBe(1);
    expect(rings).toEqual([{ body: request.body, retain: false, expiry: 30, contentType: "application/json" }]);
  });

  it("says that a device is offline when nobody is subscribed", async () => {
    const error = await ringErrorOf(
      notifierFor({ url: broker.url }).ring(ringRequest(), new Secret("leafmesh/nobody/connect"), patient),
    );
    expect(error).toMatchObject({ kind: "offline", code: "16" });
  });

  it("leaves nothing for a device that subscribes later", async () => {
    const topic = "leafmesh/late/connect";
    await ringErrorOf(notifierFor({ url: broker.url }).ring(ringRequest(), new Secret(topic), patient));
    const { client, rings } = await deviceOn(broker.url, topic);
    await client.publishAsync(topic, "marker", { qos: 1 });
    await expect.poll(() => rings.length).toBeGreaterThan(0);
    expect(rings.map(({ body }) => body)).toEqual(["marker"]);
  });

  it("reaches a device with a kept session later, if it is back in time", async () => {
    const topic = "leafmesh/session/connect";
    const session = { clientId: "session7", clean: false, properties: { sessionExpiryInterval: 60 } };
    const { client } = await deviceOn(broker.url, topic, session);
    await client.endAsync(true);
    const notifier = notifierFor({ url: broker.url });
    await notifier.ring(ringRequest(30_000), new Secret(topic), patient);
    const { rings } = await deviceOn(broker.url, topic, session);
    await expect.poll(() => rings.length).toBe(1);
  });

  it("does not write into the rooms of the same record, whatever the token says", async () => {
    const topic = "leafmesh/room/r1/d/phone-7/down";
    const { rings } = await deviceOn(broker.url, topic);
    const notifier = notifierFor({ url: broker.url, room_topic_prefix: "leafmesh" });
    const error = await ringErrorOf(notifier.ring(ringRequest(), new Secret(topic), patient));
    expect(error.kind).toBe("bad_request");
    expect(error.message).not.toContain(topic);
    expect(rings).toEqual([]);
  });

  it("ends with the caller's signal", async () => {
    const error = await ringErrorOf(
      notifierFor({ url: broker.url }).ring(ringRequest(), new Secret(TOPIC), AbortSignal.abort()),
    );
    expect(error.kind).toBe("transient");
  });
});

describe.skipIf(!mosquittoAvailable())("a broker that fails under a ring (needs mosquitto)", () => {
  it("makes it transient when it freezes, and the ring comes at most once", async () => {
    await using broker = await startMosquitto();
    const { rings } = await deviceOn(broker.url, TOPIC);
    const clock = createFakeClock();
    const notifier = notifierFor({ url: broker.url }, clock);
    await notifier.ring(ringRequest(), new Secret(TOPIC), patient);
    await expect.poll(() => rings.length).toBe(1);
    broker.freeze();
    const frozen = ringErrorOf(notifier.ring(ringRequest(), new Secret(TOPIC), patient));
    await expect.poll(() => clock.pendingTimers).toBe(1);
    await clock.advance(5_000);
    expect(await frozen).toMatchObject({ kind: "transient", code: "timeout" });
    broker.thaw();
    await notifier.ring({ ...ringRequest(), body: "marker" }, new Secret(TOPIC), patient);
    await expect.poll(() => rings.at(-1)?.body).toBe("marker");
    expect(rings.length).toBeLessThanOrEqual(3);
  });

  it("is found again on the next ring", async () => {
    const broker = await startMosquitto();
    onTestFinished(() => broker.stop());
    const notifier = notifierFor({ url: broker.url });
    await deviceOn(broker.url, TOPIC);
    await notifier.ring(ringRequest(), new Secret(TOPIC), patient);
    await broker.kill();
    expect((await ringErrorOf(notifier.ring(ringRequest(), new Secret(TOPIC), patient))).kind).toBe("transient");
    await broker.start();
    const { rings } = await deviceOn(broker.url, TOPIC);
    await notifier.ring(ringRequest(), new Secret(TOPIC), patient);
    await expect.poll(() => rings.length).toBe(1);
  });

  it("refuses a ring that is too large for it without losing the connection", async () => {
    await using broker = await startMosquitto({ settings: ["max_packet_size 500"] });
    const { rings } = await deviceOn(broker.url, TOPIC);
    const notifier = notifierFor({ url: broker.url });
    const large = { ...ringRequest(), body: "x".repeat(600) };
    expect((await ringErrorOf(notifier.ring(large, new Secret(TOPIC), patient))).kind).toBe("too_big");
    await notifier.ring(ringRequest(), new Secret(TOPIC), patient);
    await expect.poll(() => rings.length).toBe(1);
  });
});

describe.skipIf(!mosquittoAvailable())("the test of a notifier's record (needs mosquitto)", () => {
  let broker: TlsMosquitto;
  let record: Record<string, string>;
  beforeAll(async () => {
    broker = await startTlsMosquitto({
      users: { mesh: "secret" },
      acl: "user mesh\ntopic write leafmesh/+/connect\ntopic readwrite leafmesh/room/#\n",
    });
    record = { url: broker.urls.tls, ca_cert: broker.authority.ca, username: "mesh", password: "secret" };
  });
  afterAll(() => broker.stop());

  it("passes by password, by certificate and over WebSocket", async () => {
    const { cert, key } = await broker.authority.issue({ commonName: "mesh" });
    const byCertificate = {
      url: broker.urls.certificate,
      ca_cert: broker.authority.ca,
      client_cert: cert,
      client_key: key,
    };
    for (const each of [record, byCertificate, { ...record, url: broker.urls.wss }]) {
      expect(await notifierFor(each).check(patient)).toEqual({ status: "active" });
    }
  });

  it("rings nobody", async () => {
    const from = broker.log().length;
    await notifierFor(record).check(patient);
    expect(broker.log().slice(from)).not.toContain("Received PUBLISH");
  });

  it("proves the room's topics too when the record is a room", async () => {
    expect(await notifierFor({ ...record, room_topic_prefix: "leafmesh" }).check(patient)).toEqual({
      status: "active",
    });
    const elsewhere = await notifierFor({ ...record, room_topic_prefix: "other" }).check(patient);
    expect(elsewhere).toMatchObject({ status: "failing", reason: expect.stringMatching(/135 not authorized/) });
  });

  it.each<[string, Record<string, string | undefined>, string, RegExp]>([
    ["a wrong password", { password: "guess" }, "failing", /check username and password/],
    ["no CA", { ca_cert: undefined }, "failing", /put your CA's certificate into ca_cert/],
  ])("with %s is %s", async (_case, change, status, reason) => {
    const changed = Object.fromEntries(
      Object.entries({ ...record, ...change }).filter((field): field is [string, string] => field[1] !== undefined),
    );
    expect(await notifierFor(changed).check(patient)).toEqual({ status, reason: expect.stringMatching(reason) });
  });

  it("has no verdict when nothing listens", async () => {
    const gone = await startMosquitto();
    await gone.stop();
    const result = await notifierFor({ url: gone.url }).check(patient);
    expect(result).toMatchObject({ status: "readable", reason: expect.stringMatching(/nothing listens/) });
  });

  it("maps a topic that the access rules forbid to a bad credential", async () => {
    const error = await ringErrorOf(notifierFor(record).ring(ringRequest(), new Secret("other/phone-7"), patient));
    expect(error).toMatchObject({ kind: "bad_credential", code: "135" });
    expect(error.message).not.toContain("other/phone-7");
  });
});
