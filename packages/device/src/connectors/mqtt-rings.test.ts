import { createFakeClock } from "@leafmesh/testkit";
import { type Mosquitto, mosquittoAvailable, startMosquitto } from "@leafmesh/testkit/mosquitto";
import { Mailbox } from "@leafmesh/testkit/suites";
import mqtt from "mqtt";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { ringFor } from "../../testing/rings.ts";
import { listenForRings, type RingListenerOptions } from "./mqtt.ts";

const TOPIC = "leafmesh/phone-7/connect";

function listen(options: Partial<RingListenerOptions> & Pick<RingListenerOptions, "broker">) {
  const rings = new Mailbox<string>();
  const states = new Mailbox<string>();
  const listener = listenForRings({
    topic: TOPIC,
    onRing: (ring) => rings.put(ring),
    onState: (state) => states.put(state),
    mqtt,
    ...options,
  });
  onTestFinished(() => listener.close());
  return { listener, rings, states };
}

async function publisherOn(url: string) {
  const client = await mqtt.connectAsync(url, { protocolVersion: 5, reconnectPeriod: 0 });
  onTestFinished(() => client.endAsync(true));
  return (body: string, retain = false) => client.publishAsync(TOPIC, body, { qos: 1, retain });
}

describe("listenForRings", () => {
  const broker = { url: "mqtt://127.0.0.1:1" };
  it.each<[string, Partial<RingListenerOptions>, RegExp]>([
    ["a wildcard topic", { topic: "leafmesh/+/connect" }, /wildcards/],
    ["a session under a long name", { session: { clientId: "x".repeat(24), seconds: 60 } }, /1 to 23 letters/],
    ["a session for no time", { session: { clientId: "phone7", seconds: 0 } }, /whole number above 0/],
    ["a login in clear", { broker: { url: "mqtt://broker", username: "a", password: "b" } }, /in clear/],
  ])("does not take %s", (_case, options, reason) => {
    expect(() => listen({ broker, ...options })).toThrow(reason);
  });
});

describe.skipIf(!mosquittoAvailable())("a device that listens for rings (needs mosquitto)", () => {
  let broker: Mosquitto;
  beforeAll(async () => {
    broker = await startMosquitto();
  });
  afterAll(() => broker.stop());

  it("gets them as they were sent, and nothing once it is closed", async () => {
    const publish = await publisherOn(broker.url);
    const { listener, rings, states } = listen({ broker });
    await listener.ready();
    expect(listener.state).toBe("ready");
    const body = JSON.stringify(ringFor(Date.now()));
    await publish(body);
    expect(await rings.next()).toBe(body);
    await listener.close();
    await listener.close();
    expect(states.takeAll()).toEqual(["ready", "closed"]);
    await expect(listener.ready()).rejects.toThrow(/closed/);
    await publish("nobody hears this");
    expect(rings.takeAll()).toEqual([]);
  });

  it("does not get what the broker kept as the topic's last word, nor what is over or too large", async () => {
    const publish = await publisherOn(broker.url);
    await publish(JSON.stringify(ringFor(Date.now())), true);
    const { listener, rings } = listen({ broker });
    await listener.ready();
    await publish(JSON.stringify(ringFor(Date.now() - 300_000)));
    await publish("x".repeat(2000));
    const fresh = JSON.stringify(ringFor(Date.now()));
    await publish(fresh);
    expect(await rings.next()).toBe(fresh);
    await publish("", true);
  });

  it("gets, with a session, what came while it was away", async () => {
    const publish = await publisherOn(broker.url);
    const options = { broker, session: { clientId: "phone7session", seconds: 60 } };
    const device = mqtt.connect(broker.url, {
      protocolVersion: 5,
      reconnectPeriod: 0,
      clientId: "phone7session",
      clean: false,
      properties: { sessionExpiryInterval: 60 },
    });
    await new Promise<void>((resolve) => device.once("connect", () => resolve()));
    await device.subscribeAsync(TOPIC, { qos: 1 });
    await device.endAsync(true);
    const body = JSON.stringify(ringFor(Date.now()));
    await publish(body);
    const { rings, listener } = listen(options);
    expect(await rings.next()).toBe(body);
    await listener.close();
    await publish("after a goodbye nothing is kept");
    const again = listen(options);
    await again.listener.ready();
    const marker = JSON.stringify(ringFor(Date.now(), { ask: "marker" }));
    await publish(marker);
    expect(await again.rings.next()).toBe(marker);
  });

  it("goes on when the program's onRing throws", async () => {
    const publish = await publisherOn(broker.url);
    const heard = new Mailbox<string>();
    const { listener } = listen({
      broker,
      onRing: (ring) => {
        heard.put(ring);
        throw new Error("a bug in the app");
      },
    });
    await listener.ready();
    await publish("one");
    await publish("two");
    expect([await heard.next(), await heard.next()]).toEqual(["one", "two"]);
  });

  it("comes back when the broker does", async () => {
    const own = await startMosquitto();
    onTestFinished(() => own.stop());
    const { listener, rings, states } = listen({ broker: own });
    await listener.ready();
    await own.kill();
    await states.next((state) => state === "waiting");
    await own.start();
    await states.next((state) => state === "ready");
    const publish = await publisherOn(own.url);
    await publish("back");
    expect(await rings.next()).toBe("back");
  });

  it("is done when the broker refuses it", async () => {
    await using own = await startMosquitto({ users: { phone: "secret" } });
    const { listener, states } = listen({ broker: { url: own.url, username: "phone", password: "guess" } });
    await expect(listener.ready()).rejects.toThrow(/refused/);
    expect(listener.state).toBe("refused");
    expect(states.takeAll()).toEqual(["refused"]);
  });

  it("waits longer between its tries while nothing listens", async () => {
    const own = await startMosquitto();
    await own.stop();
    const clock = createFakeClock();
    const { states } = listen({ broker: own, clock, random: () => 0.999 });
    for (const waitMs of [500, 1000, 2000]) {
      await states.next((state) => state === "waiting");
      await clock.advance(waitMs - 2);
      expect(states.takeAll()).toEqual([]);
      await clock.advance(2);
      expect(await states.next()).toBe("connecting");
    }
  });
});
