import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { type LogFields, type Logger, silentLogger, systemClock } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { type Mosquitto, mosquittoAvailable, startMosquitto } from "@leafmesh/testkit/mosquitto";
import { startTcpProxy } from "@leafmesh/testkit/tcp-proxy";
import { Aedes } from "aedes";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { createMqttConnection, type MqttConnectionDependencies } from "./connection.ts";
import type { MqttFailure } from "./failure.ts";
import { mqttOptions } from "./options.ts";

const patient = new AbortController().signal;
const bytes = (of: string) => new TextEncoder().encode(of);

function connectionTo(record: Record<string, string>, more: Partial<MqttConnectionDependencies> = {}) {
  const connection = createMqttConnection(mqttOptions.parse(record), {
    clock: systemClock,
    logger: silentLogger,
    ...more,
  });
  onTestFinished(() => connection.close());
  return connection;
}

/** Collects what a subscription hears, and resolves for whoever waits for it. */
function listener() {
  const texts: string[] = [];
  const failures: MqttFailure[] = [];
  const watchers = new Set<() => void>();
  const changed = (): void => {
    for (const look of watchers) look();
  };
  return {
    texts,
    failures,
    handlers: {
      message: ({ payload }: { payload: Uint8Array }) => {
        texts.push(new TextDecoder().decode(payload));
        changed();
      },
      lost: (failure: MqttFailure) => {
        failures.push(failure);
        changed();
      },
    },
    until: (holds: () => boolean) =>
      new Promise<void>((resolve) => {
        const look = (): void => {
          if (holds()) resolve();
        };
        watchers.add(look);
        look();
      }),
  };
}

function recordingLogger() {
  const warnings: string[] = [];
  const logger: Logger = {
    ...silentLogger,
    warn: (message: string, _fields?: LogFields) => void warnings.push(message),
  };
  return { logger, warnings };
}

function connects(broker: Mosquitto): number {
  return broker.log().match(/New client connected/g)?.length ?? 0;
}

describe.skipIf(!mosquittoAvailable())("the mesh's connection (needs mosquitto)", () => {
  let broker: Mosquitto;
  beforeAll(async () => {
    broker = await startMosquitto();
  });
  afterAll(() => broker.stop());

  it("opens no socket until it is used, and one for all who use it at once", async () => {
    await using proxy = await startTcpProxy(broker.ports.tcp);
    const connection = connectionTo({ url: `mqtt://127.0.0.1:${proxy.port}` });
    expect(proxy.connections).toBe(0);
    const facts = await Promise.all(Array.from({ length: 20 }, () => connection.ready(patient)));
    expect(facts[0]).toMatchObject({ version: 5 });
    expect(proxy.connections).toBe(1);
  });

  it("hands a message to who subscribed to its topic, until that one has enough", async () => {
    const connection = connectionTo({ url: broker.url });
    const [one, other] = [listener(), listener()];
    const subscription = await connection.subscribe(["room/1"], one.handlers, patient);
    await connection.subscribe(["room/2"], other.handlers, patient);
    await connection.publish({ topic: "room/1", payload: bytes("to one") }, patient);
    await connection.publish({ topic: "room/2", payload: bytes("to other") }, patient);
    await other.until(() => other.texts.length === 1);
    expect(one.texts).toEqual(["to one"]);
    await subscription.close();
    await subscription.close();
    const published = await connection.publish({ topic: "room/1", payload: bytes("x") }, patient);
    expect(published).toEqual({ status: "acknowledged", reached: false });
  });

  it("publishes nothing once it is closed, and does not come back", async () => {
    const connection = connectionTo({ url: broker.url });
    await connection.ready(patient);
    await connection.close();
    await connection.close();
    const before = connects(broker);
    const message = { topic: "room/1", payload: bytes("x") };
    expect(await connection.publish(message, patient)).toMatchObject({ status: "not_sent" });
    expect(await connection.publishIfConnected(message)).toMatchObject({ status: "not_sent" });
    await expect(connection.ready(patient)).rejects.toMatchObject({ kind: "unavailable" });
    expect(connects(broker)).toBe(before);
  });

  it("ends a caller's wait when the caller's signal ends", async () => {
    await using proxy = await startTcpProxy(broker.ports.tcp);
    proxy.block();
    const connection = connectionTo({ url: `mqtt://127.0.0.1:${proxy.port}` });
    const caller = new AbortController();
    const waiting = connection.publish({ topic: "a", payload: bytes("x") }, caller.signal);
    caller.abort();
    expect(await waiting).toMatchObject({ status: "not_sent", failure: { kind: "aborted" } });
  });

  it("keeps what came during a short loss, and hears on afterwards", async () => {
    await using proxy = await startTcpProxy(broker.ports.tcp);
    const connection = connectionTo({ url: `mqtt://127.0.0.1:${proxy.port}` });
    const device = connectionTo({ url: broker.url });
    const mesh = listener();
    await connection.subscribe(["room/3/up"], mesh.handlers, patient);
    proxy.block();
    await expect.poll(() => proxy.connections).toBe(0);
    expect(await device.publish({ topic: "room/3/up", payload: bytes("reply") }, patient)).toMatchObject({
      reached: true,
    });
    proxy.restore();
    await mesh.until(() => mesh.texts.length === 1);
    await device.publish({ topic: "room/3/up", payload: bytes("another") }, patient);
    await mesh.until(() => mesh.texts.length === 2);
    expect(mesh.texts).toEqual(["reply", "another"]);
  });

  it("forgets in the broker what was closed while the connection was lost", async () => {
    await using proxy = await startTcpProxy(broker.ports.tcp);
    const connection = connectionTo({ url: `mqtt://127.0.0.1:${proxy.port}` });
    const device = connectionTo({ url: broker.url });
    const mesh = listener();
    const subscription = await connection.subscribe(["room/4/up"], mesh.handlers, patient);
    proxy.block();
    await expect.poll(() => proxy.connections).toBe(0);
    await subscription.close();
    proxy.restore();
    await connection.ready(patient);
    expect(await device.publish({ topic: "room/4/up", payload: bytes("x") }, patient)).toMatchObject({
      reached: false,
    });
    expect(mesh.texts).toEqual([]);
  });

  it("never sends later what could not leave at the time", async () => {
    await using proxy = await startTcpProxy(broker.ports.tcp);
    const connection = connectionTo({ url: `mqtt://127.0.0.1:${proxy.port}` });
    const device = connectionTo({ url: broker.url });
    const heard = listener();
    await device.subscribe(["room/5/down"], heard.handlers, patient);
    await connection.ready(patient);
    proxy.block();
    const lost = await connection.publish({ topic: "room/5/down", payload: bytes("unlock") }, patient);
    expect(lost.status).toMatch(/not_sent|unknown/);
    proxy.restore();
    await connection.publish({ topic: "room/5/down", payload: bytes("later") }, patient);
    await heard.until(() => heard.texts.includes("later"));
    expect(heard.texts).toEqual(["later"]);
  });
});

describe.skipIf(!mosquittoAvailable())("a broker that dies and comes back (needs mosquitto)", () => {
  it("is found again by itself, with every subscription", async () => {
    const broker = await startMosquitto();
    onTestFinished(() => broker.stop());
    const { logger, warnings } = recordingLogger();
    const connection = connectionTo({ url: broker.url }, { logger });
    const [one, other] = [listener(), listener()];
    await connection.subscribe(["a", "b"], one.handlers, patient);
    await connection.subscribe(["c"], other.handlers, patient);
    await broker.kill();
    const gap = await connection.publish({ topic: "a", payload: bytes("in the gap") }, patient);
    expect(gap).toMatchObject({ failure: { kind: "unavailable" } });
    const from = broker.log().length;
    await broker.start();
    await broker.logged("Sending SUBACK", from);
    for (const topic of ["a", "b", "c"]) {
      expect(await connection.publish({ topic, payload: bytes(topic) }, patient)).toMatchObject({ reached: true });
    }
    await other.until(() => other.texts.length === 1);
    expect(one.texts).toEqual(["a", "b"]);
    expect(warnings).toEqual(["The connection to the MQTT broker was lost"]);
  });

  it("is left alone when nobody is subscribed, until the next use", async () => {
    const broker = await startMosquitto();
    onTestFinished(() => broker.stop());
    const clock = createFakeClock();
    const connection = connectionTo({ url: broker.url }, { clock });
    await connection.ready(patient);
    await broker.kill();
    await broker.start();
    await expect.poll(() => clock.pendingTimers).toBe(1);
    await clock.advance(60_000);
    expect(connects(broker)).toBe(1);
    const published = connection.publish({ topic: "a", payload: bytes("x") }, patient);
    expect(await published).toMatchObject({ status: "acknowledged" });
  });

  it("and refuses the login ends every subscription with the reason", async () => {
    const broker = await startMosquitto({ users: { mesh: "secret" } });
    onTestFinished(() => broker.stop());
    const connection = connectionTo({ url: broker.url, username: "mesh", password: "secret" });
    const heard = listener();
    await connection.subscribe(["a"], heard.handlers, patient);
    await broker.kill();
    await writeFile(join(broker.folder, "passwords"), "");
    await broker.start();
    await heard.until(() => heard.failures.length > 0);
    expect(heard.failures).toMatchObject([{ kind: "credential", code: "135" }]);
  });
});

describe("a broker that speaks only MQTT 3.1.1", () => {
  async function startAedes(): Promise<string> {
    const broker = await Aedes.createBroker();
    const server = createServer(broker.handle).listen(0, "127.0.0.1");
    onTestFinished(async () => {
      await new Promise<void>((resolve) => broker.close(() => resolve()));
      server.close();
    });
    await once(server, "listening");
    const address = server.address();
    return `mqtt://127.0.0.1:${typeof address === "object" && address ? address.port : 0}`;
  }

  it("is used all the same, with one warning", async () => {
    const { logger, warnings } = recordingLogger();
    const connection = connectionTo({ url: await startAedes() }, { logger });
    expect(await connection.ready(patient)).toMatchObject({ version: 4 });
    const heard = listener();
    await connection.subscribe(["a/b"], heard.handlers, patient);
    await connection.publish({ topic: "a/b", payload: bytes("x"), expirySeconds: 5, contentType: "a/b" }, patient);
    await heard.until(() => heard.texts.length === 1);
    expect(warnings).toEqual([expect.stringMatching(/speaks only MQTT 3.1.1/)]);
  });
});
