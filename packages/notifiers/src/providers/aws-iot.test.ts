/** Against a played data plane that checks signatures, rights and messages. */
import { type Clock, Secret } from "@leafmesh/protocol";
import { awsIotRefusal, awsQueryRefusal, startAwsIot } from "@leafmesh/testkit/notifiers";
import { type DocumentedAnswer, onNotifierStage, testNotifier } from "@leafmesh/testkit/suites";
import { describe, expect, it } from "vitest";
import type { RingErrorKind } from "../contract.ts";
import { awsIotNotifier } from "./aws-iot.ts";

const HOST = "a1b2c3d4e5-ats.iot.eu-west-1.amazonaws.com";
const KEY = "AKIAIOSFODNN7EXAMPLE";
const SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
const TOKEN = "IQoJb3JpZ2luX2VjEXAMPLE//////////wEaCXVz+LXdlc3QtMg==";
/** With every character that means something in a path, in a signature or to nobody. */
const TOPIC = "leafmesh/kiosk.7-|@:%2f?a=b&c'(d)*!~é🌿/connect";
const NO_READING = "AKIAPUBLISHONLY00000";

const keys = {
  [KEY]: { secret: SECRET, rights: ["iot:Publish:leafmesh/*/connect", "iot:ListRetainedMessages"] },
  [NO_READING]: { secret: SECRET, rights: ["iot:Publish:leafmesh/*/connect"] },
  AKIAOTHERTOPICS00000: { secret: SECRET, rights: ["iot:Publish:other/*", "iot:ListRetainedMessages"] },
  ASIATEMPORARY0000000: { secret: SECRET, sessionToken: TOKEN, rights: ["iot:ListRetainedMessages"] },
  ASIAEXPIRED000000000: { secret: SECRET, sessionToken: TOKEN, expiresAtMs: 1, rights: [] },
} as const;
const record = { endpoint: HOST, access_key_id: KEY, secret_access_key: SECRET };

const refusal = (
  status: number,
  name: string,
  said: string,
  kind: RingErrorKind,
  message?: RegExp,
): DocumentedAnswer => ({
  name: `${name}: ${said}`,
  reply: awsIotRefusal(status, name, said),
  expect: { kind, code: name, message },
});

const under: Parameters<typeof testNotifier>[0] = {
  definition: awsIotNotifier,
  open: async (clock: Clock) => ({
    double: await startAwsIot(clock, { host: HOST, region: "eu-west-1", keys }),
    record,
  }),
  tokens: {
    valid: TOPIC,
    wrong: [
      "leafmesh/+/connect",
      "leafmesh/#",
      "$aws/things/kiosk/shadow/update",
      "/leafmesh/kiosk",
      "leafmesh//connect",
      "a/b/c/d/e/f/g/h/i",
      "é".repeat(129),
      "..",
      "leafmesh/./connect",
      "leafmesh/kiosk\u2028",
      "leafmesh/\ud800",
    ],
  },
  shows: { ask: false, silent: false },
  answers: [
    { ...refusal(503, "ServiceUnavailableException", "down", "transient"), name: "overload" },
    refusal(500, "InternalFailureException", "down", "transient"),
    refusal(504, "GatewayTimeoutException", "no answer", "transient"),
    {
      name: "taken",
      reply: { status: 200, body: { message: "OK", traceId: "8b8a-1" } },
      expect: { receipt: "8b8a-1" },
    },
    { name: "taken, as the API model has it", reply: { status: 200, body: {} }, expect: { receipt: undefined } },
    { name: "taken, without a word", reply: { status: 200, body: "" }, expect: { receipt: undefined } },
    refusal(403, "ForbiddenException", "Forbidden", "bad_credential", /iot:Publish/),
    refusal(
      403,
      "ForbiddenException",
      "The security token included in the request is invalid.",
      "bad_credential",
      /access_key_id/,
    ),
    refusal(
      403,
      "ForbiddenException",
      "The security token included in the request is expired",
      "bad_credential",
      /session_token has expired/,
    ),
    refusal(403, "ForbiddenException", "Signature expired: 1 is now earlier than 2", "bad_credential", /clock/),
    refusal(403, "ForbiddenException", "The request signature does not match", "bad_credential", /secret_access_key/),
    refusal(403, "ForbiddenException", "Missing Authentication Token", "bad_credential", /session_token again/),
    refusal(401, "UnauthorizedException", "You are not authorized", "bad_credential", /iot:Publish/),
    refusal(403, "AccessDeniedException", "", "bad_credential", /iot:Publish/),
    refusal(403, "UnrecognizedClientException", "", "bad_credential", /access_key_id/),
    refusal(403, "ExpiredTokenException", "", "bad_credential", /session_token/),
    refusal(403, "InvalidSignatureException", "", "bad_credential", /secret_access_key/),
    refusal(403, "InvalidSignatureException", "Signature not yet current", "bad_credential", /clock/),
    refusal(429, "ThrottlingException", "Rate exceeded", "quota", /Service Quotas/),
    refusal(400, "InvalidRequestException", "", "bad_request"),
    refusal(405, "MethodNotAllowedException", "", "bad_request"),
    refusal(409, "ConflictException", "", "bad_request"),
    refusal(415, "UnsupportedDocumentEncodingException", "", "bad_request"),
    refusal(413, "RequestEntityTooLargeException", "", "too_big"),
    { ...refusal(404, "ResourceNotFoundException", "", "bad_request"), name: "a 404, which is no dead token" },
    {
      name: "a name with its address behind it",
      reply: awsIotRefusal(429, "ThrottlingException:http://internal.amazon.com/coral/", ""),
      expect: { kind: "quota", code: "ThrottlingException" },
    },
    { name: "426", reply: { status: 426 }, expect: { kind: "bad_request", code: "426" } },
    { name: "a bare 403", reply: { status: 403, body: "<html>" }, expect: { kind: "bad_credential", code: "403" } },
    { name: "a bare 413", reply: { status: 413 }, expect: { kind: "too_big" } },
    { name: "204", reply: { status: 204 }, expect: { kind: "transient" } },
    { name: "200 of another", reply: { status: 200, body: "<html>" }, expect: { kind: "transient", code: "200" } },
    {
      name: "the topic, quoted",
      reply: (topic: string) => awsIotRefusal(400, "InvalidRequestException", `bad topic ${topic}`),
      expect: { kind: "bad_request" },
    },
  ],
  checks: [
    { name: "a key that may read", expect: "active" },
    {
      name: "a key that may only publish",
      record: { access_key_id: NO_READING },
      expect: "readable",
      reason: /a ring/,
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
      name: "a key that STS refuses",
      record: { access_key_id: NO_READING },
      arrange: ({ server }) =>
        server.answerNext(awsQueryRefusal(403, "InvalidClientTokenId", ""), ({ host }) => host.startsWith("sts.")),
      expect: "failing",
      reason: /access_key_id/,
    },
    {
      name: "an STS that cannot be reached",
      record: { access_key_id: NO_READING },
      arrange: ({ server }) => server.answerNext("cut", ({ host }) => host.startsWith("sts.")),
      expect: "readable",
    },
    { name: "a rate", arrange: ({ server }) => server.answerNext({ status: 429 }), expect: "readable" },
    { name: "an AWS that is down", arrange: ({ server }) => server.answerNext({ status: 503 }), expect: "readable" },
    {
      name: "an object of another",
      arrange: ({ server }) => server.answerNext({ status: 200, body: {} }),
      expect: "readable",
    },
  ],
};

testNotifier(under);

describe("aws_iot", () => {
  it("publishes the ring once, with an end, to the whole topic as one segment", () =>
    onNotifierStage(under, async ({ ring, double }) => {
      await ring();
      const [{ method, host, target, headers } = expect.fail("nothing was sent")] = double.server.requests;
      expect([method, host]).toEqual(["POST", HOST]);
      const query = "contentType=application%2Fjson&messageExpiry=43&qos=1";
      expect(target).toBe(`/topics/${encodeURIComponent(TOPIC)}?${query}`);
      expect(headers.authorization).toContain("SignedHeaders=content-type;host;x-amz-date,");
    }));

  it("may only publish where its policy says", () =>
    onNotifierStage(
      under,
      async ({ ring, double, failure }) => {
        expect(await failure(ring())).toMatchObject({ kind: "bad_credential", code: "ForbiddenException" });
        expect(double.rings).toEqual([]);
      },
      { access_key_id: "AKIAOTHERTOPICS00000" },
    ));

  it("signs with the token of temporary keys", () =>
    onNotifierStage(
      under,
      async ({ notifier, request, double }) => {
        const ringing = notifier.ring(request(), new Secret("leafmesh/a/connect"), new AbortController().signal);
        await expect(ringing).rejects.toMatchObject({ code: "ForbiddenException" });
        expect(double.server.requests[0]?.headers["x-amz-security-token"]).toBe(TOKEN);
        expect(double.server.requests[0]?.headers.authorization).toContain(";x-amz-security-token,");
      },
      { access_key_id: "ASIATEMPORARY0000000", session_token: TOKEN },
    ));

  const issuesOf = (fields: object) => {
    const parsed = awsIotNotifier.options.safeParse({ ...record, ...fields });
    return parsed.success ? awsIotNotifier.validate?.(parsed.data) : parsed.error.issues;
  };

  it.each([
    "A1B2C3-ATS.iot.eu-west-1.amazonaws.com",
    "a1b2c3.ats.iot.cn-north-1.amazonaws.com.cn",
    "a1b2c3-ats.iot-fips.us-gov-west-1.amazonaws.com",
    "vpce-0a1b-2c3d.data.iot.eu-west-1.vpce.amazonaws.com",
  ])("takes the endpoint %s", (endpoint) => expect(issuesOf({ endpoint })).toEqual([]));

  it.each([
    ["endpoint", { endpoint: `https://${HOST}` }],
    ["endpoint", { endpoint: `${HOST}:8443` }],
    ["endpoint", { endpoint: `${HOST}.evil.example` }],
    ["endpoint", { endpoint: "iot.eu-west-1.amazonaws.com" }],
    ["endpoint", { endpoint: "bucket.s3.eu-west-1.amazonaws.com" }],
    ["endpoint", { endpoint: "a1b2c3.credentials.iot.eu-west-1.amazonaws.com" }],
    ["endpoint", { endpoint: "10.0.0.7" }],
    ["region", { region: "us-east-1" }],
    ["region", { region: "Ireland" }],
    ["secret_access_key", { secret_access_key: `${SECRET} ` }],
    ["session_token", { access_key_id: "ASIATEMPORARY0000000" }],
  ])("refuses at load, by the field %s: %o", (path, fields) => {
    expect(issuesOf(fields)).toMatchObject([{ path: [path], message: expect.not.stringContaining("evil") }]);
  });
});
