import { type Clock, randomId, Secret } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import {
  type NotificationHubDouble,
  notificationHubRefusal,
  startAzureNotificationHubs,
} from "@leafmesh/testkit/notifiers";
import { type DocumentedAnswer, type NotifierUnderTest, testNotifier } from "@leafmesh/testkit/suites";
import { describe, expect, it } from "vitest";
import { azureNotificationHubsNotifier } from "./azure-notification-hubs.ts";

const HOST = "phones-of-acme.servicebus.windows.net";
const KEY = "a2V5IG9mIHRoZSBwb2xpY3kgdGhhdCBtYXkgc2VuZA==";
const POLICIES = {
  "Ring it": { key: KEY, rights: ["Send"] },
  DefaultListenSharedAccessSignature: { key: "bGlzdGVuZXJz", rights: ["Listen"] },
} as const;
const FIREBASE_TOKEN = "fMEYxz4QTk-7Q2nJ3bqv1c:APA91bHun4MxP5egoKMwt2KZFBaFUH-1RYqx";
const APPLE_TOKEN = "0123456789abcdef".repeat(4);
const INSTALLATION = "8f3a-phone.7";

const TOKENS = {
  fcmv1: FIREBASE_TOKEN,
  apple: APPLE_TOKEN,
  template: INSTALLATION,
} as const;

interface Connection {
  readonly host?: string;
  readonly policy?: string;
  readonly key?: string;
  readonly more?: string;
}

function connection({ host = HOST, policy = "Ring it", key = KEY, more = "" }: Connection = {}): string {
  return `Endpoint=sb://${host}/;SharedAccessKeyName=${policy};SharedAccessKey=${key}${more}`;
}

async function open(clock: Clock) {
  const double = await startAzureNotificationHubs(clock, {
    host: HOST,
    hub: "Phones",
    policies: POLICIES,
    installations: [INSTALLATION],
  });
  return { double, record: { connection_string: connection(), hub_name: "Phones" } };
}

const location = `https://${HOST}/Phones/messages/2-0123-5?api-version=2015-04`;

/** https://learn.microsoft.com/rest/api/notificationhubs/direct-send#response */
const answers: readonly DocumentedAnswer[] = [
  { name: "queued", reply: { status: 201, headers: { location }, body: "" }, expect: { receipt: "2-0123-5" } },
  {
    name: "not available",
    reply: notificationHubRefusal(503, "ServerBusy"),
    expect: { kind: "transient", code: "503" },
  },
  {
    name: "queued, in a tier without ids",
    reply: { status: 201, headers: { trackingid: "b6a1-0e_G1" }, body: "" },
    expect: { receipt: "b6a1-0e_G1" },
  },
  { name: "queued, by the page of sends to tags", reply: { status: 200, body: "" }, expect: { receipt: undefined } },
  {
    name: "an id that is none",
    reply: { status: 201, headers: { location: "https://x/messages/<script>", trackingid: "a b" }, body: "" },
    expect: { receipt: undefined },
  },
  {
    name: "a page that somebody else answers with",
    reply: { status: 200, body: "<h1>Sign in to the guest network</h1>" },
    expect: { kind: "transient", code: "200" },
  },
  {
    name: "an error of its own",
    reply: notificationHubRefusal(500, "Unknown error has occured"),
    expect: { kind: "transient", code: "500" },
  },
  { name: "too slow", reply: notificationHubRefusal(408, "Timeout"), expect: { kind: "transient", code: "408" } },
  { name: "a gateway", reply: { status: 502, body: "<html>" }, expect: { kind: "transient", code: "502" } },
  {
    name: "a wrong key",
    reply: notificationHubRefusal(401, "InvalidSignature: The token has an invalid signature."),
    expect: { kind: "bad_credential", code: "InvalidSignature", message: /connection_string/ },
  },
  {
    name: "a wrong key, as it used to be worded",
    reply: notificationHubRefusal(401, "40103: Invalid authorization token signature"),
    expect: { kind: "bad_credential", code: "InvalidSignature" },
  },
  {
    name: "a clock that is behind",
    reply: notificationHubRefusal(401, "ExpiredToken: "),
    expect: { kind: "bad_credential", code: "ExpiredToken", message: /clock/ },
  },
  {
    name: "a key of elsewhere",
    reply: notificationHubRefusal(
      401,
      "InvalidAudience: The authorization header contains a token with a wrong audience.",
    ),
    expect: { kind: "bad_credential", code: "InvalidAudience", message: /hub_name/ },
  },
  {
    name: "a policy without the right",
    reply: notificationHubRefusal(401, "Unauthorized"),
    expect: { kind: "bad_credential", code: "401", message: /right Send/ },
  },
  {
    name: "no such hub",
    reply: notificationHubRefusal(404, "NotFound"),
    expect: { kind: "bad_credential", code: "404", message: /hub_name/ },
  },
  {
    name: "a hub without credentials of Firebase",
    reply: notificationHubRefusal(
      400,
      "The notification has no target applications. The notification format is gcm. Review the credentials specified " +
        "in the notification hub description and the notification format.",
    ),
    expect: { kind: "bad_credential", code: "no_target_applications", message: /payload_format/ },
  },
  {
    name: "a push token that it quotes",
    reply: (token) => notificationHubRefusal(400, `The device handle '${token}' is invalid`),
    expect: { kind: "bad_request", code: "400" },
  },
  {
    name: "a used-up quota",
    reply: notificationHubRefusal(403, "QuotaExceeded"),
    expect: { kind: "quota", code: "403" },
  },
  {
    name: "a tier that is too low",
    reply: notificationHubRefusal(403, "This operation is not available for your tier"),
    expect: { kind: "quota", code: "tier", message: /pricing tier/ },
  },
  {
    name: "too large, as a quota",
    reply: notificationHubRefusal(403, "The message is too large"),
    expect: { kind: "too_big", code: "403" },
  },
  {
    name: "too large",
    reply: notificationHubRefusal(413, "RequestEntityTooLarge"),
    expect: { kind: "too_big", code: "413" },
  },
  { name: "a rate", reply: notificationHubRefusal(429, "TooManyRequests"), expect: { kind: "quota", code: "429" } },
  // Documented for registrations alone: for a ring it is no word about the device.
  { name: "gone", reply: notificationHubRefusal(410, "Gone"), expect: { kind: "bad_request", code: "410" } },
];

const refuseProbe = (status: number, detail: string) => ({
  arrange: ({ server }: NotificationHubDouble) => server.answerNext(notificationHubRefusal(status, detail)),
});

const checks: NotifierUnderTest<NotificationHubDouble>["checks"] = [
  { name: "a policy that may send", expect: "active" },
  {
    name: "a policy that may not",
    record: { connection_string: connection({ policy: "DefaultListenSharedAccessSignature", key: "bGlzdGVuZXJz" }) },
    expect: "failing",
    reason: /right Send/,
  },
  {
    name: "another key",
    record: { connection_string: connection({ key: "YW5vdGhlcg==" }) },
    expect: "failing",
    reason: /copy it from the portal/,
  },
  { name: "another hub", record: { hub_name: "Tablets" }, expect: "failing", reason: /no hub of this hub_name/ },
  { name: "a used-up quota", ...refuseProbe(403, "QuotaExceeded"), expect: "failing", reason: /quota/ },
  { name: "a rate", ...refuseProbe(429, "TooManyRequests"), expect: "readable" },
  { name: "a hub that is down", ...refuseProbe(503, "ServerBusy"), expect: "readable" },
];

const shared = { definition: azureNotificationHubsNotifier, shows: { ask: true, silent: false } };
const wrong = ["$InstallationId:{phone-7}", "phone-7||phone-8", "!phone-7", "phone-7\r\nx-evil: 1", "x".repeat(4097)];

testNotifier<NotificationHubDouble>({
  ...shared,
  open,
  tokens: { valid: FIREBASE_TOKEN, wrong, secretParts: [KEY] },
  answers,
  checks,
});

describe.each(["apple", "template"] as const)("with the payload format %s", (payload_format) => {
  testNotifier<NotificationHubDouble>({
    ...shared,
    async open(clock) {
      const { double, record } = await open(clock);
      return { double, record: { ...record, payload_format } };
    },
    tokens: { valid: TOKENS[payload_format], wrong: [], secretParts: [KEY] },
    answers: answers.slice(0, 2),
    checks: [
      { name: "a policy that may send", expect: "active" },
      { name: "a hub that is down", ...refuseProbe(503, "ServerBusy"), expect: "readable" },
    ],
  });
});

const parse = (record: object) => azureNotificationHubsNotifier.options.parse(record);
const issuesOf = (connection_string: string, hub_name = "Phones") =>
  azureNotificationHubsNotifier.validate?.(parse({ connection_string, hub_name }));

describe("the connection string", () => {
  it.each([
    ["of the portal", connection()],
    [
      "with a port, in another case, and with its hub",
      connection({ host: `${HOST.toUpperCase()}:443`, more: ";EntityPath=Phones" }),
    ],
    [
      "of another cloud, with spaces around it",
      ` ${connection({ host: "acme-phones.servicebus.usgovcloudapi.net" })};\n`,
    ],
  ])("is taken: %s", (_name, text) => expect(issuesOf(text)).toEqual([]));

  it.each([
    ["nothing of the kind", "my hub", /^part 1 is not Name=value/],
    ["without a key", `Endpoint=sb://${HOST}/;SharedAccessKeyName=Ring`, /^has no SharedAccessKey;/],
    ["with a key alone", "SharedAccessKey=c2VjcmV0", /^has no Endpoint and no SharedAccessKeyName;/],
    ["with a part twice", connection({ more: ";SharedAccessKey=c2VjcmV0" }), /^has SharedAccessKey twice/],
    ["of another hub", connection({ more: ";EntityPath=Tablets" }), /^is of another hub/],
    ["that leads elsewhere", connection({ host: "servicebus.windows.net.evil.example" }), /must have an Endpoint/],
    ["that leads into the network", connection({ host: "169.254.169.254" }), /must have an Endpoint/],
    ["with a user in its address", connection({ host: `x@${HOST}` }), /must have an Endpoint/],
    ["with a path in its address", connection({ host: `${HOST}/elsewhere` }), /must have an Endpoint/],
  ])("is refused, without being repeated: %s", (_name, text, message) => {
    const [issue, ...more] = issuesOf(text) ?? [];
    expect(more).toEqual([]);
    expect(issue).toEqual({ path: ["connection_string"], message: expect.stringMatching(message) });
    expect(issue?.message).not.toMatch(/c2VjcmV0|evil|169/);
  });
});

describe("what a hub is sent", () => {
  const act = async (record: object, to: string, approval: "ask" | "silent" = "ask") => {
    const clock = createFakeClock();
    const opened = await open(clock);
    const fields = parse({ ...opened.record, ...record });
    const notifier = azureNotificationHubsNotifier.create(fields, {
      clock,
      logger: { debug() {}, info() {}, warn() {}, error() {} },
      newId: randomId,
      scope: { share: (_key, make) => make() },
      network: opened.double.server.network,
    });
    const ring = { v: 1, ask: "ask_1", device: "phone-7", approval, iat: 1, exp: 2, mesh: "Home" } as const;
    const join = { provider: "leafmesh", room: "room-1" };
    const request = { ring: { ...ring, join }, body: "{}", collapseKey: "ask_1", ttlMs: 1, approval };
    try {
      const failure = await notifier.ring(request, new Secret(to), new AbortController().signal).then(
        () => undefined,
        (error: unknown) => error,
      );
      return { failure, requests: opened.double.server.requests };
    } finally {
      await notifier.close();
      await opened.double.close();
    }
  };

  it("is signed for this hub alone, for five minutes", async () => {
    const { requests } = await act({}, FIREBASE_TOKEN);
    const [request] = requests;
    expect(request?.target).toBe("/Phones/messages/?direct&api-version=2015-04");
    const fields = new URLSearchParams(request?.headers.authorization?.replace("SharedAccessSignature ", ""));
    expect(fields.get("sr")).toBe(`https://${HOST}/phones`);
    expect(fields.get("se")).toBe("1800000300");
    expect(fields.get("skn")).toBe("Ring it");
  });

  it("carries data alone to Firebase, and what the app is to ask", async () => {
    const { requests } = await act({}, FIREBASE_TOKEN);
    expect(requests[0]?.json).toEqual({
      message: {
        data: { leafmesh: "{}", title: "Home", body: "Allow this connection?" },
        android: { priority: "high", ttl: "1s", collapse_key: "ask_1" },
      },
    });
    const silent = await act({}, FIREBASE_TOKEN, "silent");
    expect(silent.requests[0]?.json).toHaveProperty("message.data", { leafmesh: "{}" });
  });

  it("wakes Apple's devices in the background, and asks with Allow and Deny", async () => {
    const silent = await act({ payload_format: "apple" }, APPLE_TOKEN, "silent");
    expect(silent.requests[0]?.json).toEqual({ aps: { "content-available": 1 }, leafmesh: "{}" });
    expect(silent.requests[0]?.headers).toMatchObject({ "apns-push-type": "background", "apns-priority": "5" });
    const { requests } = await act({ payload_format: "apple" }, APPLE_TOKEN);
    expect(requests[0]?.json).toMatchObject({ aps: { category: "LEAF_ALLOW", alert: { title: "Home" } } });
    expect(requests[0]?.headers).toMatchObject({ "apns-push-type": "alert", "apns-expiration": "1800000001" });
  });

  it("names one installation, and never all", async () => {
    const { requests } = await act({ payload_format: "template" }, INSTALLATION);
    expect(requests[0]?.target).toBe("/Phones/messages/?api-version=2015-04");
    expect(requests[0]?.headers).toMatchObject({ "servicebusnotification-tags": `$InstallationId:{${INSTALLATION}}` });
  });

  it.each([
    ["fcmv1", INSTALLATION],
    ["apple", FIREBASE_TOKEN],
    ["apple", APPLE_TOKEN.slice(1)],
    ["template", FIREBASE_TOKEN.repeat(3)],
  ] as const)("is nothing when the push token is none of %s", async (payload_format, to) => {
    const { failure, requests } = await act({ payload_format }, to);
    expect(failure).toMatchObject({ kind: "bad_request", message: expect.stringContaining(payload_format) });
    expect(requests).toEqual([]);
  });
});
