/** Against a played instance that checks key, format and limits. */
import type { Clock } from "@leafmesh/protocol";
import { startPusherBeams } from "@leafmesh/testkit/notifiers";
import { onNotifierStage, testNotifier } from "@leafmesh/testkit/suites";
import { describe, expect, it } from "vitest";
import { pusherBeamsNotifier } from "./pusher-beams.ts";

const INSTANCE = "8f9a6e22-0b4d-41c1-9d3a-5c2ebb9bbd8a";
const KEY = "4D5C1B0A99E8F7D6".repeat(4);
const USER = "phone-7|zoë@example.com";
const record = { instance_id: INSTANCE, primary_key: KEY };

const said = (status: number, error: string, description: string) => ({ status, body: { error, description } });

const under: Parameters<typeof testNotifier>[0] = {
  definition: pusherBeamsNotifier,
  open: async (clock: Clock) => ({
    double: await startPusherBeams(clock, { instanceId: INSTANCE, primaryKey: KEY, users: [USER] }),
    record,
  }),
  tokens: { valid: USER, wrong: ["é".repeat(83), "a\tb", "a\u2028b", "a\u200bb", "users/1"] },
  shows: { ask: true, silent: false },
  answers: [
    { name: "taken", reply: { status: 200, body: { publishId: "pubid-1" } }, expect: { receipt: "pubid-1" } },
    { name: "overload", reply: { status: 503 }, expect: { kind: "transient", code: "503" } },
    { name: "an internal error", reply: said(500, "Internal", "Try again"), expect: { kind: "transient" } },
    { name: "a gateway", reply: { status: 502 }, expect: { kind: "transient" } },
    { name: "a gateway that waited", reply: { status: 504 }, expect: { kind: "transient" } },
    { name: "200 without an id", reply: { status: 200, body: { publishId: "" } }, expect: { kind: "transient" } },
    { name: "202", reply: { status: 202, body: { publishId: "pubid-1" } }, expect: { kind: "transient" } },
    {
      name: "a wrong key",
      reply: said(401, "Unauthorized", "Incorrect API Key"),
      expect: { kind: "bad_credential", code: "401", message: /`primary_key`/ },
    },
    {
      name: "a plan's limit",
      reply: said(402, "Payment required", "Limit"),
      expect: { kind: "quota", message: /plan/ },
    },
    {
      name: "no instance, which is no dead token",
      reply: said(404, "Not found", "Instance"),
      expect: { kind: "bad_credential", message: /`instance_id`/ },
    },
    { name: "a rate", reply: said(429, "Too many requests", "Slow"), expect: { kind: "quota", message: /100/ } },
    { name: "no JSON", reply: said(400, "Bad request", "Not JSON"), expect: { kind: "bad_request", code: "400" } },
    {
      name: "too large",
      reply: said(400, "Bad request", "Request body size is too large"),
      expect: { kind: "too_big" },
    },
    { name: "too large, by status", reply: { status: 413 }, expect: { kind: "too_big", code: "413" } },
    { name: "another format", reply: said(422, "Unprocessable", "users"), expect: { kind: "bad_request" } },
    { name: "a 410, which Pusher does not document", reply: { status: 410 }, expect: { kind: "bad_request" } },
    {
      name: "a user, quoted",
      reply: (user: string) => said(422, "Unprocessable", `no such user: ${user}`),
      expect: { kind: "bad_request" },
    },
  ],
  checks: [
    { name: "a key that works", expect: "active" },
    { name: "another key", record: { primary_key: "another-key" }, expect: "failing", reason: /`primary_key`/ },
    {
      name: "no such instance",
      arrange: ({ server }) => server.answerNext(said(404, "Not found", "Instance")),
      expect: "failing",
      reason: /`instance_id`/,
    },
    {
      name: "a plan's limit",
      arrange: ({ server }) => server.answerNext(said(402, "Payment required", "Limit")),
      expect: "failing",
      reason: /plan/,
    },
    {
      name: "a format that is refused, which says nothing of the key",
      arrange: ({ server }) => server.answerNext(said(422, "Unprocessable", "users")),
      expect: "readable",
    },
    { name: "a rate", arrange: ({ server }) => server.answerNext({ status: 429 }), expect: "readable" },
    { name: "a Pusher that is down", arrange: ({ server }) => server.answerNext({ status: 503 }), expect: "readable" },
  ],
};

testNotifier(under);

describe("pusher_beams", () => {
  it("asks on every system, and names the category whose actions are Allow and Deny", () =>
    onNotifierStage(under, async ({ ring, double, clock }) => {
      await ring({ approval: "ask" });
      const shown = { title: 'Zoë\'s "mesh" 🌿', body: "Allow this connection?" };
      const expiration = Math.ceil((clock.nowMs() + 42_500) / 1000);
      expect(double.server.requests[0]?.json).toMatchObject({
        users: [USER],
        fcm: { priority: "high", time_to_live: 43, data: shown },
        apns: { priority: 10, expiration, aps: { alert: shown, category: "LEAF_ALLOW" } },
        web: { time_to_live: 43, notification: shown },
      });
    }));

  it("is silent with data alone, and wakes Apple's systems in the background", () =>
    onNotifierStage(under, async ({ ring, request, double }) => {
      await ring({ approval: "silent" });
      const data = { leafmesh: request({ approval: "silent" }).body };
      const { fcm, apns, web } = Object(double.server.requests[0]?.json);
      expect(fcm).toMatchObject({ priority: "high", data });
      expect(fcm).not.toHaveProperty("data.title");
      expect(apns).toMatchObject({ priority: 5, aps: { "content-available": 1 }, data });
      expect(apns).not.toHaveProperty("aps.alert");
      expect(web).toEqual({ time_to_live: 43, data });
    }));

  it("calls the instance's own host, whatever the case of its ID", () =>
    onNotifierStage(
      under,
      async ({ ring, double }) => {
        await ring();
        const { host, path } = double.server.requests[0] ?? {};
        expect(host).toBe(`${INSTANCE}.pushnotifications.pusher.com`);
        expect(path).toBe(`/publish_api/v1/instances/${INSTANCE}/publishes/users`);
      },
      { instance_id: INSTANCE.toUpperCase() },
    ));

  it("checks with a user that nobody is, another one every time", () =>
    onNotifierStage(under, async ({ notifier, double }) => {
      for (let nth = 0; nth < 2; nth++) await notifier.check(new AbortController().signal);
      const users = double.server.requests.map(({ json }) => Object(json).users[0]);
      expect(new Set(users).size).toBe(2);
      for (const user of users) expect(user).toMatch(/^leafmesh-check_.{22}$/);
    }));

  it("refuses an ID that would be another host, and a key that is no header", () => {
    const { options, validate } = pusherBeamsNotifier;
    for (const instance_id of ["", "x", `${INSTANCE}.example.com/`, `${INSTANCE}#`]) {
      expect(options.safeParse({ ...record, instance_id }).success).toBe(false);
    }
    expect(validate?.(options.parse(record))).toEqual([]);
    expect(validate?.(options.parse({ ...record, primary_key: `${KEY}\n` }))).toMatchObject([
      { path: ["primary_key"] },
    ]);
  });
});
