/** A client that is not ours takes the double for Apple, and is refused where Apple refuses it: so both ask for the same. */
import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { connect } from "node:tls";
import { systemClock } from "@leafmesh/protocol";
import { type ApnsDouble, startApns } from "@leafmesh/testkit/notifiers";
import { Notification, Provider, type ProviderOptions } from "@parse/node-apn";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";

const TOPIC = "com.example.phone";
const PHONE = "0a1b2c3d".repeat(8);
const GONE_PHONE = "6e".repeat(32);
const GONE_SINCE_MS = 1_790_000_000_000;
const keyOf = (key: KeyObject, type: "spki" | "pkcs8") => key.export({ format: "pem", type }).toString();
const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });

let double: ApnsDouble;
const providers: Provider[] = [];
beforeAll(async () => {
  double = await startApns(systemClock, {
    keys: [{ keyId: "KEY1234567", teamId: "TEAM123456", publicKey: keyOf(publicKey, "spki") }],
    topics: [TOPIC],
    devices: {
      [PHONE]: { environment: "production", topic: TOPIC },
      [GONE_PHONE]: { environment: "production", topic: TOPIC, goneSinceMs: GONE_SINCE_MS },
    },
  });
});
afterEach(async () => {
  for (const provider of providers.splice(0)) await provider.shutdown();
});
afterAll(() => double.close());

/** Everything is the client's own but the socket. */
function provider(token: Partial<NonNullable<ProviderOptions["token"]>> = {}): Provider {
  const { ca, route } = double.server.network;
  const led = {
    production: true,
    token: { key: Buffer.from(keyOf(privateKey, "pkcs8")), keyId: "KEY1234567", teamId: "TEAM123456", ...token },
    createConnection({ hostname }: URL) {
      const { host, port } = route(hostname, 443) ?? {};
      return connect({ host, port, ca, servername: hostname, ALPNProtocols: ["h2"] });
    },
  };
  const made = new Provider(led);
  providers.push(made);
  return made;
}

function notification(fields: Partial<Notification> = {}): Notification {
  return Object.assign(new Notification(), {
    topic: TOPIC,
    alert: "Allow this connection?",
    payload: { leafmesh: "{}" },
    expiry: Math.floor(Date.now() / 1000) + 60,
    collapseId: "ask_1",
    pushType: "alert",
    ...fields,
  });
}

describe("the double of Apple", () => {
  it("takes what @parse/node-apn sends", async () => {
    const { sent, failed } = await provider().send(notification(), [PHONE]);
    expect(failed).toEqual([]);
    expect(sent).toMatchObject([{ device: PHONE }]);
    expect(double.rings.at(-1)).toMatchObject({ to: PHONE, body: "{}", isShown: true, collapseKey: "ask_1" });
  });

  it.each<[string, string, Partial<Notification>, number, object]>([
    ["a device that is gone", GONE_PHONE, {}, 410, { reason: "Unregistered", timestamp: GONE_SINCE_MS }],
    ["a device that never was", "11".repeat(32), {}, 400, { reason: "BadDeviceToken" }],
    ["an app that is not", PHONE, { topic: "com.example.none" }, 400, { reason: "BadTopic" }],
    ["no app", PHONE, { topic: "" }, 400, { reason: "MissingTopic" }],
    ["a silent one in a hurry", PHONE, { pushType: "background", priority: 10 }, 400, { reason: "BadPriority" }],
    ["a priority that is none", PHONE, { priority: 7 }, 400, { reason: "BadPriority" }],
    ["a type that is none", PHONE, { pushType: "shout" as "alert" }, 400, { reason: "InvalidPushType" }],
    ["a long collapse id", PHONE, { collapseId: "é".repeat(33) }, 400, { reason: "BadCollapseId" }],
    ["an id that is none", PHONE, { id: "1" }, 400, { reason: "BadMessageId" }],
    ["too much", PHONE, { payload: { leafmesh: "x".repeat(4096) } }, 413, { reason: "PayloadTooLarge" }],
  ])("refuses %s", async (_what, device, fields, status, response) => {
    const { failed } = await provider().send(notification(fields), [device]);
    expect(failed).toMatchObject([{ device, status, response }]);
  });

  it.each([
    [
      "another key",
      { key: keyOf(generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey, "pkcs8") },
      "InvalidProviderToken",
    ],
    ["an unknown key ID", { keyId: "KEY9999999" }, "InvalidProviderToken"],
    ["another team", { teamId: "TEAM999999" }, "UnrelatedKeyIdInToken"],
  ])("refuses %s", async (_what, token, reason) => {
    const { failed } = await provider(token).send(notification(), [PHONE]);
    expect(failed).toMatchObject([{ status: 403, response: { reason } }]);
  });
});
