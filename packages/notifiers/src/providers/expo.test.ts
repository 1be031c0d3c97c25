import type { Clock } from "@leafmesh/protocol";
import { type ExpoDouble, startExpo, type VendorReply } from "@leafmesh/testkit/notifiers";
import { type DocumentedAnswer, testNotifier } from "@leafmesh/testkit/suites";
import { describe, expect, it } from "vitest";
import { expoNotifier } from "./expo.ts";

const PHONE = "ExponentPushToken[xY7-qLr_2mKdPz0aB3cD4e]";
const ACCESS_TOKEN = "Xq3-the-token-of-a-robot";
const PROJECT = "@acme/phones";

async function open(clock: Clock) {
  const double = await startExpo(clock, {
    devices: { [PHONE]: PROJECT },
    accessTokens: { [ACCESS_TOKEN]: [PROJECT], "of-another-account": [] },
    secured: [PROJECT],
  });
  return { double, record: { access_token: ACCESS_TOKEN } };
}

/** Expo repeats the push token in its texts. */
const ticket =
  (error: string | undefined, isList = false) =>
  (token: string): VendorReply => {
    const details = error === undefined ? {} : { details: { error, expoPushToken: token } };
    const said = { status: "error", message: `"${token}" could not be sent to`, ...details };
    return { status: 200, body: { data: isList ? [said] : said } };
  };

const failed = (status: number, code: string, message = "No.", more: object = {}): VendorReply => ({
  status,
  body: { errors: [{ code, message, ...more }] },
});

/** https://docs.expo.dev/push-notifications/sending-notifications/#errors */
const answers: readonly DocumentedAnswer[] = [
  {
    name: "a ticket",
    reply: { status: 200, body: { data: { status: "ok", id: "ticket-1" } } },
    expect: { receipt: "ticket-1" },
  },
  {
    name: "a ticket in a list",
    reply: { status: 200, body: { data: [{ status: "ok", id: "ticket-1" }] } },
    expect: { receipt: "ticket-1" },
  },
  { name: "500", reply: failed(500, "INTERNAL_SERVER_ERROR"), expect: { kind: "transient", code: "500" } },
  {
    name: "a ticket without an id",
    reply: { status: 200, body: { data: { status: "ok", id: "" } } },
    expect: { kind: "transient", code: "200" },
  },
  {
    name: "two tickets for one ring",
    reply: { status: 200, body: { data: [1, 2].map((id) => ({ status: "ok", id: `ticket-${id}` })) } },
    expect: { kind: "transient", code: "200" },
  },
  { name: "no ticket", reply: { status: 200, body: { data: [] } }, expect: { kind: "transient" } },
  {
    name: "DeviceNotRegistered in a ticket",
    reply: ticket("DeviceNotRegistered"),
    expect: { kind: "dead_token", code: "DeviceNotRegistered" },
  },
  {
    name: "DeviceNotRegistered in a list of tickets",
    reply: ticket("DeviceNotRegistered", true),
    expect: { kind: "dead_token", code: "DeviceNotRegistered" },
  },
  { name: "MessageTooBig", reply: ticket("MessageTooBig"), expect: { kind: "too_big", code: "MessageTooBig" } },
  { name: "MessageRateExceeded", reply: ticket("MessageRateExceeded"), expect: { kind: "quota" } },
  {
    name: "MismatchSenderId, which is no dead token",
    reply: ticket("MismatchSenderId"),
    expect: { kind: "bad_credential", code: "MismatchSenderId", message: /Firebase/ },
  },
  {
    name: "InvalidCredentials, which is no dead token",
    reply: ticket("InvalidCredentials"),
    expect: { kind: "bad_credential", message: /eas credentials/ },
  },
  {
    name: "InvalidProviderToken",
    reply: ticket("InvalidProviderToken"),
    expect: { kind: "bad_credential", message: /build anew/ },
  },
  { name: "DeveloperError", reply: ticket("DeveloperError"), expect: { kind: "bad_request", code: "DeveloperError" } },
  { name: "ExpoError", reply: ticket("ExpoError"), expect: { kind: "transient", code: "ExpoError" } },
  { name: "ProviderError", reply: ticket("ProviderError"), expect: { kind: "transient", code: "ProviderError" } },
  { name: "a ticket with an error of no name", reply: ticket(undefined), expect: { kind: "bad_request" } },
  {
    name: "a ticket with an error that nobody knows",
    reply: ticket("constructor"),
    expect: { kind: "bad_request", code: "ticket" },
  },
  {
    name: "UNAUTHORIZED",
    reply: failed(401, "UNAUTHORIZED"),
    expect: { kind: "bad_credential", code: "UNAUTHORIZED", message: /access_token/ },
  },
  {
    name: "UNAUTHORIZED with the status of a bad request",
    reply: failed(400, "UNAUTHORIZED"),
    expect: { kind: "bad_credential", code: "UNAUTHORIZED" },
  },
  {
    name: "a bearer that Expo does not know",
    reply: { status: 401, body: { error: "invalid_token", error_description: "The bearer token is invalid" } },
    expect: { kind: "bad_credential", code: "invalid_token" },
  },
  {
    name: "a bearer of another account",
    reply: failed(403, "FORBIDDEN", `Insufficient permissions to send push notifications to ${PROJECT}.`),
    expect: { kind: "bad_credential", code: "403", message: /of its account/ },
  },
  {
    name: "errors with the status of a success",
    reply: failed(200, "UNAUTHORIZED"),
    expect: { kind: "bad_credential", code: "UNAUTHORIZED" },
  },
  { name: "TOO_MANY_REQUESTS", reply: failed(429, "TOO_MANY_REQUESTS"), expect: { kind: "quota" } },
  {
    name: "PUSH_TOO_MANY_EXPERIENCE_IDS, which is no dead token",
    reply: (token) => failed(400, "PUSH_TOO_MANY_EXPERIENCE_IDS", "All of one", { details: { "@a/b": [token] } }),
    expect: { kind: "bad_request", code: "PUSH_TOO_MANY_EXPERIENCE_IDS" },
  },
  {
    name: "PUSH_TOO_MANY_NOTIFICATIONS",
    reply: failed(400, "PUSH_TOO_MANY_NOTIFICATIONS"),
    expect: { kind: "bad_request" },
  },
  {
    name: "a push token that Expo takes for none",
    reply: (token) => failed(400, "VALIDATION_ERROR", `"[0].to" is invalid: ${token}`),
    expect: { kind: "dead_token", code: "VALIDATION_ERROR" },
  },
  {
    name: "another field that is not valid, which is no dead token",
    reply: failed(400, "VALIDATION_ERROR", '"ttl" must be a number, next to "total"'),
    expect: { kind: "bad_request", code: "VALIDATION_ERROR" },
  },
  { name: "API_ERROR", reply: failed(400, "API_ERROR"), expect: { kind: "bad_request", code: "API_ERROR" } },
  { name: "too large a request", reply: { status: 413, body: "" }, expect: { kind: "too_big", code: "413" } },
  { name: "503 with a page", reply: { status: 503, body: "<html>busy</html>" }, expect: { kind: "transient" } },
  { name: "a redirect", reply: { status: 302, headers: { location: "/" } }, expect: { kind: "transient" } },
];

const next = (reply: VendorReply) => ({ arrange: ({ server }: ExpoDouble) => server.answerNext(reply) });

testNotifier<ExpoDouble>({
  definition: expoNotifier,
  open,
  tokens: {
    valid: PHONE,
    wrong: [
      "ExponentPushToken[]",
      "ExponentPushToken[a]b]",
      "ExponentPushToken[a b]",
      `${PHONE}\n`,
      `x${PHONE}`,
      "FirebasePushToken[xY7-qLr_2mKdPz0aB3cD4e]",
      "fMEYxz4QTk-7Q2nJ3bqv1c:APA91bHun4MxP5egoKMwt2KZFBaFUH-1RYqx",
      "0123456789abcdef".repeat(4),
    ],
    secretParts: ["xY7-qLr_2mKdPz0aB3cD4e"],
  },
  shows: { ask: true, silent: false },
  answers,
  checks: [
    { name: "a token that Expo takes", expect: "active" },
    { name: "another token", record: { access_token: "of-nobody" }, expect: "failing", reason: /access_token/ },
    { name: "no token at all", record: { access_token: undefined }, expect: "readable", reason: /nothing to prove/ },
    { name: "UNAUTHORIZED", ...next(failed(401, "UNAUTHORIZED")), expect: "failing", reason: /access_token/ },
    { name: "an answer that has no receipts", ...next({ status: 200, body: { data: [] } }), expect: "readable" },
    { name: "Expo's limit", ...next(failed(429, "TOO_MANY_REQUESTS")), expect: "readable" },
    { name: "Expo being down", ...next({ status: 502, body: "<html>" }), expect: "readable" },
  ],
});

describe("a push token of Expo", () => {
  it.each([
    "ExponentPushToken[xxxxxxxxxxxxxxxxxxxxxx]",
    "ExpoPushToken[aB-_9]",
    "F5741A13-BCDA-434B-A316-5DC0E6FFA94F",
  ])("is taken: %s", (token) => expect(expoNotifier.pushToken.parse(token)).toBe(token));
});

describe("access_token", () => {
  const issues = (access_token?: string) => expoNotifier.validate?.(expoNotifier.options.parse({ access_token }));

  it("may be left out, and is one word", () => {
    expect(issues()).toEqual([]);
    expect(issues(ACCESS_TOKEN)).toEqual([]);
  });

  it.each([
    ["with its scheme", `Bearer ${ACCESS_TOKEN}`, /without Bearer/],
    ["in two lines", `${ACCESS_TOKEN}\n${ACCESS_TOKEN}`, /one word/],
    ["with letters that no header has", `${ACCESS_TOKEN}…`, /one word/],
  ])("is a load error that does not repeat it: %s", (_name, text, message) => {
    expect(issues(text)).toEqual([{ path: ["access_token"], message: expect.stringMatching(message) }]);
    expect(JSON.stringify(issues(text))).not.toContain("Xq3");
  });
});
