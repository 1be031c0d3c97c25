import { type Clock, randomId, Secret } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { iotHubRefusal, namedIotHubRefusal, startAzureIotHub, type VendorReply } from "@leafmesh/testkit/notifiers";
import { type DocumentedAnswer, type NotifierDouble, testNotifier } from "@leafmesh/testkit/suites";
import { describe, expect, it } from "vitest";
import { RingError, type RingErrorKind } from "../contract.ts";
import { azureIotHubNotifier } from "./azure-iot-hub.ts";

const HOST = "things-of-acme.azure-devices.net";
const KEY = "a2V5IG9mIHRoZSBwb2xpY3kgdGhhdCBtYXkgY2FsbCE=";
const OTHER_KEY = "a2V5IG9mIHRoZSBwb2xpY3kgdGhhdCBtYXkgcmVhZCE=";
const POLICIES = {
  service: { key: KEY, rights: ["ServiceConnect"] },
  registryRead: { key: OTHER_KEY, rights: ["RegistryRead"] },
} as const;
/** With every character that would mean something in an address. */
const DEVICE = "kiosk.7-%2f#a?b=c@d:e$f'g!(h),i*j+k";
const DEVICES = {
  [DEVICE]: 200,
  accepting: 202,
  unlistened: 501,
  mute: "mute",
  elsewhere: "no_handler",
  off: "offline",
  disabled: "disabled",
} as const;

interface Connection {
  readonly host?: string;
  readonly policy?: string;
  readonly key?: string;
}

function connection({ host = HOST, policy = "service", key = KEY }: Connection = {}): string {
  return `HostName=${host};SharedAccessKeyName=${policy};SharedAccessKey=${key}`;
}

async function open(clock: Clock) {
  const double = await startAzureIotHub(clock, { host: HOST, policies: POLICIES, devices: DEVICES });
  return { double, record: { connection_string: connection() } };
}

const codes = (kind: RingErrorKind, ...all: readonly number[]): readonly DocumentedAnswer[] =>
  all.map((code) => ({
    name: `${code}`,
    reply: iotHubRefusal(Math.floor(code / 1000), code, "The sentence of the hub."),
    expect: { kind, code: String(code) },
  }));

/** The same, of hubs that name their errors. */
const named = (kind: RingErrorKind, status: number, name: string, code: string): DocumentedAnswer => ({
  name: `${status} ${name}`,
  reply: namedIotHubRefusal(status, name, "The sentence of the hub."),
  expect: { kind, code },
});

/** https://learn.microsoft.com/azure/iot-hub/troubleshoot-error-codes */
const answers: readonly DocumentedAnswer[] = [
  { name: "answered by the device", reply: { status: 200, body: { status: 200 } }, expect: { receipt: undefined } },
  {
    name: "answered by a device that says more",
    reply: { status: 200, body: { status: 204, payload: { status: 500, text: "x".repeat(1000) } } },
    expect: { receipt: undefined },
  },
  {
    name: "rung, and no answer in time",
    reply: iotHubRefusal(504, 504101, "Timed out waiting for the response from device."),
    expect: { receipt: undefined },
  },
  { name: "the same, by name", reply: namedIotHubRefusal(504, "GatewayTimeout", ""), expect: { receipt: undefined } },
  ...codes("transient", 503001, 400021, 400024, 400027, 400029, 400030, 404012, 499000, 500001, 500008, 502000),
  ...codes("transient", 503000, 503004, 503005, 503006, 503008, 503101, 504000),
  { name: "a gateway that is not the hub", reply: { status: 504, body: "<html>" }, expect: { kind: "transient" } },
  { name: "an error without a code", reply: { status: 500, body: {} }, expect: { kind: "transient", code: "500" } },
  { name: "too slow", reply: { status: 408, body: "" }, expect: { kind: "transient", code: "408" } },
  ...codes("dead_token", 404001),
  named("dead_token", 404, "DeviceNotFound", "404001"),
  ...codes("offline", 404103, 404102, 404104, 503102, 403012),
  named("offline", 404, "DeviceNotOnline", "404103"),
  {
    name: "offline, under a header that says less",
    reply: { ...iotHubRefusal(404, 404103, "Timed out."), headers: { "iothub-errorcode": "DeviceNotFound" } },
    expect: { kind: "offline", code: "404103" },
  },
  {
    name: "a code in the header",
    reply: { status: 404, headers: { "iothub-errorcode": "404103" }, body: "" },
    expect: { kind: "offline", code: "404103" },
  },
  {
    name: "a name in the text alone",
    reply: { status: 404, body: { Message: `ErrorCode:DeviceNotFound;Device ${DEVICE} not registered` } },
    expect: { kind: "dead_token", code: "404001" },
  },
  // Of another service, of a path that the hub does not know, of a module: none says that the device is gone.
  { name: "a bare 404", reply: { status: 404, body: "Not Found" }, expect: { kind: "bad_request", code: "404" } },
  {
    name: "no such thing",
    reply: iotHubRefusal(404, 404000, "NotFound"),
    expect: { kind: "bad_request", code: "404" },
  },
  {
    name: "no such module",
    reply: iotHubRefusal(404, 404010, "NotFound"),
    expect: { kind: "bad_request", code: "404" },
  },
  ...codes("bad_credential", 401000, 401001, 401002, 401003, 400035, 403000, 403001, 403010, 403011, 404013),
  {
    name: "a key or a right that is wrong",
    reply: namedIotHubRefusal(401, "IotHubUnauthorizedAccess", "Unauthorized"),
    expect: { kind: "bad_credential", code: "401002", message: /ServiceConnect/ },
  },
  {
    name: "the basic tier",
    reply: iotHubRefusal(403, 403010, "Operation not available"),
    expect: { kind: "bad_credential", message: /tier/ },
  },
  { name: "a bare 403", reply: { status: 403, body: "" }, expect: { kind: "bad_credential", code: "403" } },
  ...codes("quota", 403002, 403800, 429000, 429001, 429002, 429003, 429005),
  { name: "a bare 429", reply: { status: 429, body: "" }, expect: { kind: "quota", code: "429" } },
  ...codes("bad_request", 400004, 400006, 400012, 400103, 405000, 415000),
  ...codes("too_big", 413000, 413001),
  {
    name: "a device that has no such method",
    reply: { status: 200, body: { status: 501, payload: null } },
    expect: { kind: "bad_request", code: "device_status", message: /status 501/ },
  },
  {
    name: "a status that is none",
    reply: { status: 200, body: { status: "200", payload: null } },
    expect: { kind: "transient", code: "200" },
  },
];

const refuse = (reply: VendorReply) => ({ arrange: ({ server }: NotifierDouble) => server.answerNext(reply) });

testNotifier<NotifierDouble>({
  definition: azureIotHubNotifier,
  open,
  tokens: {
    valid: DEVICE,
    wrong: ["..", ".", "kiosk/7", "kiosk|7", "kiosk 7", "kiösk", "k".repeat(129), "kiosk\r\n"],
    secretParts: [KEY],
  },
  shows: { ask: false, silent: false },
  // Three seconds to come back where there is the time, and five to answer.
  ttlSeconds: (ttlMs) => (ttlMs > 10_000 ? 8 : 5),
  answers,
  checks: [
    { name: "a policy that may call devices", expect: "active" },
    {
      name: "a policy that may not",
      record: { connection_string: connection({ policy: "registryRead", key: OTHER_KEY }) },
      expect: "failing",
      reason: /ServiceConnect/,
    },
    {
      name: "another key",
      record: { connection_string: connection({ key: OTHER_KEY }) },
      expect: "failing",
      reason: /connection_string/,
    },
    { name: "the basic tier", ...refuse(iotHubRefusal(403, 403010, "")), expect: "failing", reason: /tier/ },
    { name: "a day that is used up", ...refuse(iotHubRefusal(403, 403002, "")), expect: "readable", reason: /UTC/ },
    { name: "a rate", ...refuse(iotHubRefusal(429, 429001, "")), expect: "readable" },
    { name: "a hub that is down", ...refuse(iotHubRefusal(503, 503001, "")), expect: "readable" },
    { name: "a page of somebody else", ...refuse({ status: 404, body: "<html>" }), expect: "readable" },
    { name: "a device that cannot be", ...refuse({ status: 200, body: { status: 200 } }), expect: "readable" },
  ],
});

const issuesOf = (connection_string: string) =>
  azureIotHubNotifier.validate?.(azureIotHubNotifier.options.parse({ connection_string }));

describe("the connection string", () => {
  it.each([
    ["of the portal", connection()],
    ["of the hub's host for services", connection({ host: "Things-of-ACME.service.azure-devices.net" })],
    ["of another cloud", `${connection({ host: "things.azure-devices.cn" })};\n`],
  ])("is taken: %s", (_name, text) => expect(issuesOf(text)).toEqual([]));

  it.each([
    ["of a device", `HostName=${HOST};DeviceId=kiosk-7;SharedAccessKey=${KEY}`, /^is that of a device/],
    ["of the hub's events", "Endpoint=sb://x.servicebus.windows.net/;EntityPath=x", /^has no HostName and no/],
    ["without a key", `HostName=${HOST};SharedAccessKeyName=service`, /^has no SharedAccessKey;/],
    ["with half a key", connection({ key: KEY.slice(0, 30) }), /not base64/],
    ["that leads elsewhere", connection({ host: "azure-devices.net.evil.example" }), /must have a HostName/],
    ["that leads to another port", connection({ host: `${HOST}:8443` }), /must have a HostName/],
    ["that leads into the network", connection({ host: "10.0.0.7" }), /must have a HostName/],
  ])("is refused, without being repeated: %s", (_name, text, message) => {
    const issues = issuesOf(text);
    expect(issues).toEqual([{ path: ["connection_string"], message: expect.stringMatching(message) }]);
    expect(JSON.stringify(issues)).not.toMatch(/evil|8443|a2V5/);
  });
});

describe("a device", () => {
  const ringing = async (id: string, ttlMs = 40_000) => {
    const clock = createFakeClock();
    const { double, record } = await open(clock);
    const notifier = azureIotHubNotifier.create(azureIotHubNotifier.options.parse(record), {
      clock,
      logger: { debug() {}, info() {}, warn() {}, error() {} },
      newId: randomId,
      scope: { share: (_key, make) => make() },
      network: double.server.network,
    });
    const ring = { v: 1, ask: "ask_1", device: "phone-7", approval: "ask", iat: 1, exp: 2 } as const;
    const request = {
      ring: { ...ring, join: { provider: "leafmesh", room: "room-1" } },
      body: "{}",
      collapseKey: "ask_1",
      ttlMs,
      approval: "ask",
    } as const;
    try {
      const outcome = await notifier.ring(request, new Secret(id), new AbortController().signal).then(
        () => "rung",
        (error: unknown) => (error instanceof RingError ? `${error.kind} ${error.code}` : error),
      );
      return { outcome, rings: double.rings.length, requests: double.server.requests };
    } finally {
      await notifier.close();
      await double.close();
    }
  };

  it.each([
    ["accepting", "rung", 1],
    ["mute", "rung", 1],
    ["unlistened", "bad_request device_status", 1],
    ["elsewhere", "offline 404103", 0],
    ["off", "offline 404103", 0],
    ["disabled", "offline 403012", 0],
    ["unregistered", "dead_token 404001", 0],
  ])("that is %s is %s", async (id, outcome, rings) => {
    expect(await ringing(id)).toMatchObject({ outcome, rings });
  });

  it.each([
    [40_000, 3],
    [9_600, 3],
    [8_000, 1],
    [6_000, 0],
    [1, 0],
  ])("has, with %i ms left, %i s to come back", async (ttlMs, connectTimeoutInSeconds) => {
    const { requests } = await ringing("accepting", ttlMs);
    expect(requests[0]?.json).toEqual({
      methodName: "leafmesh_connect",
      payload: { leafmesh: "{}" },
      responseTimeoutInSeconds: 5,
      connectTimeoutInSeconds,
    });
  });

  it("is called with a signature for the hub, good for five minutes", async () => {
    const { requests } = await ringing(DEVICE);
    expect(requests[0]?.target).toBe(`/twins/${encodeURIComponent(DEVICE)}/methods?api-version=2021-04-12`);
    const fields = new URLSearchParams(requests[0]?.headers.authorization?.replace("SharedAccessSignature ", ""));
    expect([fields.get("sr"), fields.get("se"), fields.get("skn")]).toEqual([HOST, "1800000300", "service"]);
  });
});
