/** Against a played Google that verifies assertions, access tokens, formats and sizes. */
import { generateKeyPairSync } from "node:crypto";
import type { Clock } from "@leafmesh/protocol";
import { Secret } from "@leafmesh/protocol";
import { type FcmDouble, fcmRefusal, startFcm } from "@leafmesh/testkit/notifiers";
import { type NotifierUnderTest, onNotifierStage, testNotifier } from "@leafmesh/testkit/suites";
import { describe, expect, it } from "vitest";
import { fcmNotifier } from "./fcm.ts";
import { readServiceAccount } from "./fcm-key.ts";

const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 });
const pem = (key: { export(options: { type: "pkcs8"; format: "pem" }): string | Buffer }): string =>
  key.export({ type: "pkcs8", format: "pem" }).toString();
const PROJECT = "my-app-1a2b3";
const account = {
  type: "service_account",
  project_id: PROJECT,
  private_key_id: "0123456789abcdef0123456789abcdef01234567",
  private_key: pem(rsa.privateKey),
  client_email: "mesh@my-app-1a2b3.iam.gserviceaccount.com",
  token_uri: "https://attacker.example.com/token",
};
const FILE = JSON.stringify(account);
const TOKEN = "dGhlLXBob25l:APA91bH-xyz_0123456789";
const [GONE, OTHER] = ["Z29uZQ:APA91bGone", "b3RoZXI:APA91bOther"];
/** The time that the clock of a case shows. */
const NOW = "Fri, 15 Jan 2027 08:00:00 GMT";
const record = { service_account: FILE };

const isTokenRequest = ({ host }: { readonly host: string }): boolean => host === "oauth2.googleapis.com";
const isMessage = ({ host }: { readonly host: string }): boolean => host === "fcm.googleapis.com";

/** https://developers.google.com/identity/protocols/oauth2/service-account#error-codes */
const tokenProblems: readonly [error: string, status: number, reason: RegExp][] = [
  ["disabled_client", 401, /disabled/],
  ["deleted_client", 401, /was deleted/],
  ["invalid_client", 401, /does not know/],
  ["unauthorized_client", 401, /Firebase console/],
  ["access_denied", 403, /administrator/],
  ["admin_policy_enforced", 400, /administrator/],
  ["org_internal", 403, /organization/],
  ["invalid_scope", 400, /fault of LeafMesh/],
  ["invalid_request", 400, /fault of LeafMesh/],
  ["unsupported_grant_type", 400, /fault of LeafMesh/],
  ["something_new", 400, /`service_account`/],
];

const under: NotifierUnderTest<FcmDouble> = {
  definition: fcmNotifier,
  open: async (clock: Clock) => ({
    double: await startFcm(clock, {
      serviceAccount: FILE,
      projectId: PROJECT,
      tokens: { [TOKEN]: "there", [GONE]: "gone", [OTHER]: "other" },
    }),
    record,
  }),
  tokens: { valid: TOKEN, wrong: ["with space", "a/b", "a\nb", "é", "x".repeat(4097)] },
  shows: { ask: true, silent: false },
  credential: { lifetimeMs: 3_599_000, made: ({ issued }) => issued.size },
  answers: [
    {
      name: "taken",
      reply: { status: 200, body: { name: `projects/${PROJECT}/messages/0:1500%31bd1c9631bd1c96` } },
      expect: { receipt: "0:1500%31bd1c9631bd1c96" },
    },
    {
      name: "overload",
      reply: fcmRefusal(503, "UNAVAILABLE", { errorCode: "UNAVAILABLE" }),
      expect: { kind: "transient", code: "UNAVAILABLE" },
    },
    { name: "200 without a name", reply: { status: 200, body: {} }, expect: { kind: "transient" } },
    { name: "200 of a page", reply: { status: 200, body: "<html>" }, expect: { kind: "transient" } },
    {
      name: "a text that is no token",
      reply: fcmRefusal(400, "INVALID_ARGUMENT", { errorCode: "INVALID_ARGUMENT" }),
      expect: { kind: "dead_token", code: "INVALID_ARGUMENT" },
    },
    {
      name: "a text that is no token, by its field",
      reply: fcmRefusal(400, "INVALID_ARGUMENT", { field: "message.token" }),
      expect: { kind: "dead_token" },
    },
    {
      name: "a wrong field, which is no dead token",
      reply: fcmRefusal(400, "INVALID_ARGUMENT", { errorCode: "INVALID_ARGUMENT", field: "message.android.ttl" }),
      expect: { kind: "bad_request", code: "INVALID_ARGUMENT" },
    },
    {
      name: "a message that is not read at all, which is no dead token",
      reply: fcmRefusal(400, "INVALID_ARGUMENT"),
      expect: { kind: "bad_request" },
    },
    {
      name: "a message that is too big",
      reply: fcmRefusal(400, "INVALID_ARGUMENT", {
        errorCode: "INVALID_ARGUMENT",
        message: "Android message is too big",
      }),
      expect: { kind: "too_big" },
    },
    {
      name: "an access token that is refused twice",
      reply: fcmRefusal(401, "UNAUTHENTICATED"),
      expect: { kind: "bad_credential", code: "UNAUTHENTICATED", message: /`service_account`/ },
      requests: 2,
    },
    {
      name: "a 401 without words, twice",
      reply: { status: 401 },
      expect: { kind: "bad_credential", code: "401" },
      requests: 2,
    },
    {
      name: "no key for Apple's service",
      reply: fcmRefusal(401, "UNAUTHENTICATED", { errorCode: "THIRD_PARTY_AUTH_ERROR" }),
      expect: { kind: "bad_credential", code: "THIRD_PARTY_AUTH_ERROR", message: /Firebase console/ },
    },
    {
      name: "a token of another project, before Google took anything",
      reply: fcmRefusal(403, "PERMISSION_DENIED", { errorCode: "SENDER_ID_MISMATCH" }),
      expect: { kind: "bad_credential", code: "SENDER_ID_MISMATCH", message: /`project_id`/ },
    },
    {
      name: "an account that may not send, which is no dead token",
      reply: fcmRefusal(403, "PERMISSION_DENIED"),
      expect: { kind: "bad_credential", code: "PERMISSION_DENIED", message: /role/ },
    },
    {
      name: "an API that is off",
      reply: fcmRefusal(403, "PERMISSION_DENIED", { reason: "SERVICE_DISABLED" }),
      expect: { kind: "bad_credential", code: "SERVICE_DISABLED", message: /enable it/ },
    },
    {
      name: "an app that was removed",
      reply: fcmRefusal(404, "NOT_FOUND", { errorCode: "UNREGISTERED" }),
      expect: { kind: "dead_token", code: "UNREGISTERED" },
    },
    {
      name: "no such project, which is no dead token",
      reply: fcmRefusal(404, "NOT_FOUND"),
      expect: { kind: "bad_credential", code: "NOT_FOUND", message: /`project_id`/ },
    },
    { name: "a 404 of a proxy", reply: { status: 404, body: "none" }, expect: { kind: "bad_request", code: "404" } },
    { name: "a 410, which Google does not document", reply: { status: 410 }, expect: { kind: "bad_request" } },
    {
      name: "a quota",
      reply: fcmRefusal(429, "RESOURCE_EXHAUSTED", { errorCode: "QUOTA_EXCEEDED" }),
      expect: { kind: "quota", code: "QUOTA_EXCEEDED" },
    },
    { name: "the project's quota", reply: fcmRefusal(429, "RESOURCE_EXHAUSTED"), expect: { kind: "quota" } },
    { name: "a 429 without words", reply: { status: 429 }, expect: { kind: "quota", code: "429" } },
    {
      name: "a fault of Google's",
      reply: fcmRefusal(500, "INTERNAL", { errorCode: "INTERNAL" }),
      expect: { kind: "transient", code: "INTERNAL" },
    },
    {
      name: "no reason",
      reply: fcmRefusal(500, "UNKNOWN", { errorCode: "UNSPECIFIED_ERROR" }),
      expect: { kind: "transient", code: "UNSPECIFIED_ERROR" },
    },
    {
      name: "a status that nobody documents, which is not passed on",
      reply: (token: string) => fcmRefusal(400, token),
      expect: { kind: "bad_request", code: "400" },
    },
    {
      name: "a status with a treacherous name",
      reply: fcmRefusal(400, "constructor"),
      expect: { kind: "bad_request" },
    },
    { name: "a gateway", reply: { status: 502 }, expect: { kind: "transient", code: "502" } },
    {
      name: "a token, quoted",
      reply: (token: string) => fcmRefusal(400, "INVALID_ARGUMENT", { message: `Invalid token ${token}` }),
      expect: { kind: "bad_request" },
    },
  ],
  checks: [
    { name: "a key that works", expect: "active" },
    {
      name: "a key that was deleted",
      arrange: ({ server }) =>
        server.answerNext({ status: 400, headers: { date: NOW }, body: { error: "invalid_grant" } }, isTokenRequest),
      expect: "failing",
      reason: /`service_account`/,
    },
    { name: "another project", record: { project_id: "another-app-1" }, expect: "failing", reason: /`project_id`/ },
    {
      name: "an account without the right",
      arrange: ({ server }) => server.answerNext(fcmRefusal(403, "PERMISSION_DENIED"), isMessage),
      expect: "failing",
      reason: /role/,
    },
    {
      name: "an API that is off",
      arrange: ({ server }) =>
        server.answerNext(fcmRefusal(403, "PERMISSION_DENIED", { reason: "SERVICE_DISABLED" }), isMessage),
      expect: "failing",
      reason: /enable it/,
    },
    {
      name: "a clock that is wrong",
      arrange: ({ server }) =>
        server.answerNext(
          { status: 400, headers: { date: "Sat, 01 Jan 2000 00:00:00 GMT" }, body: { error: "invalid_grant" } },
          isTokenRequest,
        ),
      expect: "failing",
      reason: /clock/,
    },
    {
      name: "a page of a proxy before the token service, which says nothing of the key",
      arrange: ({ server }) => server.answerNext({ status: 403, body: "<html>" }, isTokenRequest),
      expect: "readable",
    },
    ...tokenProblems.map(([error, status, reason]) => ({
      name: `no access token: ${error}`,
      arrange: ({ server }: FcmDouble) =>
        server.answerNext({ status, headers: { date: NOW }, body: { error } }, isTokenRequest),
      expect: "failing" as const,
      reason,
    })),
    {
      name: "a token service that is down",
      arrange: ({ server }) => server.answerNext({ status: 503 }, isTokenRequest),
      expect: "readable",
    },
    { name: "a quota", arrange: ({ server }) => server.answerNext({ status: 429 }, isMessage), expect: "readable" },
    { name: "an overload", arrange: ({ server }) => server.answerNext({ status: 503 }, isMessage), expect: "readable" },
  ],
};

testNotifier(under);

describe("fcm", () => {
  it("asks with data on Android, an alert on Apple's systems, and never a notification without buttons", () =>
    onNotifierStage(under, async ({ ring, double, clock }) => {
      await ring({ approval: "ask" });
      const { message, ...rest } = Object(double.server.requests.find(isMessage)?.json);
      const shown = { title: 'Zoë\'s "mesh" 🌿', body: "Allow this connection?" };
      expect(rest).toEqual({});
      expect(message).not.toHaveProperty("notification");
      expect(message).toMatchObject({
        token: TOKEN,
        data: shown,
        android: { priority: "HIGH", ttl: "43s" },
        apns: {
          headers: {
            "apns-push-type": "alert",
            "apns-priority": "10",
            "apns-expiration": String(Math.ceil((clock.nowMs() + 42_500) / 1000)),
          },
          payload: { aps: { alert: shown, category: "LEAF_ALLOW" } },
        },
        webpush: { headers: { TTL: "43", Urgency: "high" } },
      });
    }));

  it("is silent with data alone, and wakes Apple's systems in the background", () =>
    onNotifierStage(under, async ({ ring, double, request }) => {
      await ring({ approval: "silent" });
      const { message } = Object(double.server.requests.find(isMessage)?.json);
      expect(message.data).toEqual({ leafmesh: request({ approval: "silent" }).body });
      expect(message.apns).toMatchObject({
        headers: { "apns-push-type": "background", "apns-priority": "5" },
        payload: { aps: { "content-available": 1 } },
      });
    }));

  it.each([
    [GONE, "UNREGISTERED"],
    [OTHER, "SENDER_ID_MISMATCH"],
    ["bm9uZQ:APA91bNone", "INVALID_ARGUMENT"],
  ])("says that %s is dead, once Google has taken another of the record", (token, code) =>
    onNotifierStage(under, async ({ notifier, request, ring }) => {
      await ring();
      const failure = await notifier
        .ring(request({ approval: "ask" }), new Secret(token), new AbortController().signal)
        .catch((error: unknown) => error);
      expect(failure).toMatchObject({ kind: "dead_token", code });
    }),
  );

  it.each([
    ["Google's word", fcmRefusal(401, "UNAUTHENTICATED")],
    ["the status alone", { status: 401 }],
  ])("replaces an access token that is refused by %s, and rings once", (_by, refusal) =>
    onNotifierStage(under, async ({ ring, double }) => {
      double.server.answerNext(refusal, isMessage);
      await ring();
      expect(double.issued.size).toBe(2);
      expect(double.rings).toHaveLength(1);
    }),
  );

  it("asks for a token that may send messages and nothing else, and names the key that signs", () =>
    onNotifierStage(under, async ({ ring, double }) => {
      await ring();
      const form = new URLSearchParams(double.server.requests.find(isTokenRequest)?.text);
      const [header, claims] = (form.get("assertion") ?? "")
        .split(".", 2)
        .map((part) => JSON.parse(Buffer.from(part, "base64url").toString()));
      expect(header).toEqual({ alg: "RS256", typ: "JWT", kid: account.private_key_id });
      expect(claims).toMatchObject({ scope: "https://www.googleapis.com/auth/firebase.messaging" });
    }));

  it("gets its token at Google's address, whatever the key's file says", () =>
    onNotifierStage(under, async ({ ring, double }) => {
      await ring();
      expect(double.server.requests.map(({ host }) => host)).toEqual(["oauth2.googleapis.com", "fcm.googleapis.com"]);
    }));

  it("waits for at least a minute after a quota, and as long as Google says", () =>
    onNotifierStage(under, async ({ notifier, request, double }) => {
      const ring = () =>
        notifier
          .ring(request({ approval: "ask" }), new Secret(TOKEN), new AbortController().signal)
          .catch((error: unknown) => error);
      double.server.answerNext(fcmRefusal(429, "RESOURCE_EXHAUSTED"), isMessage);
      expect(await ring()).toMatchObject({ kind: "quota", retryAfterMs: 60_000 });
      double.server.answerNext(
        { ...fcmRefusal(429, "RESOURCE_EXHAUSTED"), headers: { "retry-after": "90" } },
        isMessage,
      );
      expect(await ring()).toMatchObject({ kind: "quota", retryAfterMs: 90_000 });
    }));

  it("checks with a topic that nobody has, another one every time, in a dry run", () =>
    onNotifierStage(under, async ({ notifier, double }) => {
      for (let nth = 0; nth < 2; nth++) await notifier.check(new AbortController().signal);
      const bodies = double.server.requests.filter(isMessage).map(({ json }) => Object(json));
      expect(bodies.map(({ validate_only }) => validate_only)).toEqual([true, true]);
      expect(new Set(bodies.map(({ message }) => message.topic)).size).toBe(2);
      expect(bodies.every(({ message }) => message.token === undefined)).toBe(true);
    }));
});

describe("the key's file", () => {
  const issueOf = (file: unknown): string | undefined => {
    const read = readServiceAccount(new Secret(typeof file === "string" ? file : JSON.stringify(file)));
    return "issue" in read ? read.issue : undefined;
  };
  const ec = generateKeyPairSync("ec", { namedCurve: "prime256v1" });

  it.each<[string, unknown, RegExp]>([
    ["a path", "./fcm.json", /whole JSON file/],
    ["a list", "[]", /"type": "service_account"/],
    ["a key of a person", { ...account, type: "authorized_user" }, /service_account/],
    ["one that runs a command", { ...account, type: "external_account" }, /service_account/],
    ["no e-mail", { ...account, client_email: undefined }, /client_email/],
    ["no key's id", { ...account, private_key_id: "" }, /private_key_id/],
    ["no key", { ...account, private_key: undefined }, /private_key/],
    ["half a key", { ...account, private_key: account.private_key.slice(0, 200) }, /RSA key/],
    ["a key of another kind", { ...account, private_key: pem(ec.privateKey) }, /RSA key/],
  ])("that is %s is refused, and not quoted", (_what, file, issue) => {
    expect(issueOf(file)).toMatch(issue);
    expect(issueOf(file)).not.toContain("BEGIN");
  });

  it("that is whole is taken; without a project it needs `project_id`", () => {
    const { options, validate } = fcmNotifier;
    const issues = (fields: object) => validate?.(options.parse(fields));
    expect(issues(record)).toEqual([]);
    const bare = JSON.stringify({ ...account, project_id: undefined });
    expect(issues({ service_account: bare })).toMatchObject([{ message: /project_id/ }]);
    expect(issues({ service_account: bare, project_id: PROJECT })).toEqual([]);
    for (const project_id of ["", "UPPER-CASE", "a/../b", "short"]) {
      expect(options.safeParse({ ...record, project_id }).success).toBe(false);
    }
  });
});
