/** Against a played Apple that verifies every provider token, header and payload. */
import { generateKeyPairSync } from "node:crypto";
import { type Clock, Secret } from "@leafmesh/protocol";
import { type ApnsDouble, type PlayedApple, startApns } from "@leafmesh/testkit/notifiers";
import { onNotifierStage, testNotifier } from "@leafmesh/testkit/suites";
import { createLocalJWKSet, exportJWK, jwtVerify } from "jose";
import { describe, expect, it } from "vitest";
import type { NotifierDefinition } from "../contract.ts";
import { apnsNotifier } from "./apns.ts";

const pair = generateKeyPairSync("ec", { namedCurve: "P-256" });
const signing_key = pair.privateKey.export({ format: "pem", type: "pkcs8" }).toString();
const publicKey = pair.publicKey.export({ format: "pem", type: "spki" }).toString();
const another = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ format: "pem", type: "pkcs8" });

const KEY = { keyId: "KEY1234567", teamId: "TEAM123456" };
const TOPIC = "com.example.phone";
const PHONE = "0a1b2c3d".repeat(8);
const SANDBOX_PHONE = "5a".repeat(32);
const GONE_PHONE = "6e".repeat(40);
const OTHER_APPS_PHONE = "7c".repeat(32);
const GONE_SINCE_MS = Date.UTC(2026, 10, 5, 6, 7, 8);
const MINUTE_MS = 60_000;

const record = { signing_key, key_id: KEY.keyId, team_id: KEY.teamId, bundle_id: TOPIC };

const open =
  (key: Partial<PlayedApple["keys"][number]> = {}) =>
  async (clock: Clock) => ({
    double: await startApns(clock, {
      keys: [{ ...KEY, publicKey, ...key }],
      topics: [TOPIC, "com.example.other"],
      devices: {
        [PHONE]: { environment: "production", topic: TOPIC },
        [SANDBOX_PHONE]: { environment: "sandbox", topic: TOPIC },
        [GONE_PHONE]: { environment: "production", topic: TOPIC, goneSinceMs: GONE_SINCE_MS },
        [OTHER_APPS_PHONE]: { environment: "production", topic: "com.example.other" },
      },
    }),
    record,
  });

const said = (status: number, reason: string, more: object = {}) => ({ status, body: { reason, ...more } });
const ID = "123E4567-E89B-12D3-A456-4266554400A0";
const ours = [
  "BadCollapseId",
  "BadExpirationDate",
  "BadMessageId",
  "BadPriority",
  "DuplicateHeaders",
  "InvalidPushType",
];
const oursToo = ["MissingDeviceToken", "MissingTopic", "PayloadEmpty"];
const keyless = ["BadCertificate", "BadCertificateEnvironment", "Forbidden", "InvalidProviderToken"];
const keylessToo = ["MissingProviderToken", "UnrelatedKeyIdInToken", "BadEnvironmentKeyIdInToken"];

const under = {
  definition: apnsNotifier,
  open: open(),
  tokens: {
    valid: PHONE,
    wrong: [
      PHONE.slice(2),
      `${PHONE}0`,
      `<${PHONE}>`,
      PHONE.replace(/.{8}/g, "$& ").trim(),
      `${PHONE}\n`,
      "0g".repeat(32),
    ],
  },
  shows: { ask: true, silent: false },
  credential: { lifetimeMs: 60 * MINUTE_MS },
  answers: [
    { name: "Shutdown", reply: said(503, "Shutdown"), expect: { kind: "transient", code: "Shutdown" } },
    { name: "taken", reply: { status: 200, headers: { "apns-id": ID }, body: "" }, expect: { receipt: ID } },
    { name: "200 without an id", reply: { status: 200, body: "" }, expect: { kind: "transient", code: "200" } },
    {
      name: "200 with an id that is none",
      reply: { status: 200, headers: { "apns-id": "a" }, body: "" },
      expect: { kind: "transient" },
    },
    { name: "ServiceUnavailable", reply: said(503, "ServiceUnavailable"), expect: { kind: "transient" } },
    { name: "InternalServerError", reply: said(500, "InternalServerError"), expect: { kind: "transient" } },
    { name: "IdleTimeout", reply: said(400, "IdleTimeout"), expect: { kind: "transient", code: "IdleTimeout" } },
    {
      name: "BadDeviceToken, before Apple took anything",
      reply: said(400, "BadDeviceToken"),
      expect: { kind: "bad_credential", code: "BadDeviceToken", message: /`sandbox` is wrong/ },
    },
    {
      name: "DeviceTokenNotForTopic, before Apple took anything",
      reply: said(400, "DeviceTokenNotForTopic"),
      expect: { kind: "bad_credential", code: "DeviceTokenNotForTopic", message: /`bundle_id`/ },
    },
    {
      name: "Unregistered",
      reply: said(410, "Unregistered", { timestamp: GONE_SINCE_MS }),
      expect: { kind: "dead_token", code: "Unregistered", message: /since 2026-11-05T06:07:08.000Z\.$/ },
    },
    {
      name: "Unregistered at no time that there is",
      reply: said(410, "Unregistered", { timestamp: 1e300 }),
      expect: { kind: "dead_token", message: /replaced\.$/ },
    },
    { name: "ExpiredToken", reply: said(410, "ExpiredToken"), expect: { kind: "dead_token", code: "ExpiredToken" } },
    { name: "410 without a reason", reply: { status: 410 }, expect: { kind: "bad_request", code: "410" } },
    ...[...keyless, ...keylessToo].map(
      (reason) =>
        ({ name: reason, reply: said(403, reason), expect: { kind: "bad_credential", code: reason } }) as const,
    ),
    {
      name: "ExpiredProviderToken about a token of now",
      reply: said(403, "ExpiredProviderToken"),
      expect: { kind: "bad_credential", message: /clock/ },
    },
    { name: "BadTopic", reply: said(400, "BadTopic"), expect: { kind: "bad_credential", message: /`bundle_id`/ } },
    { name: "TopicDisallowed", reply: said(400, "TopicDisallowed"), expect: { kind: "bad_credential" } },
    {
      name: "TooManyProviderTokenUpdates",
      reply: said(429, "TooManyProviderTokenUpdates"),
      expect: { kind: "quota", message: /20 minutes/ },
    },
    { name: "TooManyRequests", reply: said(429, "TooManyRequests"), expect: { kind: "quota", message: /this device/ } },
    { name: "PayloadTooLarge", reply: said(413, "PayloadTooLarge"), expect: { kind: "too_big" } },
    ...[...ours, ...oursToo].map(
      (reason) => ({ name: reason, reply: said(400, reason), expect: { kind: "bad_request", code: reason } }) as const,
    ),
    { name: "BadPath", reply: said(404, "BadPath"), expect: { kind: "bad_request", code: "BadPath" } },
    { name: "MethodNotAllowed", reply: said(405, "MethodNotAllowed"), expect: { kind: "bad_request" } },
    { name: "a reason of tomorrow", reply: said(400, "constructor"), expect: { kind: "bad_request", code: "400" } },
  ],
  checks: [
    { name: "a key that works", expect: "active" },
    { name: "another key", record: { signing_key: another.toString() }, expect: "failing", reason: /belong together/ },
    { name: "a key that is none", record: { signing_key: "none" }, expect: "failing", reason: /\.p8 file/ },
    { name: "a key of another team", record: { team_id: "TEAM999999" }, expect: "failing", reason: /this team/ },
    { name: "an unknown key ID", record: { key_id: "KEY9999999" }, expect: "failing", reason: /`key_id`/ },
    { name: "an app that is not", record: { bundle_id: "com.example.none" }, expect: "failing", reason: /`bundle_id`/ },
    {
      name: "a crowd of providers",
      arrange: ({ server }) => server.answerNext(said(429, "TooManyRequests")),
      expect: "readable",
    },
    {
      name: "an Apple that is down",
      arrange: ({ server }) => server.answerNext(said(503, "ServiceUnavailable")),
      expect: "readable",
    },
  ],
} as const satisfies Parameters<typeof testNotifier<ApnsDouble>>[0];

testNotifier<ApnsDouble>(under);

const never = new AbortController().signal;
const stage = (
  act: Parameters<typeof onNotifierStage<ApnsDouble>>[1],
  { key, ...overrides }: Readonly<Record<string, unknown>> & { readonly key?: Parameters<typeof open>[0] } = {},
) => onNotifierStage<ApnsDouble>({ ...under, open: open(key) }, act, overrides);

describe("apns", () => {
  it("calls production or the sandbox, over HTTP/2, and tells what a mismatch may be", async () => {
    await stage(async ({ ring, double }) => {
      await ring();
      expect(double.server.requests[0]).toMatchObject({ host: "api.push.apple.com", httpVersion: "2.0" });
    });
    await stage(
      async ({ notifier, request, ring, failure, double }) => {
        await notifier.ring(request(), new Secret(SANDBOX_PHONE.toUpperCase()), never);
        expect(double.rings).toMatchObject([{ to: SANDBOX_PHONE }]);
        expect(double.server.requests[0]).toMatchObject({ host: "api.sandbox.push.apple.com" });
        expect(await failure(ring())).toMatchObject({ kind: "dead_token", code: "BadDeviceToken" });
      },
      { sandbox: true },
    );
  });

  it("tells a token that is gone, with the time, from one of another app, once Apple has taken one", () =>
    stage(async ({ notifier, request, ring, failure }) => {
      await ring();
      const to = (token: string) => failure(notifier.ring(request(), new Secret(token), never));
      expect(await to(GONE_PHONE)).toMatchObject({
        code: "Unregistered",
        message: expect.stringMatching(/2026-11-05/),
      });
      expect(await to(OTHER_APPS_PHONE)).toMatchObject({ kind: "dead_token", code: "DeviceTokenNotForTopic" });
    }));

  it("asks with an alert that has buttons, and is silent with a background notification of low priority", () =>
    stage(async ({ ring, double, clock }) => {
      await ring({ approval: "ask" });
      await ring({ approval: "silent" });
      const [ask, silent] = double.server.requests;
      const always = { "apns-topic": TOPIC, "apns-expiration": String(Math.ceil((clock.nowMs() + 42_500) / 1000)) };
      expect(ask?.headers).toMatchObject({ ...always, "apns-push-type": "alert", "apns-priority": "10" });
      expect(ask?.json).toMatchObject({ aps: { category: "LEAF_ALLOW", alert: { title: 'Zoë\'s "mesh" 🌿' } } });
      expect(silent?.headers).toMatchObject({ ...always, "apns-push-type": "background", "apns-priority": "5" });
      expect(silent?.json).toHaveProperty("aps", { "content-available": 1 });
    }));

  it("signs provider tokens that another library verifies", () =>
    stage(async ({ ring, double, clock }) => {
      await ring();
      const [, jwt = ""] = double.server.requests[0]?.headers.authorization?.split(" ") ?? [];
      const keys = createLocalJWKSet({
        keys: [{ ...(await exportJWK(pair.publicKey)), kid: KEY.keyId, alg: "ES256" }],
      });
      const { payload, protectedHeader } = await jwtVerify(jwt, keys, {
        issuer: KEY.teamId,
        currentDate: new Date(clock.nowMs()),
      });
      expect(protectedHeader).toEqual({ alg: "ES256", kid: KEY.keyId });
      expect(payload).toEqual({ iss: KEY.teamId, iat: Math.floor(clock.nowMs() / 1000) });
    }));

  it("shares a provider token between rings and checks, for 50 minutes and not less than 20", () =>
    stage(async ({ ring, notifier, double, clock }) => {
      await ring();
      for (const minutes of [21, 28]) {
        await clock.advance(minutes * MINUTE_MS);
        await Promise.all([ring(), ring(), notifier.check(never)]);
        expect(double.providerTokens.size).toBe(1);
      }
      await clock.advance(MINUTE_MS);
      await ring();
      expect(double.providerTokens.size).toBe(2);
      expect(double.rings).toHaveLength(6);
    }));

  it("replaces a token that its machine overslept, and rings once more with the new one", () =>
    stage(async ({ ring, double, clock, count }) => {
      await ring();
      clock.setWallClock(clock.nowMs() + 70 * MINUTE_MS);
      await ring();
      expect(double.rings).toHaveLength(2);
      expect(count("ring")).toBe(3);
      expect(double.providerTokens.size).toBe(2);
    }));

  it("sends no more at once than Apple allows, which before the first good token is one", () =>
    stage(async ({ ring, double }) => {
      await Promise.all(Array.from({ length: 40 }, () => ring()));
      expect(double.rings).toHaveLength(40);
      expect(double.server.connections).toBe(1);
    }));

  it("moves to another connection when Apple sends it away, and loses no ring to it", () =>
    stage(async ({ ring, double }) => {
      await ring();
      double.server.goAway({ reason: "Shutdown" });
      await Promise.all([ring(), ring(), ring()]);
      expect(double.rings).toHaveLength(4);
      expect(double.server.connections).toBe(2);
    }));

  it("keeps bad tokens of checks away from the connection of rings", () =>
    stage(async ({ ring, notifier, double }) => {
      await ring();
      await notifier.check(never);
      await ring();
      expect(double.server.requests.map(({ connection }) => connection)).toEqual([1, 2, 1]);
      expect(double.server.openConnections).toBe(1);
    }));

  it("ends a check when it is closed", () =>
    stage(async ({ notifier, double }) => {
      double.server.answerNext("hang");
      const checking = notifier.check(never);
      await double.server.received(1);
      await notifier.close();
      expect(await checking).toMatchObject({ status: "readable" });
      await double.server.allClosed();
    }));

  it.each([
    ["another environment", { environments: ["sandbox"] }, /environment/],
    ["other apps", { topics: ["com.example.other"] }, /topics/],
  ] as const)("finds that a key is for %s", (_for, key, reason) =>
    stage(
      async ({ notifier, ring, failure }) => {
        expect(await notifier.check(never)).toMatchObject({ status: "failing", reason: expect.stringMatching(reason) });
        expect(await failure(ring())).toMatchObject({ kind: "bad_credential" });
      },
      { key },
    ),
  );
});

describe("a record of apns", () => {
  const issues = (fields: object) => issuesOf(apnsNotifier, { ...record, ...fields });
  const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;
  const wide = generateKeyPairSync("ec", { namedCurve: "P-384" }).privateKey;
  const locked = pair.privateKey.export({ format: "pem", type: "pkcs8", cipher: "aes-256-cbc", passphrase: "x" });

  it("takes the key in PKCS #8, and in the form that OpenSSL gives it", () => {
    expect(issues({})).toEqual([]);
    expect(issues({ signing_key: pair.privateKey.export({ format: "pem", type: "sec1" }).toString() })).toEqual([]);
  });

  it.each([
    ["of another kind", rsa.export({ format: "pem", type: "pkcs8" }).toString(), /P-256/],
    ["of another curve", wide.export({ format: "pem", type: "pkcs8" }).toString(), /P-256/],
    ["with a passphrase", locked.toString(), /passphrase/],
    ["that is public", publicKey, /private key/],
    ["with its line breaks escaped", signing_key.replaceAll("\n", "\\n"), /line breaks/],
    ["without its head", signing_key.split("\n")[1] ?? "", /whole \.p8 file/],
    ["that was cut", signing_key.replace(/.{20}\n/, "\n"), /whole \.p8 file/],
  ])("says what to do about a key %s", (_kind, key, message) => {
    expect(issues({ signing_key: key })).toEqual([{ path: ["signing_key"], message: expect.stringMatching(message) }]);
    expect(JSON.stringify(issues({ signing_key: key }))).not.toContain(key.slice(40, 60));
  });

  it.each([{ key_id: "key1234567" }, { team_id: "TEAM" }, { bundle_id: "phone" }, { bundle_id: "com.example/x" }])(
    "refuses %o",
    (fields) => expect(apnsNotifier.options.safeParse({ ...record, ...fields }).success).toBe(false),
  );
});

function issuesOf({ options, validate }: NotifierDefinition, fields: object) {
  return validate?.(options.parse(fields)) ?? [];
}
