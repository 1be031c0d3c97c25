/** Against played push services that verify each signature, and played browsers that decrypt each message. */
import { createECDH, createHash } from "node:crypto";
import { type Clock, Secret } from "@leafmesh/protocol";
import { playBrowser, startWebPush, type VendorReply, webPushRefusal } from "@leafmesh/testkit/notifiers";
import { type DocumentedAnswer, onNotifierStage, testNotifier } from "@leafmesh/testkit/suites";
import { createLocalJWKSet, jwtVerify } from "jose";
import { describe, expect, it } from "vitest";
import type { RingErrorKind } from "../contract.ts";
import { webpushNotifier } from "./webpush.ts";

const HOUR_MS = 3_600_000;
const pair = createECDH("prime256v1");
const publicKey = pair.generateKeys("base64url");
const privateKey = pair.getPrivateKey("base64url").padStart(43, "A");
const record = { vapid_private_key: privateKey, contact: "mailto:ops@example.com" };

const browserAt = (endpoint: string, more: object = {}) =>
  playBrowser({ endpoint, applicationServerKey: publicKey, ...more });
const chrome = browserAt("https://fcm.googleapis.com/fcm/send/c0FfeE-_chrome:APA91bH");
const firefox = browserAt("https://updates.push.services.mozilla.com/wpush/v2/gAAAAABfirefox");
const safari = browserAt("https://web.push.apple.com/QGsafari-0123456789");
const edge = browserAt("https://wns2-by3p.notify.windows.com/w/?token=BQYAAADdW%2fedge%3d");
const gone = browserAt("https://web.push.apple.com/gone", { isGone: true });
const another = playBrowser({
  endpoint: "https://fcm.googleapis.com/fcm/send/another",
  applicationServerKey: createECDH("prime256v1").generateKeys("base64url"),
});
const browsers = [chrome, firefox, safari, edge, gone, another];

const { endpoint, keys } = JSON.parse(chrome.subscription);
const subscription = (fields: object, keyFields: object = {}): string =>
  JSON.stringify({ endpoint, ...fields, keys: { ...keys, ...keyFields } });

const apple = (status: number, reason: string): VendorReply => ({ status, body: { reason } });
const google = (status: number, text: string): VendorReply => ({ status, body: text });
const windows = (status: number, headers: Record<string, string>): VendorReply => ({ status, headers, body: "" });
const row = (reply: VendorReply, kind: RingErrorKind, code: string, message?: RegExp): DocumentedAnswer => ({
  name: `${kind}: ${reply.status} ${JSON.stringify(reply.body ?? "")} ${JSON.stringify(reply.headers ?? {})}`,
  reply,
  expect: { kind, code, message },
});
const mozilla = (status: number, errno: number, kind: RingErrorKind, message?: RegExp): DocumentedAnswer =>
  row(webPushRefusal(status, errno, `about ${chrome.endpoint}`), kind, String(errno), message);
const location = { location: "https://updates.push.services.mozilla.com/m/gAAAAA-secret" };

const under: Parameters<typeof testNotifier>[0] = {
  definition: webpushNotifier,
  open: async (clock: Clock) => ({ double: await startWebPush(clock, browsers), record }),
  tokens: {
    valid: chrome.subscription,
    wrong: [
      "https://fcm.googleapis.com/fcm/send/abc",
      JSON.stringify({ endpoint }),
      JSON.stringify([JSON.parse(chrome.subscription)]),
      subscription({ endpoint: "http://fcm.googleapis.com/fcm/send/abc" }),
      subscription({ endpoint: "https://fcm.googleapis.com:8443/fcm/send/abc" }),
      subscription({ endpoint: "https://fcm.googleapis.com.evil.example/fcm/send/abc" }),
      subscription({ endpoint: "https://evilfcm.googleapis.com/fcm/send/abc" }),
      subscription({ endpoint: "https://evil-notify.windows.com/?token=abc" }),
      subscription({ endpoint: "https://fcm.googleapis.com@evil.example/fcm/send/abc" }),
      subscription({ endpoint: "https://127.0.0.1/fcm/send/abc" }),
      subscription({ endpoint: "https://[::ffff:169.254.169.254]/latest" }),
      subscription({ endpoint: "https://localhost/fcm/send/abc" }),
      subscription({}, { p256dh: keys.auth }),
      // As long as a key, and not on the curve.
      subscription({}, { p256dh: Buffer.alloc(65, 4).toString("base64url") }),
      subscription({}, { p256dh: `${keys.p256dh.slice(0, -1)}!` }),
      subscription({}, { auth: "c2hvcnQ" }),
      subscription({ more: "x".repeat(4096) }),
    ],
    secretParts: [chrome.endpoint, keys.p256dh, keys.auth, "gAAAAA-secret", privateKey],
  },
  shows: { ask: false, silent: false },
  collapseKey: (key) => createHash("sha256").update(key).digest("hex").slice(0, 32),
  credential: { lifetimeMs: 12 * HOUR_MS },
  nobodyToAsk: true,
  answers: [
    { name: "taken", reply: { status: 201, headers: location, body: "" }, expect: { receipt: undefined } },
    { name: "taken by Apple", reply: windows(201, { "apns-id": "A1-b2" }), expect: { receipt: "A1-b2" } },
    {
      name: "taken by Windows",
      reply: windows(201, { "x-wns-status": "received", "x-wns-msg-id": "7A6C" }),
      expect: { receipt: "7A6C" },
    },
    {
      name: "taken, with receipts",
      reply: { status: 202, headers: location, body: "" },
      expect: { receipt: undefined },
    },
    row({ status: 503 }, "transient", "503"),
    row(google(200, "<!doctype html><title>Sign in</title>"), "transient", "200"),
    row(windows(204, {}), "transient", "204"),
    row({ status: 500 }, "transient", "500"),
    mozilla(500, 999, "transient"),
    mozilla(502, 900, "transient"),
    mozilla(502, 903, "transient"),
    mozilla(503, 201, "transient"),
    mozilla(503, 202, "transient"),
    row({ status: 307, headers: { location: "https://127.0.0.1/" } }, "transient", "307", /not followed/),
    row({ status: 301, headers: { location: endpoint } }, "transient", "301"),

    row({ status: 404 }, "dead_token", "404"),
    row({ status: 410 }, "dead_token", "410"),
    mozilla(404, 102, "dead_token"),
    ...[103, 105, 106].map((errno) => mozilla(410, errno, "dead_token")),
    row(google(410, "push subscription has unsubscribed or expired.\n"), "dead_token", "410"),
    row(apple(410, "Unregistered"), "dead_token", "Unregistered"),
    row(apple(410, "ExpiredToken"), "dead_token", "ExpiredToken"),
    row(windows(410, { "x-wns-error-description": "Channel expired" }), "dead_token", "410"),
    // These look like a dead token, and are not.
    row(windows(410, { "x-wns-error-description": "Domain Blocked" }), "bad_credential", "410", /blocked/),
    row(google(403, "the VAPID credentials ... do not correspond to ..."), "bad_credential", "403", /subscribe again/),
    row(google(403, "the key ... does not correspond to the sender ID"), "bad_credential", "403", /subscribe again/),
    row(google(400, "<H1>UnauthorizedRegistration</H1>"), "bad_credential", "400", /subscribe again/),
    row(apple(400, "VapidPkHashMismatch"), "bad_credential", "VapidPkHashMismatch", /subscribe again/),
    row(apple(403, "VapidPkHashMismatch"), "bad_credential", "VapidPkHashMismatch", /subscribe again/),
    row(apple(403, "BadJwtToken"), "bad_credential", "BadJwtToken", /`contact`/),
    row(apple(403, "BadVapidPublicKey"), "bad_credential", "BadVapidPublicKey"),
    mozilla(401, 109, "bad_credential", /`contact`/),
    row({ status: 401 }, "bad_credential", "401"),
    row({ status: 403 }, "bad_credential", "403"),

    row(apple(413, "PayloadTooLarge"), "too_big", "PayloadTooLarge"),
    mozilla(413, 104, "too_big"),
    row({ status: 413 }, "too_big", "413"),
    row(apple(429, "TooManyRequests"), "quota", "TooManyRequests"),
    mozilla(429, 201, "quota"),
    row({ status: 429 }, "quota", "429"),
    row({ status: 406 }, "quota", "406"),
    row(windows(201, { "x-wns-status": "channelThrottled" }), "quota", "channelthrottled"),
    row(windows(201, { "x-wns-notificationstatus": "dropped" }), "transient", "dropped"),
    row(
      windows(201, { "x-wns-status": "dropped", "x-wns-deviceconnectionstatus": "disconnected" }),
      "offline",
      "dropped",
    ),
    row(windows(201, { "x-wns-status": "postponed" }), "transient", "200"),

    ...[101, 108, 110, 111, 112, 113].map((errno) => mozilla(400, errno, "bad_request")),
    ...["BadTtl", "BadUrgency", "BadWebPushTopic", "BadWebPushRequest", "BadAuthorizationHeader"].map((reason) =>
      row(apple(400, reason), "bad_request", reason),
    ),
    row(apple(400, "constructor"), "bad_request", "400"),
    row({ status: 405 }, "bad_request", "405"),
  ],
  checks: [
    { name: "a key in order", expect: "readable", reason: new RegExp(publicKey) },
    { name: "no key", record: { vapid_private_key: "none" }, expect: "failing", reason: /43 characters/ },
    { name: "the public key", record: { vapid_private_key: publicKey }, expect: "failing", reason: /is for the page/ },
  ],
};

testNotifier(under);

const never = new AbortController().signal;
const stage = (act: Parameters<typeof onNotifierStage>[1]) => onNotifierStage(under, act);

describe("webpush", () => {
  it("rings each browser at its own push service, with the address as it was given", () =>
    stage(async ({ notifier, request, double }) => {
      for (const { subscription } of [chrome, firefox, safari, edge]) {
        await notifier.ring(request(), new Secret(subscription), never);
      }
      expect(double.rings.map(({ to, body }) => [to, body])).toEqual(
        [chrome, firefox, safari, edge].map((browser) => [browser.subscription, request().body]),
      );
      expect(double.server.requests[3]).toMatchObject({ target: "/w/?token=BQYAAADdW%2fedge%3d" });
    }));

  it("wakes a device that saves its battery, and never asks for no time at all", () =>
    stage(async ({ ring, double }) => {
      await ring({ ttlMs: 0 });
      const [sent] = double.server.requests;
      expect(sent?.headers).toMatchObject({ ttl: "1", urgency: "high", "content-encoding": "aes128gcm" });
      expect(sent?.headers["transfer-encoding"]).toBeUndefined();
      expect(sent?.body.includes("phone-7")).toBe(false);
    }));

  it("signs for the push service that it calls, which another library verifies", () =>
    stage(async ({ notifier, request, double, clock }) => {
      for (const { subscription } of [safari, firefox]) {
        await notifier.ring(request(), new Secret(subscription), never);
      }
      const point = Buffer.from(publicKey, "base64url");
      const [x, y] = [point.subarray(1, 33), point.subarray(33)].map((part) => part.toString("base64url"));
      const jwks = createLocalJWKSet({
        keys: [{ kty: "EC", crv: "P-256", alg: "ES256", ...(x && y ? { x, y } : {}) }],
      });
      for (const { headers, host } of double.server.requests) {
        const [, jwt = "", k] = /^vapid t=(.+), k=(.+)$/.exec(headers.authorization ?? "") ?? [];
        const { payload } = await jwtVerify(jwt, jwks, { currentDate: new Date(clock.nowMs()) });
        const exp = Math.floor(clock.nowMs() / 1000) + 12 * 3600;
        expect([k, payload]).toEqual([publicKey, { aud: `https://${host}`, exp, sub: "mailto:ops@example.com" }]);
      }
    }));

  it("keeps a signature for more than an hour, and makes another one when its machine has slept or been set", () =>
    stage(async ({ ring, double, clock }) => {
      const signatures = () => new Set(double.server.requests.map(({ headers }) => headers.authorization)).size;
      await ring();
      await clock.advance(5 * HOUR_MS);
      await ring();
      expect(signatures()).toBe(1);
      clock.setWallClock(clock.nowMs() + 30 * HOUR_MS);
      await ring();
      expect(signatures()).toBe(2);
      clock.setWallClock(clock.nowMs() - 40 * HOUR_MS);
      await ring();
      expect(signatures()).toBe(3);
      expect(double.rings).toHaveLength(4);
    }));

  it("tells a subscription that is gone from one of another key", () =>
    stage(async ({ notifier, request, failure }) => {
      const to = (token: string) => failure(notifier.ring(request(), new Secret(token), never));
      expect(await to(gone.subscription)).toMatchObject({ kind: "dead_token", code: "106" });
      expect(await to(another.subscription)).toMatchObject({ kind: "bad_credential", code: "403" });
    }));

  it("is not led anywhere by a redirect", () =>
    stage(async ({ ring, double, failure }) => {
      const { route } = double.server.network;
      expect(route("127.0.0.1", 443)).toBeUndefined();
      double.server.answerNext({ status: 307, headers: { location: safari.endpoint } });
      expect(await failure(ring())).toMatchObject({ kind: "transient", code: "307" });
      expect(double.server.requests).toHaveLength(1);
    }));

  it("sends nothing to an address that is none of a push service, even if nobody has looked at it before", () =>
    stage(async ({ notifier, request, double, failure }) => {
      for (const wrong of under.tokens.wrong) {
        expect(await failure(notifier.ring(request(), new Secret(wrong), never))).toMatchObject({
          kind: "bad_request",
        });
      }
      expect(double.server.connections).toBe(0);
    }));
});

describe("a record of webpush", () => {
  const issues = (key: string) =>
    webpushNotifier.validate?.(webpushNotifier.options.parse({ ...record, vapid_private_key: key })) ?? [];

  it("takes a key as tools print it, with padding or in the other alphabet too", () => {
    expect(issues(privateKey)).toEqual([]);
    expect(issues(`${privateKey}=\n`)).toEqual([]);
    expect(issues(privateKey.replaceAll("-", "+").replaceAll("_", "/"))).toEqual([]);
  });

  it.each([
    ["a PEM file", "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIA\n-----END EC PRIVATE KEY-----", /PEM/],
    ["the public key", publicKey, /is for the page/],
    ["a key that is zero", Buffer.alloc(32).toString("base64url"), /P-256/],
    ["a key over the order of the curve", Buffer.alloc(32, 255).toString("base64url"), /P-256/],
    ["a key that was cut", privateKey.slice(0, 40), /43 characters/],
    ["words", "the key of the page, as it was sent to us!!", /43 characters/],
  ])("says what to do about %s", (_what, key, message) => {
    expect(issues(key)).toEqual([{ path: ["vapid_private_key"], message: expect.stringMatching(message) }]);
    expect(JSON.stringify(issues(key))).not.toContain(key.slice(10, 40));
  });

  it.each(["mailto:ops@example.com", "https://example.com", "https://status.example.com/contact?x=1"])(
    "takes the contact %s",
    (contact) => expect(webpushNotifier.options.safeParse({ ...record, contact }).success).toBe(true),
  );

  it.each([
    "ops@example.com",
    "mailto:ops@localhost",
    "mailto: ops@example.com",
    "mailto:<ops@example.com>",
    "https://localhost",
    "http://example.com",
    "https://example.com/a b",
    "",
  ])("refuses the contact %j, as Apple would", (contact) =>
    expect(webpushNotifier.options.safeParse({ ...record, contact }).success).toBe(false),
  );
});
