import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { createServer } from "node:net";
import { systemClock } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import {
  type Mosquitto,
  mosquittoAvailable,
  startMosquitto,
  startTlsMosquitto,
  type TlsMosquitto,
} from "@leafmesh/testkit/mosquitto";
import { startTcpProxy } from "@leafmesh/testkit/tcp-proxy";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { parseBrokerAddress } from "./address.ts";
import { loadClient } from "./client.ts";
import { randomClientId } from "./connection.ts";
import { MqttFailure } from "./failure.ts";
import { type Incoming, type LinkSettings, openLink } from "./link.ts";
import { mqttOptions } from "./options.ts";

const patient = new AbortController().signal;
const bytes = (of: string) => new TextEncoder().encode(of);
const textOf = (message: Incoming) => new TextDecoder().decode(message.payload);

interface Connect extends Partial<LinkSettings> {
  readonly signal?: AbortSignal;
  readonly clock?: typeof systemClock;
}

/** A link to the broker of `record`, and what it hears. */
async function connect(
  record: Record<string, string>,
  { signal = patient, clock = systemClock, ...more }: Connect = {},
) {
  const options = mqttOptions.parse(record);
  const parsed = parseBrokerAddress(options.url);
  if (!parsed.ok) throw new Error(parsed.issue);
  const { address } = parsed;
  const { username, password } = options;
  const messages: Incoming[] = [];
  const watchers = new Set<() => void>();
  const link = await openLink(
    { address, version: 5, clientId: randomClientId(), clean: true, sessionSeconds: 0, username, password, ...more },
    {
      createClient: await loadClient(options, address),
      clock,
      onMessage: (message) => {
        messages.push(message);
        for (const look of watchers) look();
      },
    },
    signal,
  );
  onTestFinished(() => link.end());
  const heard = (payload: string): Promise<Incoming> =>
    new Promise((resolve) => {
      const look = (): void => {
        const found = messages.find((message) => textOf(message) === payload);
        if (found) resolve(found);
      };
      watchers.add(look);
      look();
    });
  return { link, messages, heard };
}

async function failureOf(attempt: Promise<unknown>): Promise<MqttFailure> {
  const error = await attempt.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof MqttFailure)) throw new Error(`expected a failure, got ${String(error)}`);
  return error;
}

describe.skipIf(!mosquittoAvailable())("a link to an open broker (needs mosquitto)", () => {
  let broker: Mosquitto;
  beforeAll(async () => {
    broker = await startMosquitto({ settings: ["max_packet_size 4096"] });
  });
  afterAll(() => broker.stop());

  it("carries a message to who is subscribed, and tells when nobody is", async () => {
    const { link: sender } = await connect({ url: broker.url });
    const { link: listener, heard } = await connect({ url: broker.url });
    const topic = "leafmesh/phone-7/connect";
    expect(await sender.publish({ topic, payload: bytes("one") })).toEqual({ status: "acknowledged", reached: false });
    await listener.subscribe([topic]);
    expect(await sender.publish({ topic, payload: bytes("two") })).toEqual({ status: "acknowledged", reached: true });
    expect(await heard("two")).toMatchObject({ topic, retained: false });
  });

  it("marks what the broker had kept from before", async () => {
    const { link: sender } = await connect({ url: broker.url });
    const topic = "kept/topic";
    await sender.publish({ topic, payload: bytes("old"), retain: true, expirySeconds: 60 });
    const { link, heard } = await connect({ url: broker.url });
    await link.subscribe([topic]);
    expect((await heard("old")).retained).toBe(true);
    await sender.publish({ topic, payload: new Uint8Array(), retain: true });
    const { link: late, messages } = await connect({ url: broker.url });
    await late.subscribe([topic]);
    await late.publish({ topic, payload: bytes("now") });
    expect(messages.map(textOf)).toEqual(["now"]);
  });

  it("refuses what is too large for the broker before sending it, and stays up", async () => {
    const { link } = await connect({ url: broker.url });
    expect(link.maxPacketBytes).toBe(4096);
    const result = await link.publish({ topic: "a/b", payload: new Uint8Array(5000) });
    expect(result).toMatchObject({ status: "not_sent", failure: { kind: "too_big" } });
    const largest = 4096 - 24 - "a/b".length;
    expect(await link.publish({ topic: "a/b", payload: new Uint8Array(largest) })).toMatchObject({
      status: "acknowledged",
    });
    expect(link.open).toBe(true);
  });

  it.each(["", "a/+", "a/#", "$SYS/x", "a//b", "/a", "a/", "a/\u0000", `a/${"b".repeat(65_534)}`])(
    "never sends to the topic %.20j",
    async (topic) => {
      const { link } = await connect({ url: broker.url });
      const from = broker.log().length;
      expect(await link.publish({ topic, payload: bytes("x") })).toMatchObject({
        status: "not_sent",
        failure: { kind: "bad_request" },
      });
      await link.publish({ topic: "marker/topic", payload: bytes("x") });
      await broker.logged("marker/topic", from);
      expect(
        broker
          .log()
          .slice(from)
          .match(/Received PUBLISH/g),
      ).toHaveLength(1);
    },
  );

  it("settles as not sent on a closed link", async () => {
    const { link } = await connect({ url: broker.url });
    await link.end();
    expect(link.open).toBe(false);
    expect(await link.over).toBeUndefined();
    const result = await link.publish({ topic: "a/b", payload: bytes("x") });
    expect(result).toMatchObject({ status: "not_sent", failure: { kind: "unavailable" } });
    expect((await failureOf(link.subscribe(["a/b"]))).kind).toBe("unavailable");
    await link.unsubscribe(["a/b"]);
    await link.end();
  });

  it("does not start with a signal that has ended, neither to connect nor to publish", async () => {
    const ended = AbortSignal.abort();
    expect((await failureOf(connect({ url: broker.url }, { signal: ended }))).kind).toBe("aborted");
    const { link } = await connect({ url: broker.url });
    expect(await link.publish({ topic: "a/b", payload: bytes("x") }, { signal: ended })).toMatchObject({
      status: "not_sent",
      failure: { kind: "aborted" },
    });
  });

  it("sends no more at once than the broker allows, and everything in the end", async () => {
    const { link } = await connect({ url: broker.url });
    const { link: listener, messages } = await connect({ url: broker.url });
    await listener.subscribe(["flood"]);
    const results = await Promise.all(
      Array.from({ length: 300 }, (_, index) => link.publish({ topic: "flood", payload: bytes(String(index)) })),
    );
    expect(results.every(({ status }) => status === "acknowledged")).toBe(true);
    await link.publish({ topic: "flood", payload: bytes("end") });
    await expect.poll(() => messages.map(textOf).at(-1)).toBe("end");
    expect(messages.map(textOf)).toEqual([...Array.from({ length: 300 }, (_, index) => String(index)), "end"]);
  });

  it("publishes the will when it is dropped, and none when it says goodbye", async () => {
    const { link: listener, heard, messages } = await connect({ url: broker.url });
    await listener.subscribe(["will/a", "will/b"]);
    const will = (topic: string) => ({ topic, payload: bytes(topic), delaySeconds: 0, expirySeconds: 60 });
    const { link: polite } = await connect({ url: broker.url }, { will: will("will/a") });
    const { link: rude } = await connect({ url: broker.url }, { will: will("will/b") });
    await polite.end();
    rude.drop();
    await heard("will/b");
    expect(messages.map(textOf)).toEqual(["will/b"]);
  });

  it("resumes a session, with what came while it was away", async () => {
    const clientId = randomClientId();
    const { link } = await connect({ url: broker.url }, { clientId, sessionSeconds: 60 });
    await link.subscribe(["away"]);
    link.drop();
    const { link: sender } = await connect({ url: broker.url });
    await sender.publish({ topic: "away", payload: bytes("while you were out") });
    const again = await connect({ url: broker.url }, { clientId, sessionSeconds: 60, clean: false });
    expect(again.link.resumed).toBe(true);
    await again.heard("while you were out");
  });

  it("is over when the broker dies, with everything settled", async () => {
    const own = await startMosquitto();
    onTestFinished(() => own.stop());
    const { link } = await connect({ url: own.url });
    own.freeze();
    const pending = link.publish({ topic: "a/b", payload: bytes("x") });
    await own.kill();
    expect(await link.over).toMatchObject({ kind: "unavailable" });
    expect(await pending).toMatchObject({ status: "unknown", failure: { kind: "unavailable" } });
    expect(link.open).toBe(false);
  });
});

describe.skipIf(!mosquittoAvailable())("a link to a frozen broker (needs mosquitto)", () => {
  it("settles by its own timer, and the message is not sent a second time after the thaw", async () => {
    const broker = await startMosquitto();
    onTestFinished(() => broker.stop());
    const clock = createFakeClock();
    const { link: listener, messages, heard } = await connect({ url: broker.url });
    const { link } = await connect({ url: broker.url }, { clock });
    await listener.subscribe(["frozen"]);
    broker.freeze();
    const publish = link.publish({ topic: "frozen", payload: bytes("into the ice") });
    const subscribe = failureOf(link.subscribe(["other"]));
    await clock.advance(5_000);
    expect(await publish).toMatchObject({ status: "unknown", failure: { code: "timeout" } });
    expect((await subscribe).code).toBe("timeout");

    broker.thaw();
    expect(await link.publish({ topic: "frozen", payload: bytes("after the thaw") })).toMatchObject({ reached: true });
    await heard("after the thaw");
    expect(messages.filter((message) => textOf(message) === "into the ice").length).toBeLessThanOrEqual(1);
  });

  it("settles at once when the caller's signal ends", async () => {
    const broker = await startMosquitto();
    onTestFinished(() => broker.stop());
    const { link } = await connect({ url: broker.url });
    broker.freeze();
    const caller = new AbortController();
    const publish = link.publish({ topic: "a/b", payload: bytes("x") }, { signal: caller.signal });
    caller.abort();
    expect(await publish).toMatchObject({ status: "unknown", failure: { kind: "aborted" } });
    broker.thaw();
  });

  it("closes its socket all the same when the goodbye gets no answer", async () => {
    const broker = await startMosquitto();
    onTestFinished(() => broker.stop());
    await using proxy = await startTcpProxy(broker.ports.tcp);
    const clock = createFakeClock();
    const { link } = await connect({ url: `mqtt://127.0.0.1:${proxy.port}` }, { clock });
    broker.freeze();
    const subscribing = failureOf(link.subscribe(["a/b"]));
    const ending = link.end();
    await clock.advance(2_000);
    await ending;
    await expect.poll(() => proxy.connections).toBe(0);
    await subscribing;
  });

  it("is lost when the broker says something that is not MQTT", async () => {
    const connack = Buffer.from([0x20, 0x03, 0x00, 0x00, 0x00]);
    const broken = createServer((socket) => {
      socket.once("data", () => socket.write(connack));
      socket.on("data", (data) => {
        if (data[0] !== 0x10) socket.write(Buffer.from([0x4f, 0x02, 0x00, 0x01]));
      });
      socket.on("error", () => {});
    }).listen(0, "127.0.0.1");
    await once(broken, "listening");
    onTestFinished(() => void broken.close());
    const address = broken.address();
    const port = typeof address === "object" ? address?.port : 0;
    const { link } = await connect({ url: `mqtt://127.0.0.1:${port}` });
    const published = await link.publish({ topic: "a/b", payload: bytes("x") });
    expect(published).toMatchObject({ status: "unknown", failure: { kind: "unavailable" } });
    expect(await link.over).toMatchObject({ kind: "unavailable", message: expect.stringMatching(/was lost/) });
  });

  it("is not taken for one when it is a web server", async () => {
    const web = createHttpServer((_request, response) => response.end("hello")).listen(0, "127.0.0.1");
    await once(web, "listening");
    onTestFinished(() => void web.close());
    const address = web.address();
    const port = typeof address === "object" ? address?.port : 0;
    expect(await failureOf(connect({ url: `mqtt://127.0.0.1:${port}` }))).toMatchObject({
      kind: "unsupported",
      message: expect.stringMatching(/does not speak MQTT/),
    });
    expect(await failureOf(connect({ url: `ws://127.0.0.1:${port}/mqtt` }))).toMatchObject({
      kind: "unsupported",
      code: "HTTP_200",
    });
  });

  it("gives up connecting after ten seconds", async () => {
    const silent = createServer((socket) => socket.resume()).listen(0, "127.0.0.1");
    await once(silent, "listening");
    onTestFinished(() => void silent.close());
    const address = silent.address();
    const port = typeof address === "object" ? address?.port : 0;
    const clock = createFakeClock();
    const failure = failureOf(connect({ url: `mqtt://127.0.0.1:${port}` }, { clock }));
    await once(silent, "connection");
    await clock.advance(10_000);
    expect(await failure).toMatchObject({ kind: "unavailable", code: "timeout" });
  });
});

describe.skipIf(!mosquittoAvailable())("what a broker refuses (needs mosquitto)", () => {
  let broker: TlsMosquitto;
  const mesh = { username: "mesh", password: "secret" };
  beforeAll(async () => {
    broker = await startTlsMosquitto({
      users: { mesh: "secret", phone: "secret" },
      acl: "user mesh\ntopic write leafmesh/+/connect\n",
    });
  });
  afterAll(() => broker.stop());

  it("is nothing with the right CA, host and login", async () => {
    for (const url of [broker.urls.tls, broker.urls.wss]) {
      const { link } = await connect({ url, ca_cert: broker.authority.ca, ...mesh });
      expect(link.open).toBe(true);
      expect(await link.publish({ topic: "leafmesh/x/connect", payload: bytes("x") })).toMatchObject({
        reached: false,
      });
    }
  });

  it("is a wrong password, and a missing one", async () => {
    const record = { url: broker.urls.tls, ca_cert: broker.authority.ca };
    const wrong = await failureOf(connect({ ...record, ...mesh, password: "guess" }));
    expect(wrong).toMatchObject({ kind: "credential", code: "135" });
    expect(wrong.message).toMatch(/check username and password/);
    expect(wrong.message).not.toContain("guess");
    expect((await failureOf(connect(record))).kind).toBe("credential");
  });

  it("is a wrong password under MQTT 3.1.1 as well", async () => {
    const record = { url: broker.urls.tls, ca_cert: broker.authority.ca, ...mesh, password: "guess" };
    expect(await failureOf(connect(record, { version: 4 }))).toMatchObject({ kind: "credential", code: "5" });
  });

  it("is a topic that the access rules do not allow", async () => {
    const { link } = await connect({ url: broker.urls.tls, ca_cert: broker.authority.ca, ...mesh });
    const result = await link.publish({ topic: "leafmesh/x/other", payload: bytes("x") });
    expect(result).toMatchObject({ status: "refused", failure: { kind: "credential", code: "135" } });
    expect(link.open).toBe(true);
  });

  it.each(["tls", "wss"] as const)("is not even asked over %s without the private CA", async (listener) => {
    const failure = await failureOf(connect({ url: broker.urls[listener], ...mesh }));
    expect(failure.kind).toBe("identity");
    expect(failure.message).toMatch(/put your CA's certificate into ca_cert/);
  });

  it("is not even asked under another host name", async () => {
    const url = broker.urls.tls.replace("localhost", "127.0.0.1");
    const failure = await failureOf(connect({ url, ca_cert: broker.authority.ca, ...mesh }));
    expect(failure).toMatchObject({ kind: "identity", code: "ERR_TLS_CERT_ALTNAME_INVALID" });
  });

  it("is a missing client certificate where one is required", async () => {
    const failure = await failureOf(connect({ url: broker.urls.certificate, ca_cert: broker.authority.ca }));
    expect(failure.kind).toBe("credential");
    expect(failure.message).toMatch(/set client_cert and client_key/);
  });

  it("is not a client certificate of its authority, whose name is the login", async () => {
    const { cert, key } = await broker.authority.issue({ commonName: "mesh" });
    const { ca } = broker.authority;
    const { link } = await connect({ url: broker.urls.certificate, ca_cert: ca, client_cert: cert, client_key: key });
    expect(await link.publish({ topic: "leafmesh/x/connect", payload: bytes("x") })).toMatchObject({ reached: false });
  });

  it("is told apart from the wrong scheme for the port", async () => {
    const plainOnTls = await failureOf(connect({ url: broker.urls.tls.replace("mqtts:", "mqtt:") }));
    expect(plainOnTls.kind).toBe("unavailable");
    expect(plainOnTls.message).toMatch(/If this is a TLS port, use mqtts: or wss:/);
    const tlsOnPlain = await failureOf(connect({ url: broker.urls.tcp.replace("mqtt:", "mqtts:") }));
    expect(tlsOnPlain.message).toMatch(/does not speak TLS|Is this a TLS port/);
  });

  it("is told apart from nothing being there", async () => {
    const own = await startMosquitto();
    await own.stop();
    expect(await failureOf(connect({ url: own.url }))).toMatchObject({ kind: "unavailable", code: "ECONNREFUSED" });
  });

  it("does not look at the environment for a proxy", async () => {
    process.env.MQTTJS_SOCKS_PROXY = "socks5://127.0.0.1:9";
    onTestFinished(() => {
      delete process.env.MQTTJS_SOCKS_PROXY;
    });
    const { link } = await connect({ url: broker.urls.tls, ca_cert: broker.authority.ca, ...mesh });
    expect(link.open).toBe(true);
  });
});
