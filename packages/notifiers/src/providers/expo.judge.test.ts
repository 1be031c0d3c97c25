/** Expo's own client takes the double for Expo, unmodified but for its socket: so the double speaks as Expo does. */

import { routed } from "@leafmesh/guarded-fetch";
import { systemClock } from "@leafmesh/protocol";
import { type ExpoDouble, startExpo } from "@leafmesh/testkit/notifiers";
import { Expo, type ExpoClientOptions, type ExpoPushMessage } from "expo-server-sdk";
import { Agent, buildConnector, Dispatcher1Wrapper } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const PHONE = "ExponentPushToken[phone]";
const TABLET = "0f1e2d3c-0000-4000-8000-0123456789ab";
const ELSEWHERE = "ExponentPushToken[elsewhere]";
const NOBODY = "ExponentPushToken[nobody]";

let double: ExpoDouble;
let agent: Agent;
beforeAll(async () => {
  double = await startExpo(systemClock, {
    devices: { [PHONE]: "@acme/phones", [TABLET]: "@acme/phones", [ELSEWHERE]: "@acme/other" },
    accessTokens: { robot: ["@acme/phones"] },
    secured: ["@acme/phones"],
  });
  const { network } = double.server;
  agent = new Agent({ connect: routed(buildConnector({ ca: network.ca }), network) });
});
afterAll(async () => {
  await agent.close();
  await double.close();
});

function client(accessToken?: string): Expo {
  // Its undici is of an earlier major than ours.
  const httpAgent = new Dispatcher1Wrapper(agent) as unknown as ExpoClientOptions["httpAgent"];
  return new Expo({ httpAgent, retryMinTimeout: 1, ...(accessToken === undefined ? {} : { accessToken }) });
}

const silent = (to: ExpoPushMessage["to"], leafmesh = "1"): ExpoPushMessage => ({
  to,
  data: { leafmesh },
  contentAvailable: true,
  priority: "high",
  ttl: 60,
  collapseId: "ask-1",
});

describe("the double of Expo, by Expo's client", () => {
  it("has a ticket for each device, and a receipt for each ticket", async () => {
    const expo = client("robot");
    const tickets = await expo.sendPushNotificationsAsync([silent([PHONE, TABLET]), { to: NOBODY, title: "Hello" }]);
    expect(tickets).toEqual([
      { status: "ok", id: expect.any(String) },
      { status: "ok", id: expect.any(String) },
      {
        status: "error",
        message: expect.stringContaining(NOBODY),
        details: { error: "DeviceNotRegistered", expoPushToken: NOBODY },
      },
    ]);
    expect(double.rings.slice(-2)).toMatchObject([
      { to: PHONE, body: "1", isShown: false, ttlSeconds: 60, collapseKey: "ask-1" },
      { to: TABLET },
    ]);
    const ids = tickets.flatMap((ticket) => (ticket.status === "ok" ? ticket.id : []));
    const receipts = await expo.getPushNotificationReceiptsAsync([...ids, "00000000-0000-4000-8000-999999999999"]);
    expect(receipts).toEqual({ [ids[0] ?? ""]: { status: "ok" }, [ids[1] ?? ""]: { status: "ok" } });
  });

  it("takes what the client compresses, and tells in the receipt that it was too much", async () => {
    const before = double.rings.length;
    const expo = client("robot");
    const [fits, tooBig] = await expo.sendPushNotificationsAsync([
      silent(PHONE, "r".repeat(3_000)),
      silent(PHONE, "r".repeat(4_096)),
    ]);
    expect(double.server.requests.at(-1)?.headers["content-encoding"]).toBe("gzip");
    expect(double.rings).toHaveLength(before + 1);
    const id = (ticket: typeof fits) => (ticket?.status === "ok" ? ticket.id : "");
    const receipts = await expo.getPushNotificationReceiptsAsync([id(fits), id(tooBig)]);
    expect(receipts).toMatchObject({
      [id(fits)]: { status: "ok" },
      [id(tooBig)]: { status: "error", details: { error: "MessageTooBig" } },
    });
  });

  it.each([
    ["no access token", undefined, [silent(PHONE)], { code: "UNAUTHORIZED" }],
    ["an access token of nobody", "nobody's", [silent(PHONE)], { message: expect.stringContaining("invalid_token") }],
    ["devices of two projects", "robot", [silent(PHONE), silent(ELSEWHERE)], { code: "PUSH_TOO_MANY_EXPERIENCE_IDS" }],
    ["another project", "robot", [silent(ELSEWHERE)], { message: expect.stringMatching(/^Insufficient permissions/) }],
    ["what is no push token", "robot", [silent("phone")], { code: "VALIDATION_ERROR" }],
    ["more than it takes", "robot", Array(101).fill(silent(PHONE)), { code: "PUSH_TOO_MANY_NOTIFICATIONS" }],
  ])("refuses %s", async (_name, accessToken, messages, failure) => {
    const before = double.rings.length;
    await expect(client(accessToken).sendPushNotificationsAsync(messages)).rejects.toMatchObject(failure);
    expect(double.rings).toHaveLength(before);
  });

  it("is sent to three times by the client itself, which is why a ring does not go through it", async () => {
    const before = double.server.requests.length;
    const errors = [{ code: "TOO_MANY_REQUESTS", message: "Slow down" }];
    for (let nth = 0; nth < 3; nth++) double.server.answerNext({ status: 429, body: { errors } });
    const sending = client("robot").sendPushNotificationsAsync([silent(PHONE)]);
    await expect(sending).rejects.toMatchObject({ code: "TOO_MANY_REQUESTS" });
    expect(double.server.requests.length - before).toBe(3);
  });
});
