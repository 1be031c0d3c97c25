/** Against a played region that checks signatures, rights, and what each platform takes. */
import { type Clock, Secret } from "@leafmesh/protocol";
import { awsQueryRefusal, awsQueryResult, type SnsRight, startSns } from "@leafmesh/testkit/notifiers";
import { type DocumentedAnswer, onNotifierStage, testNotifier } from "@leafmesh/testkit/suites";
import { describe, expect, it } from "vitest";
import type { RingErrorKind } from "../contract.ts";
import { snsNotifier } from "./sns.ts";

const REGION = "eu-west-1";
const ACCOUNT = "123456789012";
const KEY = "AKIAIOSFODNN7EXAMPLE";
const SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
const TOKEN = "IQoJb3JpZ2luX2VjEXAMPLE//////////wEaCXVz+LXdlc3QtMg==";
const arn = (resource: string, region = REGION, account = ACCOUNT) => `arn:aws:sns:${region}:${account}:${resource}`;
const UUID = "5e3e9847-3183-3f18-a7e8-671c3a57d4b3";
const PHONE = arn(`endpoint/GCM/my-app/${UUID}`);
const ENDPOINTS = {
  google: PHONE,
  apple: arn(`endpoint/APNS/my-app/${UUID}`),
  sandbox: arn(`endpoint/APNS_SANDBOX/my.app_2/${UUID}`),
  amazon: arn(`endpoint/ADM/my-app/${UUID}`),
} as const;
const DYING = arn("endpoint/GCM/my-app/11111111-3183-3f18-a7e8-671c3a57d4b3");
const APPLICATIONS = ["GCM/my-app", "APNS/my-app"];

/** Temporary keys, whose ids begin so, need their token. */
const key = (rights: readonly SnsRight[], more: object = {}) => ({ secret: SECRET, rights, ...more });
const keys = {
  [KEY]: key(["sns:Publish", "sns:ListPlatformApplications"]),
  AKIAPUBLISHONLY00000: key(["sns:Publish"]),
  AKIAONEAPPLICATION00: key(["sns:Publish:APNS/my-app", "sns:ListPlatformApplications"]),
  AKIAONEAPPLICATION01: key(["sns:Publish:APNS/my-app"]),
  AKIALISTSONLY0000000: key(["sns:ListPlatformApplications"]),
  ASIATEMPORARY0000000: key(["sns:Publish", "sns:ListPlatformApplications"], { sessionToken: TOKEN }),
  ASIAEXPIRED000000000: key(["sns:Publish"], { sessionToken: TOKEN, expiresAtMs: 1 }),
};
const endpoints = Object.fromEntries(Object.values(ENDPOINTS).map((each) => [each, "enabled" as const]));
const record = { region: REGION, access_key_id: KEY, secret_access_key: SECRET };

const refusal = (
  status: number,
  code: string,
  said: string,
  kind: RingErrorKind,
  message?: RegExp,
): DocumentedAnswer => ({
  name: `${code}: ${said || "no more"}`,
  reply: awsQueryRefusal(status, code, said),
  expect: { kind, code, message },
});

const under: Parameters<typeof testNotifier>[0] = {
  definition: snsNotifier,
  open: async (clock: Clock) => ({
    double: await startSns(clock, {
      ...{ region: REGION, account: ACCOUNT, keys, applications: APPLICATIONS },
      endpoints: { ...endpoints, [DYING]: "token_dead" },
    }),
    record,
  }),
  tokens: {
    valid: PHONE,
    wrong: [
      arn("my-topic"),
      arn("app/GCM/my-app"),
      arn("endpoint/GCM/my-app"),
      arn(`endpoint/SMS/my-app/${UUID}`),
      arn(`endpoint/APNS_VOIP/my-app/${UUID}`),
      arn(`endpoint/GCM/my app/${UUID}`),
      arn(`endpoint/GCM/a/b/${UUID}`),
      `${PHONE}\n`,
      PHONE.replace("arn:aws:", "arn:evil:"),
      PHONE.replace(":sns:", ":sqs:"),
      "+15558675310",
      UUID,
    ],
    secretParts: [UUID],
  },
  shows: { ask: true, silent: false },
  answers: [
    {
      name: "queued",
      reply: awsQueryResult("Publish", "<MessageId>94f20ce6-13c5-43a0-9a9e-ca52d816e90b</MessageId>"),
      expect: { receipt: "94f20ce6-13c5-43a0-9a9e-ca52d816e90b" },
    },
    { ...refusal(503, "ServiceUnavailable", "", "transient"), name: "overload" },
    refusal(500, "InternalError", "", "transient"),
    refusal(500, "InternalFailure", "", "transient"),
    refusal(400, "EndpointDisabled", "Endpoint is disabled", "dead_token", /disabled/),
    refusal(404, "NotFound", "Endpoint does not exist", "dead_token"),
    refusal(
      400,
      "InvalidParameter",
      "Invalid parameter: TargetArn Reason: No endpoint found for the target arn specified",
      "dead_token",
    ),
    // What looks like a dead token and is none.
    refusal(404, "NotFound", "PlatformApplication does not exist", "bad_credential", /application/),
    refusal(404, "NotFound", "Topic does not exist", "bad_request"),
    refusal(400, "PlatformApplicationDisabled", "Platform application is disabled", "bad_credential", /renew/),
    refusal(400, "InvalidParameter", "Invalid parameter: TargetArn Reason: no value", "bad_request", /push token/),
    refusal(400, "InvalidParameter", "Invalid parameter: Message Structure", "bad_request"),
    refusal(400, "InvalidParameter", "Invalid parameter: Message too long", "too_big"),
    refusal(400, "ParameterValueInvalid", "Invalid parameter: TTL", "bad_request"),
    refusal(400, "ValidationException", "1 validation error detected", "bad_request"),
    refusal(400, "InvalidAction", "Could not find operation", "bad_request"),
    refusal(400, "MalformedQueryString", "", "bad_request"),
    refusal(403, "AuthorizationError", "not authorized to perform: SNS:Publish", "bad_credential", /sns:Publish/),
    refusal(403, "AccessDenied", "", "bad_credential", /sns:Publish/),
    refusal(403, "AccessDeniedException", "", "bad_credential", /sns:Publish/),
    refusal(403, "InvalidClientTokenId", "The security token is invalid", "bad_credential", /access_key_id/),
    refusal(403, "InvalidSecurity", "", "bad_credential", /access_key_id/),
    refusal(403, "SignatureDoesNotMatch", "does not match", "bad_credential", /secret_access_key/),
    refusal(403, "SignatureDoesNotMatch", "Signature expired: 1 is now earlier than 2", "bad_credential", /clock/),
    refusal(400, "RequestExpired", "", "bad_credential", /clock/),
    refusal(403, "ExpiredToken", "", "bad_credential", /session_token/),
    refusal(403, "ExpiredTokenException", "", "bad_credential", /session_token/),
    refusal(403, "MissingAuthenticationToken", "", "bad_credential"),
    refusal(400, "IncompleteSignature", "", "bad_credential"),
    refusal(403, "OptInRequired", "", "bad_credential", /region/),
    refusal(400, "KMSDisabled", "", "bad_credential", /KMS/),
    refusal(403, "KMSOptInRequired", "", "bad_credential"),
    refusal(400, "KMSAccessDenied", "", "bad_credential"),
    refusal(400, "KMSInvalidState", "", "bad_credential"),
    refusal(400, "KMSNotFound", "", "bad_credential"),
    refusal(400, "KMSThrottling", "", "quota"),
    refusal(429, "Throttled", "", "quota", /Service Quotas/),
    refusal(400, "Throttling", "Rate exceeded", "quota"),
    refusal(400, "ThrottlingException", "Rate exceeded", "quota"),
    refusal(400, "NeverHeardOf", "", "bad_request"),
    { name: "a bare 403", reply: { status: 403 }, expect: { kind: "bad_credential", code: "403" } },
    { name: "a bare 404", reply: { status: 404, body: "<html>" }, expect: { kind: "bad_request", code: "404" } },
    { name: "a bare 413", reply: { status: 413 }, expect: { kind: "too_big" } },
    { name: "200 of another", reply: { status: 200, body: "<MessageId>1</MessageId>" }, expect: { kind: "transient" } },
    {
      name: "the endpoint, quoted",
      reply: (to: string) => awsQueryRefusal(400, "InvalidParameter", `Invalid parameter: TargetArn ${to}`),
      expect: { kind: "bad_request", code: "InvalidParameter" },
    },
  ],
  checks: [
    { name: "a key that may publish", expect: "active" },
    { name: "a key that may nothing else", record: { access_key_id: "AKIAPUBLISHONLY00000" }, expect: "active" },
    { name: "the second application's key", record: { access_key_id: "AKIAONEAPPLICATION00" }, expect: "active" },
    {
      name: "a key that may nothing but publish to one application",
      record: { access_key_id: "AKIAONEAPPLICATION01" },
      expect: "readable",
      reason: /a ring alone/,
    },
    {
      name: "a key that may not publish",
      record: { access_key_id: "AKIALISTSONLY0000000" },
      expect: "failing",
      reason: /sns:Publish/,
    },
    {
      name: "temporary keys",
      record: { access_key_id: "ASIATEMPORARY0000000", session_token: TOKEN },
      expect: "active",
    },
    {
      name: "temporary keys with another token",
      record: { access_key_id: "ASIATEMPORARY0000000", session_token: `${TOKEN}x` },
      expect: "failing",
      reason: /session_token/,
    },
    {
      name: "temporary keys whose time is over",
      record: { access_key_id: "ASIAEXPIRED000000000", session_token: TOKEN },
      expect: "failing",
      reason: /expired/,
    },
    {
      name: "another key",
      record: { access_key_id: "AKIANOBODY0000000000" },
      expect: "failing",
      reason: /access_key_id/,
    },
    { name: "another secret", record: { secret_access_key: "x".repeat(40) }, expect: "failing", reason: /secret_/ },
    {
      name: "a region without applications",
      arrange: ({ server }) =>
        server.answerNext({ status: 200, body: "<ListPlatformApplicationsResult><PlatformApplications/>" }),
      expect: "readable",
      reason: /eu-west-1/,
    },
    {
      name: "a page of somebody else",
      arrange: ({ server }) => server.answerNext({ status: 200, body: "<html>" }),
      expect: "readable",
    },
    { name: "a rate", arrange: ({ server }) => server.answerNext({ status: 429 }), expect: "readable" },
    { name: "an AWS that is down", arrange: ({ server }) => server.answerNext({ status: 503 }), expect: "readable" },
    {
      name: "a key that may nothing but publish, and an STS that cannot be reached",
      record: { access_key_id: "AKIAPUBLISHONLY00000" },
      arrange: ({ server }) => server.answerNext("cut", ({ host }) => host.startsWith("sts.")),
      expect: "readable",
    },
  ],
};

testNotifier(under);

describe("sns", () => {
  it.each(Object.entries(ENDPOINTS))("rings an endpoint of %s in its own form", (_name, to) =>
    onNotifierStage(under, async ({ notifier, request, double }) => {
      for (const approval of ["ask", "silent"] as const) {
        const sent = request({ approval });
        await notifier.ring(sent, new Secret(to), new AbortController().signal);
        expect(double.rings.at(-1)).toEqual({
          ...{ body: sent.body, to, isShown: approval === "ask", ttlSeconds: 43, collapseKey: sent.collapseKey },
        });
      }
      const said = new URLSearchParams(double.server.requests[0]?.text).get("Message") ?? "";
      // What is sent where SNS does not like the rest shows nothing of the ring.
      expect(JSON.parse(said).default).toBe("A device is asked for.");
    }),
  );

  it("asks Apple's devices behind Firebase with an alert, and wakes them without one", () =>
    onNotifierStage(under, async ({ ring, double, clock }) => {
      const parts = [];
      for (const approval of ["ask", "silent"] as const) {
        await ring({ approval });
        const said = new URLSearchParams(double.server.requests.at(-1)?.text).get("Message") ?? "";
        parts.push(JSON.parse(JSON.parse(said).GCM).fcmV1Message.message.apns);
      }
      const headers = { "apns-expiration": String(Math.ceil((clock.nowMs() + 42_500) / 1000)) };
      expect(parts).toMatchObject([
        {
          headers: { "apns-push-type": "alert", "apns-priority": "10", ...headers },
          payload: { aps: { alert: { body: "Allow this connection?" }, category: "LEAF_ALLOW" } },
        },
        {
          headers: { "apns-push-type": "background", "apns-priority": "5" },
          payload: { aps: { "content-available": 1 } },
        },
      ]);
    }));

  it("learns that a token is dead from the second ring on", () =>
    onNotifierStage(under, async ({ notifier, request, double, failure }) => {
      const ring = () => notifier.ring(request(), new Secret(DYING), new AbortController().signal);
      await ring();
      expect(await failure(ring())).toMatchObject({ kind: "dead_token", code: "EndpointDisabled" });
      expect(double.rings).toEqual([]);
    }));

  it.each([arn(`endpoint/GCM/my-app/${UUID}`, "us-east-1"), PHONE.replace("arn:aws:", "arn:aws-cn:")])(
    "sends nothing to an endpoint of another region or partition",
    (to) =>
      onNotifierStage(under, async ({ notifier, request, double, failure }) => {
        const ringing = notifier.ring(request(), new Secret(to), new AbortController().signal);
        expect(await failure(ringing)).toMatchObject({ kind: "bad_request", code: "region" });
        expect(double.server.requests).toEqual([]);
      }),
  );

  it.each([
    ["eu-west-1", "aws", "sns.eu-west-1.amazonaws.com"],
    ["cn-north-1", "aws-cn", "sns.cn-north-1.amazonaws.com.cn"],
    ["us-gov-west-1", "aws-us-gov", "sns.us-gov-west-1.amazonaws.com"],
  ])("calls the own host of %s", (region, partition, host) => {
    const to = arn(`endpoint/ADM/my-app/${UUID}`, region).replace(":aws:", `:${partition}:`);
    const played = {
      region,
      account: ACCOUNT,
      keys,
      applications: APPLICATIONS,
      endpoints: { [to]: "enabled" },
    } as const;
    const there = {
      ...under,
      open: async (clock: Clock) => ({ double: await startSns(clock, played), record: { ...record, region } }),
      tokens: { valid: to, wrong: [] },
    };
    return onNotifierStage(there, async ({ ring, notifier, double }) => {
      await ring();
      expect(double.server.requests[0]?.host).toBe(host);
      expect(await notifier.check(new AbortController().signal)).toEqual({ status: "active" });
    });
  });

  it("checks with endpoints that no device has", () =>
    onNotifierStage(under, async ({ notifier, double }) => {
      await notifier.check(new AbortController().signal);
      const targets = double.server.requests.map(({ text }) => new URLSearchParams(text).get("TargetArn"));
      expect(targets).toEqual([null, arn("endpoint/GCM/my-app/00000000-0000-0000-0000-000000000000")]);
    }));

  it.each([
    ["a region that would be another host", { region: "eu-west-1.evil.example/" }, "region"],
    ["a region by its name", { region: "Ireland" }, "region"],
    ["an ID that would be another header", { access_key_id: `${KEY}\r\nx: y` }, "access_key_id"],
    ["an empty secret", { secret_access_key: "" }, "secret_access_key"],
  ])("refuses %s", (_name, fields, path) => {
    expect(snsNotifier.options.safeParse({ ...record, ...fields }).error?.issues).toMatchObject([{ path: [path] }]);
  });

  it.each([
    ["a secret with a line break", { secret_access_key: `${SECRET}\n` }, "secret_access_key"],
    ["temporary keys without their token", { access_key_id: "ASIATEMPORARY0000000" }, "session_token"],
    ["half a session token", { session_token: "too short" }, "session_token"],
  ])("finds at load, without repeating it: %s", (_name, fields, path) => {
    const issues = snsNotifier.validate?.(snsNotifier.options.parse({ ...record, ...fields }));
    expect(issues).toMatchObject([{ path: [path] }]);
    expect(JSON.stringify(issues)).not.toMatch(/too short|wJalr/);
    expect(snsNotifier.validate?.(snsNotifier.options.parse(record))).toEqual([]);
  });
});
