/** Pusher's own client takes the double for an instance: so the double asks for what Pusher's clients send. */
import https, { Agent, type AgentOptions } from "node:https";
import { connect } from "node:tls";
import { systemClock } from "@leafmesh/protocol";
import { startPusherBeams } from "@leafmesh/testkit/notifiers";
import type { NotifierDouble } from "@leafmesh/testkit/suites";
import PushNotifications from "@pusher/push-notifications-server";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const INSTANCE = "8f9a6e22-0b4d-41c1-9d3a-5c2ebb9bbd8a";
const HOST = `${INSTANCE}.pushnotifications.pusher.com`;
const KEY = "4D5C1B0A99E8F7D6".repeat(4);

let double: NotifierDouble;
const ordinary = https.globalAgent;
beforeAll(async () => {
  double = await startPusherBeams(systemClock, { instanceId: INSTANCE, primaryKey: KEY, users: ["phone-7"] });
  const { ca, route } = double.server.network;
  // The client has no place for an agent, and speaks http to any host but Pusher's.
  https.globalAgent = new (class Led extends Agent {
    override createConnection(_options: AgentOptions) {
      const { host, port } = route(HOST, 443) ?? {};
      return connect({ host, port, ca, servername: HOST });
    }
  })();
});
afterAll(async () => {
  https.globalAgent.destroy();
  https.globalAgent = ordinary;
  await double.close();
});

const client = (secretKey = KEY) => new PushNotifications({ instanceId: INSTANCE, secretKey });
const ring = {
  fcm: { data: { leafmesh: "{}" }, priority: "high", time_to_live: 30 },
  apns: { aps: { "content-available": 1 as unknown as string }, data: { leafmesh: "{}" }, priority: 5 },
} as const;

describe("the double of Pusher Beams", () => {
  it("takes what Pusher's client publishes, and rings who is there", async () => {
    const apns = { ...ring.apns, expiration: Math.ceil(Date.now() / 1000) + 30 };
    expect(await client().publishToUsers(["phone-7", "nobody"], { ...ring, apns })).toMatchObject({
      publishId: expect.stringMatching(/^pubid-/),
    });
    expect(double.rings).toMatchObject([{ to: "phone-7", body: "{}", isShown: false, ttlSeconds: 30 }]);
  });

  it.each([
    ["another key", client("another"), ring, /^401 /],
    ["no platform", client(), {} as typeof ring, /^422 /],
    ["data that Firebase does not take", client(), { fcm: { data: { leafmesh: 7 } } }, /^422 /],
    ["a key of Pusher's", client(), { web: { data: { pusher: {} } } }, /^422 /],
    ["a notification that no system takes", client(), { fcm: { data: { leafmesh: "x".repeat(4096) } } }, /^422 /],
    ["a body over 200 KiB", client(), { fcm: { data: { leafmesh: "x".repeat(205_000) } } }, /^400 .* too large/],
  ])("refuses %s", async (_what, from, request, message) => {
    await expect(from.publishToUsers(["phone-7"], request)).rejects.toThrow(message);
  });
});
