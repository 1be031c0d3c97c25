import { randomId, Secret } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { type PlayedOneSignalApp, startOneSignal, type VendorReply } from "@leafmesh/testkit/notifiers";
import { type DocumentedAnswer, type NotifierDouble, testNotifier } from "@leafmesh/testkit/suites";
import { afterEach, describe, expect, it } from "vitest";
import type { Notifier, RingRequest } from "../contract.ts";
import { oneSignalNotifier } from "./onesignal.ts";

const APP_ID = "8f9a6e22-0b4d-41c1-9d3a-5c2ebb9bbd8a";
const OTHER_APP_ID = "00000000-0b4d-41c1-9d3a-5c2ebb9bbd8a";
const API_KEY = "os_v2_app_the-key-of-the-app";
const PHONE = "5fb6a1d2-7c3e-4b1f-9a8d-0c2e4f6a8b1d";
const GONE = "99999999-7c3e-4b1f-9a8d-0c2e4f6a8b1d";
const APP: PlayedOneSignalApp = { appId: APP_ID, apiKeys: [API_KEY], subscribed: [PHONE] };

const record = { app_api_key: API_KEY, app_id: APP_ID };
const ok = (body: object): VendorReply => ({ status: 200, body });
const refused = (status: number, ...errors: unknown[]): VendorReply => ({ status, body: { errors } });

/** https://documentation.onesignal.com/reference/push-notification, https://documentation.onesignal.com/reference/rate-limits */
const answers: readonly DocumentedAnswer[] = [
  { name: "an id", reply: ok({ id: "n-1", external_id: null }), expect: { receipt: "n-1" } },
  { name: "503", reply: refused(503, "SERVICE_UNAVAILABLE"), expect: { kind: "transient", code: "503" } },
  { name: "an id and a list of none", reply: ok({ id: "n-1", errors: [] }), expect: { receipt: "n-1" } },
  {
    name: "an id and no subscription that has ended",
    reply: ok({ id: "n-1", errors: { invalid_player_ids: [], invalid_aliases: {} } }),
    expect: { receipt: "n-1" },
  },
  {
    name: "an empty id, because nobody is subscribed",
    reply: ok({ id: "", errors: ["All included players are not subscribed"] }),
    expect: { kind: "dead_token", code: "not_subscribed" },
  },
  {
    name: "no id at all, because nobody is subscribed",
    reply: ok({ errors: ["All included players are not subscribed"] }),
    expect: { kind: "dead_token", code: "not_subscribed" },
  },
  {
    name: "invalid_player_ids",
    reply: (token) => ok({ id: "", errors: { invalid_player_ids: [token] } }),
    expect: { kind: "dead_token", code: "not_subscribed" },
  },
  {
    name: "invalid_player_ids beside an id, which is no success for a single target",
    reply: (token) => ok({ id: "n-1", errors: { invalid_player_ids: [token] } }),
    expect: { kind: "dead_token" },
  },
  {
    name: "invalid_aliases",
    reply: (token) => ok({ id: "n-1", errors: { invalid_aliases: { onesignal_id: [token] } } }),
    expect: { kind: "dead_token" },
  },
  {
    name: "invalid_external_user_ids",
    reply: (token) => ok({ id: "", errors: { invalid_external_user_ids: [token] } }),
    expect: { kind: "dead_token" },
  },
  {
    name: "an empty id without a reason, which is no word about the token",
    reply: ok({ id: "" }),
    expect: { kind: "bad_request", code: "not_created" },
  },
  {
    name: "an empty id with another reason",
    reply: ok({ id: "", errors: ["Something else"] }),
    expect: { kind: "bad_request", code: "not_created" },
  },
  { name: "neither id nor errors", reply: ok({}), expect: { kind: "transient", code: "200" } },
  { name: "an id that is none", reply: ok({ id: 7 }), expect: { kind: "transient", code: "200" } },
  {
    name: "a field that is not valid",
    reply: refused(400, "Message Notifications must have English language content"),
    expect: { kind: "bad_request", code: "400" },
  },
  { name: "a refusal that says nothing", reply: refused(400, {}), expect: { kind: "bad_request", code: "400" } },
  {
    name: "too much data",
    reply: refused(400, "Data Data must be no more than 2048 bytes long"),
    expect: { kind: "too_big" },
  },
  {
    name: "too much else",
    reply: refused(400, "Option Metadata must not exceed 3500 bytes."),
    expect: { kind: "too_big" },
  },
  { name: "413", reply: { status: 413 }, expect: { kind: "too_big", code: "413" } },
  {
    name: "an app that OneSignal does not know",
    reply: refused(400, "app_id not found. You may be missing a Content-Type: application/json header."),
    expect: { kind: "bad_credential", code: "app_id", message: /app_id/ },
  },
  {
    name: "an app that is disabled",
    reply: refused(400, "This app has been disabled"),
    expect: { kind: "bad_credential", code: "app_disabled", message: /enable it/ },
  },
  {
    name: "another key",
    reply: refused(403, "Access denied.  Please include an 'Authorization: ...' header with a valid API key"),
    expect: { kind: "bad_credential", code: "403", message: /app_api_key/ },
  },
  {
    name: "another key, with the status of a bad request",
    reply: refused(400, 'Please include a case-sensitive header of "Authorization" with a valid REST API key.'),
    expect: { kind: "bad_credential", message: /app_api_key/ },
  },
  { name: "401", reply: { status: 401 }, expect: { kind: "bad_credential", code: "401" } },
  { name: "404", reply: refused(404, "Not found"), expect: { kind: "bad_credential", code: "app_id" } },
  {
    name: "a conflict with a request that was taken",
    reply: { status: 409, body: { id: "n-1" } },
    expect: { receipt: "n-1" },
  },
  { name: "a conflict", reply: refused(409, "Conflict"), expect: { kind: "transient", code: "409" } },
  {
    name: "a rate",
    reply: { status: 429, headers: { "retry-after": "30" }, body: { errors: ["API rate limit exceeded"], limit: "1" } },
    expect: { kind: "quota", code: "429" },
  },
  { name: "500", reply: refused(500, "Access denied"), expect: { kind: "transient", code: "500" } },
  { name: "a redirect", reply: { status: 301, headers: { location: "/" } }, expect: { kind: "transient" } },
];

const next = (reply: VendorReply) => ({ arrange: ({ server }: NotifierDouble) => server.answerNext(reply) });

testNotifier({
  definition: oneSignalNotifier,
  open: async () => ({ double: await startOneSignal(APP), record }),
  tokens: {
    valid: PHONE,
    wrong: [`${PHONE}\n`, `${PHONE},${PHONE}`, PHONE.replaceAll("-", ""), `{${PHONE}}`, `g${PHONE.slice(1)}`, "All"],
  },
  shows: { ask: true, silent: false },
  answers,
  checks: [
    { name: "a key of the app", expect: "active" },
    { name: "another key", record: { app_api_key: "another-key" }, expect: "failing", reason: /app_api_key/ },
    { name: "another app", record: { app_id: OTHER_APP_ID }, expect: "failing", reason: /app_id/ },
    { name: "a refusal that says nothing", ...next(refused(400, {})), expect: "failing", reason: /app_id/ },
    { name: "an app that is disabled", ...next(refused(403, "This app is disabled")), expect: "failing" },
    { name: "a list that is none", ...next(ok({ id: "" })), expect: "readable" },
    { name: "OneSignal's limit", ...next(refused(429, "Rate")), expect: "readable" },
    { name: "OneSignal being down", ...next({ status: 502, body: "<html>" }), expect: "readable" },
  ],
});

describe("app_api_key", () => {
  const issues = (app_api_key: string) =>
    oneSignalNotifier.validate?.(oneSignalNotifier.options.parse({ ...record, app_api_key }));

  it.each([API_KEY, "NzIzMDdlZTAtMDAwMC00MDAwLTgwMDAtMDEyMzQ1Njc4OWFi"])("is taken: %s", (key) => {
    expect(issues(key)).toEqual([]);
  });

  it.each([
    ["with its scheme", `Key ${API_KEY}`, /without Key/],
    ["of the organization", "os_v2_org_the-key-of-all", /one of the app/],
    ["in two lines", `${API_KEY}\n`, /one word/],
  ])("is a load error that does not repeat it: %s", (_name, key, message) => {
    expect(issues(key)).toEqual([{ path: ["app_api_key"], message: expect.stringMatching(message) }]);
    expect(JSON.stringify(issues(key))).not.toContain("the-key-of");
  });
});

describe("what OneSignal is sent", () => {
  const open: { notifier: Notifier; double: NotifierDouble }[] = [];
  afterEach(async () => {
    for (const { notifier, double } of open.splice(0)) {
      await notifier.close();
      await double.close();
    }
  });

  const start = async (fields: object = {}, app: Partial<PlayedOneSignalApp> = {}) => {
    const double = await startOneSignal({ ...APP, ...app });
    const notifier = oneSignalNotifier.create(oneSignalNotifier.options.parse({ ...record, ...fields }), {
      clock: createFakeClock(),
      logger: { debug() {}, info() {}, warn() {}, error() {} },
      newId: randomId,
      scope: { share: (_key, make) => make() },
      network: double.server.network,
    });
    open.push({ notifier, double });
    const ring = (request: RingRequest, to = PHONE) =>
      notifier.ring(request, new Secret(to), new AbortController().signal);
    return { double, ring };
  };

  const requestOf = (approval: "ask" | "silent" = "ask", mesh = "Home"): RingRequest => {
    const join = { provider: "leafmesh", room: "room-1" };
    const ring = { v: 1, ask: "ask_1", device: "phone-7", approval, iat: 1, exp: 2, mesh, join } as const;
    return { ring, body: "{}", collapseKey: "ask_1", ttlMs: 8_001, approval };
  };

  it("names one subscription and no segment, and asks with two buttons", async () => {
    const { double, ring } = await start({ app_id: APP_ID.toUpperCase() });
    await ring(requestOf(), PHONE.toUpperCase());
    expect(double.server.requests[0]?.json).toEqual({
      app_id: APP_ID,
      include_subscription_ids: [PHONE],
      idempotency_key: expect.stringMatching(/^[\da-f-]{36}$/),
      data: { leafmesh: "{}" },
      priority: 10,
      ttl: 9,
      collapse_id: "ask_1",
      web_push_topic: "ask_1",
      headings: { en: "Home" },
      contents: { en: "Allow this connection?" },
      buttons: [expect.objectContaining({ id: "allow" }), expect.objectContaining({ id: "deny" })],
      web_buttons: [expect.objectContaining({ id: "allow" }), expect.objectContaining({ id: "deny" })],
      ios_interruption_level: "time_sensitive",
    });
    expect(double.server.requests[0]?.headers.authorization).toBe(`Key ${API_KEY}`);
  });

  it("has nothing to show when it is silent", async () => {
    const { double, ring } = await start();
    await ring(requestOf("silent"));
    const sent = double.server.requests[0]?.json;
    expect(sent).toMatchObject({ content_available: true, huawei_msg_type: "data" });
    for (const shown of ["headings", "contents", "buttons", "web_buttons", "ios_interruption_level"]) {
      expect(sent).not.toHaveProperty(shown);
    }
  });

  it("has no instructions in its title", async () => {
    const { double, ring } = await start();
    await ring(requestOf("ask", "{{ user.email }} {% raw %} {{{x}"));
    expect(double.server.requests[0]?.json).toMatchObject({ headings: { en: "{ { user.email }} { % raw %} { { {x}" } });
  });

  it("rings once, however often it is sent; another ring of the ask rings again", async () => {
    const { double, ring } = await start();
    const request = requestOf();
    double.server.answerNext("cut");
    await expect(ring(request)).rejects.toMatchObject({ kind: "transient" });
    const first = await ring(request);
    expect(await ring({ ...request, ttlMs: 1_000 })).toEqual(first);
    expect(double.rings).toHaveLength(1);
    await ring(requestOf());
    expect(double.rings).toHaveLength(2);
    const keys = double.server.requests.map(({ json }) => (json as { idempotency_key: string }).idempotency_key);
    expect(new Set(keys.slice(0, 3)).size).toBe(1);
    expect(keys[3]).not.toBe(keys[0]);
  });

  it.each([
    ["key", { app_api_key: "another-key" }, "403"],
    ["app", { app_id: OTHER_APP_ID }, "app_id"],
  ])("makes no token look dead because of another %s", async (_name, fields, code) => {
    const { ring } = await start(fields, { takesWithoutKey: true });
    await expect(ring(requestOf(), GONE)).rejects.toMatchObject({ kind: "bad_credential", code });
  });

  it("calls a token dead once the key has opened the app, which it is asked for once", async () => {
    const { double, ring } = await start();
    await expect(ring(requestOf(), GONE)).rejects.toMatchObject({ kind: "dead_token" });
    await expect(ring(requestOf(), GONE)).rejects.toMatchObject({ kind: "dead_token" });
    expect(double.server.requests.map(({ method }) => method)).toEqual(["POST", "GET", "POST"]);
  });

  it("calls no token dead while OneSignal does not say whether the key opens the app", async () => {
    const { double, ring } = await start();
    double.server.answerNext({ status: 503 }, ({ method }) => method === "GET");
    await expect(ring(requestOf(), GONE)).rejects.toMatchObject({ kind: "transient", mayHaveRung: false });
  });
});
