/** OneSignal's own client takes the double for OneSignal, and knows every field that a ring has. */
import { routed } from "@leafmesh/guarded-fetch";
import { randomId, Secret, systemClock } from "@leafmesh/protocol";
import { startOneSignal } from "@leafmesh/testkit/notifiers";
import type { NotifierDouble } from "@leafmesh/testkit/suites";
import { createConfiguration, DefaultApi, isMessageSent, Notification } from "@onesignal/node-onesignal";
import { Agent, buildConnector, fetch } from "undici";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { oneSignalNotifier } from "./onesignal.ts";

const APP_ID = "8f9a6e22-0b4d-41c1-9d3a-5c2ebb9bbd8a";
const API_KEY = "the-api-key-of-the-app";
const PHONE = "5fb6a1d2-7c3e-4b1f-9a8d-0c2e4f6a8b1d";
const GONE = "99999999-7c3e-4b1f-9a8d-0c2e4f6a8b1d";

let double: NotifierDouble;
let agent: Agent;
beforeAll(async () => {
  double = await startOneSignal({ appId: APP_ID, apiKeys: [API_KEY], subscribed: [PHONE] });
  const { network } = double.server;
  agent = new Agent({ connect: routed(buildConnector({ ca: network.ca }), network) });
  // The client calls the global one, and everything but its socket is its own.
  vi.stubGlobal("fetch", (url: string, init: Parameters<typeof fetch>[1]) =>
    fetch(url, { ...init, dispatcher: agent }),
  );
});
afterAll(async () => {
  vi.unstubAllGlobals();
  await agent.close();
  await double.close();
});

const client = (restApiKey = API_KEY) => new DefaultApi(createConfiguration({ restApiKey }));

function notification(fields: Partial<Notification>): Notification {
  const base = { app_id: APP_ID, include_subscription_ids: [PHONE], contents: { en: "Hello" } };
  return Object.assign(new Notification(), base, fields);
}

describe("the double of OneSignal, by OneSignal's client", () => {
  it("makes a notification, which its list then has", async () => {
    const made = await client().createNotification(
      notification({ ttl: 60, collapse_id: "ask-1", data: { leafmesh: "1" } }),
    );
    expect(isMessageSent(made)).toBe(true);
    expect(double.rings.at(-1)).toEqual({ body: "1", to: PHONE, isShown: true, ttlSeconds: 60, collapseKey: "ask-1" });
    const { notifications } = await client().getNotifications(APP_ID, 1);
    expect(notifications).toEqual([expect.objectContaining({ id: made.id })]);
  });

  it("makes none for those who are not subscribed, and names them beside others", async () => {
    const none = await client().createNotification(notification({ include_subscription_ids: [GONE] }));
    expect(isMessageSent(none)).toBe(false);
    expect(none.errors).toEqual(["All included players are not subscribed"]);
    const some = await client().createNotification(notification({ include_subscription_ids: [PHONE, GONE] }));
    expect(isMessageSent(some)).toBe(true);
    expect(some.errors).toEqual({ invalid_player_ids: [GONE] });
  });

  it("answers the client's own repeats, and rings once for one key", async () => {
    const before = double.rings.length;
    const idempotency_key = "aaaaaaaa-0000-4000-8000-000000000001";
    double.server.answerNext({
      status: 503,
      headers: { "retry-after": "0" },
      body: { errors: ["SERVICE_UNAVAILABLE"] },
    });
    const first = await client().createNotificationWithRetry(notification({ idempotency_key }));
    const again = await client().createNotificationWithRetry(notification({ idempotency_key }));
    expect([first.wasReplayed, again.wasReplayed]).toEqual([false, true]);
    expect(again.response.id).toBe(first.response.id);
    expect(double.rings).toHaveLength(before + 1);
  });

  it.each<[string, string, Partial<Notification>, number]>([
    ["another key", "another-key", {}, 403],
    ["another app", API_KEY, { app_id: GONE }, 400],
    ["a notification to nobody", API_KEY, { include_subscription_ids: [] }, 400],
    ["a notification that says nothing", API_KEY, { contents: {} }, 400],
    ["more data than it takes", API_KEY, { data: { leafmesh: "r".repeat(2048) } }, 400],
    ["a longer life than it gives", API_KEY, { ttl: 2_419_201 }, 400],
  ])("refuses %s", async (_name, key, fields, code) => {
    const before = double.rings.length;
    await expect(client(key).createNotification(notification(fields))).rejects.toMatchObject({ code });
    expect(double.rings).toHaveLength(before);
  });
});

describe("a ring, by OneSignal's client", () => {
  it.each(["ask", "silent"] as const)("has no field that the client does not know: %s", async (approval) => {
    const fields = oneSignalNotifier.options.parse({ app_api_key: API_KEY, app_id: APP_ID });
    const notifier = oneSignalNotifier.create(fields, {
      clock: systemClock,
      logger: { debug() {}, info() {}, warn() {}, error() {} },
      newId: randomId,
      scope: { share: (_key, make) => make() },
      network: double.server.network,
    });
    const join = { provider: "leafmesh", room: "room-1" };
    const ring = { v: 1, ask: "ask_1", device: "phone-7", approval, iat: 1, exp: 2, join } as const;
    const request = { ring, body: "{}", collapseKey: "ask_1", ttlMs: 1, approval };
    await notifier.ring(request, new Secret(PHONE), new AbortController().signal);
    await notifier.close();
    const known = Notification.getAttributeTypeMap().map(({ baseName }) => baseName);
    const sent = Object.keys(Object(double.server.requests.at(-1)?.json));
    expect(sent.length).toBeGreaterThan(8);
    expect(sent.filter((name) => !known.includes(name))).toEqual([]);
  });
});
