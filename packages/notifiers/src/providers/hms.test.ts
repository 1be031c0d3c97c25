/** Against a played Huawei, whose HTTP status says nothing. */
import type { Clock } from "@leafmesh/protocol";
import { Secret } from "@leafmesh/protocol";
import { type HmsDouble, hmsAnswer, hmsTokenRefusal, startHms } from "@leafmesh/testkit/notifiers";
import { type NotifierUnderTest, onNotifierStage, testNotifier } from "@leafmesh/testkit/suites";
import { describe, expect, it } from "vitest";
import type { RingErrorKind } from "../contract.ts";
import { hmsNotifier } from "./hms.ts";

const CLIENT = "104567890";
const SECRET = "5f1d0c0b7a6e4d3c2b1a09f8e7d6c5b4";
const TOKEN = "IQAAAACy0kYwAADj-QmzTfXy_0123456789-abcDEF+gh==";
const record = { client_id: CLIENT, client_secret: SECRET };

const isTokenRequest = ({ host }: { readonly host: string }): boolean => host === "oauth-login.cloud.huawei.com";
const isMessage = ({ host }: { readonly host: string }): boolean => host === "push-api.cloud.huawei.com";

const row = (code: string, name: string, kind: RingErrorKind, message?: RegExp) => ({
  name: `${code}: ${name}`,
  reply: hmsAnswer(code),
  expect: { kind, code, message },
});

const under: NotifierUnderTest<HmsDouble> = {
  definition: hmsNotifier,
  open: async (clock: Clock) => ({
    double: await startHms(clock, { clientId: CLIENT, clientSecret: SECRET, tokens: [TOKEN] }),
    record,
  }),
  tokens: { valid: TOKEN, wrong: ["with space", "a\nb", "é", "x".repeat(1025)] },
  shows: { ask: true, silent: false },
  credential: { lifetimeMs: 3_600_000, made: ({ issued }) => issued.size },
  answers: [
    row("80000001", "a fault of Huawei's", "transient"),
    row("81000001", "another fault of Huawei's", "transient"),
    row("80100000", "the one token was not valid", "dead_token"),
    row("80100001", "a parameter", "bad_request"),
    row("80100002", "no token", "bad_request"),
    row("80100003", "the structure", "bad_request"),
    row("80100004", "the time to live", "bad_request"),
    row("80100013", "the collapse key", "bad_request"),
    row("80100016", "words that are filtered", "bad_request", /name of the mesh/),
    row("80100017", "a limit", "quota"),
    row("80100020", "something else in the message", "bad_request"),
    { ...row("80200001", "an access token that is refused twice", "bad_credential", /client secret/), requests: 2 },
    { ...row("80200003", "an access token that is over twice", "bad_credential"), requests: 2 },
    row("80200005", "a key of the newer API", "bad_credential"),
    row("80300036", "another key of the newer API", "bad_credential"),
    row("80300002", "Push Kit is off", "bad_credential", /enable Push Kit/),
    row("80300007", "no valid token, before Huawei took anything", "bad_credential", /`client_id`/),
    row("80300008", "too large", "too_big"),
    row("80300010", "the number of tokens", "bad_request"),
    row("80300011", "no right to this urgency", "bad_request"),
    row("80300017", "a token of another app, before Huawei took anything", "bad_credential", /`client_id`/),
    row("80300028", "a token of another app, too", "bad_credential", /`client_id`/),
    row("80300029", "test messages", "quota"),
    row("80300030", "test messages, too", "quota"),
    row("80300037", "an app that is blocked", "bad_credential", /blocked/),
    row("80999999", "a code that nobody documents", "bad_request"),
    {
      name: "taken",
      reply: { status: 200, body: { code: "80000000", msg: "Success", requestId: "17" } },
      expect: { receipt: "17" },
    },
    {
      name: "a code that is none, which is not passed on",
      reply: (token: string) => hmsAnswer(token),
      expect: { kind: "transient", code: "200" },
    },
    { name: "200 of a page", reply: { status: 200, body: "<html>" }, expect: { kind: "transient", code: "200" } },
    { name: "HTTP 400", reply: { status: 400 }, expect: { kind: "bad_request", code: "400" } },
    { name: "HTTP 401", reply: { status: 401 }, expect: { kind: "bad_credential", code: "401" }, requests: 2 },
    { name: "HTTP 404, which is no dead token", reply: { status: 404 }, expect: { kind: "bad_request", code: "404" } },
    { name: "HTTP 500", reply: { status: 500 }, expect: { kind: "transient", code: "500" } },
    { name: "HTTP 502", reply: { status: 502 }, expect: { kind: "transient", code: "502" } },
    { name: "HTTP 503, flow control", reply: { status: 503 }, expect: { kind: "quota", code: "503" } },
    {
      name: "a token, quoted",
      reply: (token: string) => hmsAnswer("80100000", JSON.stringify({ illegal_tokens: [token] })),
      expect: { kind: "dead_token" },
    },
  ],
  checks: [
    { name: "a secret that works", expect: "active" },
    { name: "another secret", record: { client_secret: "another" }, expect: "failing", reason: /`client_secret`/ },
    { name: "no such app", record: { client_id: "1" }, expect: "failing", reason: /`client_id`/ },
    {
      name: "an app without Push Kit",
      arrange: ({ server }) => server.answerNext(hmsAnswer("80300002"), isMessage),
      expect: "failing",
      reason: /enable Push Kit/,
    },
    {
      name: "a secret that is none",
      arrange: ({ server }) => server.answerNext(hmsTokenRefusal(20171), isTokenRequest),
      expect: "failing",
      reason: /`client_secret`/,
    },
    {
      name: "a network that Huawei does not serve",
      arrange: ({ server }) => server.answerNext({ status: 403 }, isTokenRequest),
      expect: "readable",
    },
    {
      name: "a limit of tokens",
      arrange: ({ server }) => server.answerNext({ status: 503 }, isTokenRequest),
      expect: "readable",
    },
    {
      name: "flow control",
      arrange: ({ server }) => server.answerNext({ status: 503 }, isMessage),
      expect: "readable",
    },
    {
      name: "a fault of Huawei's",
      arrange: ({ server }) => server.answerNext(hmsAnswer("81000001"), isMessage),
      expect: "readable",
    },
  ],
};

testNotifier(under);

describe("hms", () => {
  it("asks with a notification that opens the app, and carries the ring beside it", () =>
    onNotifierStage(under, async ({ ring, double, request }) => {
      await ring({ approval: "ask" });
      const asked = request({ approval: "ask" });
      expect(double.server.requests.find(isMessage)?.json).toEqual({
        validate_only: false,
        message: {
          token: [TOKEN],
          data: JSON.stringify({ leafmesh: asked.body }),
          android: {
            urgency: "NORMAL",
            ttl: "43s",
            collapse_key: -1,
            notification: {
              title: 'Zoë\'s "mesh" 🌿',
              body: "Allow this connection?",
              click_action: { type: 3 },
              tag: asked.collapseKey,
              foreground_show: false,
            },
          },
        },
      });
    }));

  it("is silent with data alone", () =>
    onNotifierStage(under, async ({ ring, double }) => {
      await ring({ approval: "silent" });
      expect(double.server.requests.find(isMessage)?.json).not.toHaveProperty("message.android.notification");
    }));

  it.each(["80300007", "80300017", "80300028"])(
    "calls a token dead for %s once Huawei has taken another of the same app",
    (code) =>
      onNotifierStage(under, async ({ ring, notifier, request, double }) => {
        await ring();
        double.server.answerNext(hmsAnswer(code), isMessage);
        const failure = await notifier
          .ring(request({ approval: "ask" }), new Secret("gone"), new AbortController().signal)
          .catch((error: unknown) => error);
        expect(failure).toMatchObject({ kind: "dead_token", code });
      }),
  );

  it("checks with a message that is not delivered, to a token that nobody has, another one every time", () =>
    onNotifierStage(under, async ({ notifier, double }) => {
      for (let nth = 0; nth < 2; nth++) await notifier.check(new AbortController().signal);
      const bodies = double.server.requests.filter(isMessage).map(({ json }) => Object(json));
      expect(bodies.map(({ validate_only }) => validate_only)).toEqual([true, true]);
      expect(new Set(bodies.map(({ message }) => message.token[0])).size).toBe(2);
    }));

  it.each([
    ["the code", hmsAnswer("80200003")],
    ["the status alone", { status: 401 }],
  ])("replaces an access token that is refused by %s, and rings once", (_by, refusal) =>
    onNotifierStage(under, async ({ ring, double }) => {
      double.server.answerNext(refusal, isMessage);
      await ring();
      expect(double.issued.size).toBe(2);
      expect(double.rings).toHaveLength(1);
    }),
  );

  it("refuses an id that is no number", () => {
    for (const client_id of ["", "app", "1/../2", "1".repeat(65)]) {
      expect(hmsNotifier.options.safeParse({ ...record, client_id }).success).toBe(false);
    }
  });
});
