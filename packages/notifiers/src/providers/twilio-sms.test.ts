/** `twilio_sms` against a double of Twilio's Messages API, every code of its dictionary that a text can meet included. */
import { randomId, Secret, silentLogger, systemClock } from "@leafmesh/protocol";
import { startTwilioSms, type TwilioAccount, type TwilioSmsDouble } from "@leafmesh/testkit/notifiers";
import { type DocumentedAnswer, testNotifier } from "@leafmesh/testkit/suites";
import { describe, expect, it } from "vitest";
import type { RingErrorKind, RingRequest } from "../contract.ts";
import { twilioSmsNotifier } from "./twilio-sms.ts";
import { KNOWN_CODES } from "./twilio-sms-answers.ts";
import { createTextLimit } from "./twilio-sms-limit.ts";

const HEX = "0123456789abcdef0123456789abcdef";
const SID = `AC${HEX}`;
const KEY = { sid: `SK${HEX}`, secret: "the-secret-of-the-key" };
const SERVICE = `MG${HEX}`;
const TO = "+15558675310";
const ACCOUNT: TwilioAccount = {
  sid: SID,
  authToken: "auth-token-of-the-account",
  keys: [
    KEY,
    { sid: `SK${HEX.replaceAll("0", "1")}`, secret: "may-only-send", may: ["create_messages"] },
    { sid: `SK${HEX.replaceAll("0", "2")}`, secret: "may-read-too", may: ["create_messages", "list_messages"] },
  ],
  numbers: ["+15005550006"],
  otherSenders: [SERVICE, "LeafMesh"],
};
const RECORD = { account_sid: SID, from: "+15005550006", link: "mesh", auth_token: ACCOUNT.authToken };

/** Code by code, with the status that Twilio sends it with. */
const DOCUMENTED: Readonly<Record<RingErrorKind, Readonly<Record<number, readonly number[]>>>> = {
  dead_token: { 400: [21211, 21214, 21217, 21265, 21401, 21604, 21610, 21614, 21635, 30005, 30006] },
  offline: { 400: [30003, 30036] },
  bad_credential: {
    400: [
      20006, 21212, 21219, 21267, 21601, 21603, 21606, 21607, 21608, 21612, 21616, 21659, 21660, 21661, 21701, 21702,
      21703, 21704, 21705, 30004, 30007, 30018, 30024, 30032, 30034, 30035, 30450, 60410,
    ],
    401: [20003, 70051],
    403: [10001, 10002, 20005, 20008, 20010, 20403, 21408, 30002],
    404: [20404],
  },
  quota: { 400: [14107, 21611, 30001, 30022, 30023, 30027, 63038], 429: [20429] },
  transient: { 400: [30008, 30017, 30410], 500: [20500], 503: [20503] },
  bad_request: { 400: [20001, 20422, 21266, 21602, 21609, 21620] },
  too_big: { 400: [21605, 21617, 30019] },
};

const answers: readonly DocumentedAnswer[] = [
  { name: "taken", reply: { status: 201, body: taken({}) }, expect: { receipt: `SM${HEX}` } },
  {
    name: "overload",
    reply: documented(503, 20503),
    expect: { kind: "transient", code: "20503", message: /did not take/ },
  },
  ...Object.entries(DOCUMENTED).flatMap(([kind, byStatus]) =>
    Object.entries(byStatus).flatMap(([status, codes]) =>
      codes.map((code) => ({
        name: `${code} (${status})`,
        reply: documented(Number(status), code),
        expect: { kind: kind as RingErrorKind, code: String(code) },
      })),
    ),
  ),
  {
    name: "a message that was made and will not be sent: opted out",
    reply: { status: 201, body: taken({ status: "failed", error_code: 21610 }) },
    expect: { kind: "dead_token", code: "21610", message: /START/ },
  },
  {
    name: "a message that was made and will not be sent: a code that nobody knows",
    reply: { status: 201, body: taken({ status: "failed", error_code: 39999 }) },
    expect: { kind: "bad_request", code: "39999" },
  },
  { name: "200 and no message", reply: { status: 200, body: taken({}) }, expect: { kind: "transient" } },
  { name: "201 without a sid", reply: { status: 201, body: { status: "queued" } }, expect: { kind: "transient" } },
  { name: "a code that nobody knows", reply: documented(400, 29999), expect: { kind: "bad_request", code: "29999" } },
  { name: "401 without a code", reply: { status: 401 }, expect: { kind: "bad_credential", code: "401" } },
  { name: "429 without a code", reply: { status: 429, body: "slow down" }, expect: { kind: "quota", code: "429" } },
];

function documented(status: number, code: number) {
  return (pushToken: string) => ({
    status,
    body: { code, message: `Something about ${pushToken}.`, more_info: "https://www.twilio.com/docs/errors", status },
  });
}

function taken(changes: object): object {
  return { sid: `SM${HEX}`, status: "queued", error_code: null, error_message: null, ...changes };
}

testNotifier<TwilioSmsDouble>({
  definition: twilioSmsNotifier,
  open: async () => ({ double: await startTwilioSms(ACCOUNT), record: RECORD }),
  tokens: {
    valid: TO,
    wrong: [
      "15558675310",
      "+05558675310",
      "+1555867531012345",
      "+1 555 867 5310",
      "whatsapp:+15558675310",
      `${TO}\n`,
      "12345",
    ],
    secretParts: [TO.slice(1), encodeURIComponent(TO)],
  },
  shows: { ask: true, silent: true },
  repeatsAreHarmless: false,
  answers,
  checks: [
    { name: "the auth token", expect: "active" },
    {
      name: "another auth token",
      record: { auth_token: "another-auth-token" },
      expect: "failing",
      reason: /auth_token/,
    },
    { name: "another account", record: { account_sid: `AC${HEX.replace("0", "9")}` }, expect: "failing" },
    {
      name: "a suspended account",
      arrange: ({ server }) => server.answerNext({ status: 200, body: { status: "suspended", auth_token: "x" } }),
      expect: "failing",
      reason: /not active/,
    },
    { name: "a standard key", record: asKey(0), expect: "active" },
    { name: "a key with another secret", record: { ...asKey(0), api_key_secret: "guessed-secret" }, expect: "failing" },
    { name: "a key that may only send", record: asKey(1), expect: "readable", reason: /proves nothing/ },
    { name: "a key that may not read numbers", record: asKey(2), expect: "active" },
    {
      name: "a sender that is not the account's",
      record: { from: "+15005550001" },
      expect: "readable",
      reason: /`from` is not among/,
    },
    { name: "a messaging service", record: { from: SERVICE }, expect: "active" },
    {
      name: "too many requests",
      arrange: ({ server }) => server.answerNext(documented(429, 20429)("nobody")),
      expect: "readable",
    },
  ],
});

/** The fields of a record that uses the account's key of this place. */
function asKey(place: number) {
  const { sid, secret } = ACCOUNT.keys?.[place] ?? KEY;
  return { auth_token: undefined, api_key_sid: sid, api_key_secret: secret };
}

it("has every code of its table in this test", () => {
  const listed = Object.values(DOCUMENTED).flatMap((byStatus) => Object.values(byStatus).flat());
  expect([...KNOWN_CODES].sort()).toEqual([...new Set(listed)].sort());
});

describe("what Twilio is sent", () => {
  it.each([
    { name: "from a number, with the auth token", record: RECORD, sender: { From: "+15005550006" } },
    {
      name: "from a service, with a key",
      record: { ...RECORD, ...asKey(0), from: SERVICE },
      sender: { MessagingServiceSid: SERVICE },
    },
    {
      name: "from a name, with a key that may only send",
      record: { ...RECORD, ...asKey(1), from: "LeafMesh" },
      sender: { From: "LeafMesh" },
    },
  ])("is one form: $name", async ({ record, sender }) => {
    const { requests } = await send(record, { ttlMs: 60_900 });
    expect(requests).toHaveLength(1);
    expect(requests[0]).toMatchObject({ method: "POST", path: `/2010-04-01/Accounts/${SID}/Messages.json` });
    expect(requests[0]?.text).toContain("To=%2B15558675310&");
    expect(Object.fromEntries(new URLSearchParams(requests[0]?.text))).toEqual({
      To: TO,
      ...sender,
      Body: "phone-support: A request for this phone is waiting. Allow or refuse it within 60 s: https://mesh.example.com/j/CODE",
      ValidityPeriod: "61",
    });
  });

  it("begins with the name of the mesh where that is plain and fits, and is one segment", async () => {
    const bodies: (string | undefined)[] = [];
    for (const mesh of ["Smith & Sons", "Zoë's 🌿", "x".repeat(64), undefined]) {
      const { texts } = await send({ ...RECORD, link: `https://${"g".repeat(56)}.de/` }, { mesh, ttlMs: 300_000 });
      expect(texts[0]?.segments).toBe(1);
      bodies.push(texts[0]?.body.split(" A request")[0]?.slice(0, 20));
    }
    expect(bodies).toEqual(["Smith & Sons:", "A request for this p", "A request for this p", "A request for this p"]);
  });

  it("keeps within the validity that Twilio takes", async () => {
    for (const [ttlMs, seconds] of [
      [0, "1"],
      [100_000_000, "36000"],
    ] as const) {
      const { requests } = await send(RECORD, { ttlMs });
      expect(new URLSearchParams(requests[0]?.text).get("ValidityPeriod")).toBe(seconds);
    }
  });
});

describe("the texts to one number", () => {
  it("end at 20 an hour, whatever the agent asks for, and other numbers still get theirs", () => {
    let nowMs = 5_000_000;
    const limit = createTextLimit({ monotonicMs: () => nowMs });
    const [one, other] = [new Secret(TO), new Secret("+15558675311")];
    for (let nth = 0; nth < 20; nth++) {
      limit.count(one);
      nowMs += 60_000;
    }
    const refused = { kind: "quota", code: "text_limit", retryAfterMs: 40 * 60_000 };
    expect(() => limit.count(one)).toThrow(expect.objectContaining(refused));
    limit.count(other);
    nowMs += refused.retryAfterMs;
    limit.count(one);
    expect(() => limit.count(one)).toThrow(expect.objectContaining({ kind: "quota", retryAfterMs: 60_000 }));
  });
});

describe("a record", () => {
  const issuesOf = (changes: object, publicUrl: string | undefined = "https://mesh.example.com") => {
    const parsed = twilioSmsNotifier.options.safeParse({ ...RECORD, ...changes });
    if (!parsed.success) return parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
    const issues = twilioSmsNotifier.validate?.(parsed.data, { publicUrl }) ?? [];
    return issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
  };

  it.each([
    ["the auth token", {}],
    ["an API key", asKey(0)],
    ["a page of the operator's", { link: "https://go.example.com/ask" }],
    ["the mesh's page by its address", { link: "https://mesh.example.com/j/" }],
    ["a short code", { from: "12345" }],
    ["a name", { from: "My Shop 24" }],
  ])("is good with %s", (_name, changes) => expect(issuesOf(changes)).toEqual([]));

  it.each([
    ["neither credential", { auth_token: undefined }, [": needs auth_token, or api_key_sid and api_key_secret"]],
    [
      "both credentials",
      { api_key_sid: KEY.sid, api_key_secret: "s" },
      ["api_key_sid: has no place beside auth_token: use the auth token or the API key, and remove the other"],
    ],
    ["half a key", { auth_token: undefined, api_key_sid: KEY.sid }, ["api_key_secret: is needed with api_key_sid"]],
    ["the other half", { auth_token: undefined, api_key_secret: "s" }, ["api_key_sid: is needed with api_key_secret"]],
    [
      "a secret beside the auth token",
      { api_key_secret: "s" },
      ["api_key_secret: has no place beside auth_token: use the auth token or the API key, and remove the other"],
    ],
    [
      "a number that YAML read as one",
      { from: 15005550006 },
      ["from: must be a text, and YAML reads a bare phone number as a number"],
    ],
  ])("with %s says what to do", (_name, changes, issues) => expect(issuesOf(changes)).toEqual(issues));

  it.each([
    ["no link", undefined, /^link: /],
    ["a link without TLS", "http://go.example.com", /must start with https/],
    ["a link with a query", "https://go.example.com/?c=", /letters, digits/],
    ["a link beside the mesh's page", "https://mesh.example.com/", /^link: leads to this mesh.*write mesh$/],
    ["a word", "mash", /^link: must be an address such as .*write mesh/],
  ])("is refused with %s", (_name, link, message) =>
    expect(issuesOf({ link })).toEqual([expect.stringMatching(message)]),
  );

  it("needs LeafMesh rooms and the mesh's public address for the mesh's own page, and only for that", () => {
    const roomsOf = (...roomProviders: readonly string[]) =>
      twilioSmsNotifier.validate?.(twilioSmsNotifier.options.parse(RECORD), {
        publicUrl: "https://mesh.example.com",
        roomProviders,
      });
    expect(roomsOf("leafmesh", "room")).toEqual([]);
    expect(roomsOf("leafmesh", "ably")).toMatchObject([
      { path: ["link"], message: expect.stringMatching(/room of ably/) },
    ]);
    const validate = (link: string, publicUrl?: string) =>
      twilioSmsNotifier.validate?.(twilioSmsNotifier.options.parse({ ...RECORD, link }), { publicUrl });
    expect(validate("mesh")).toMatchObject([
      { path: ["link"], message: expect.stringMatching(/needs server\.public_url/) },
    ]);
    expect(validate("mesh", "http://mesh.example.com")).toMatchObject([{ message: expect.stringMatching(/https/) }]);
    expect(validate("https://go.example.com")).toEqual([]);
  });

  it.each(["+1", "a name that is too long", " name", "15005550006", "shop!"])("does not take %j as a sender", (from) =>
    expect(issuesOf({ from })).toEqual([expect.stringMatching(/^from: must be a phone number/)]),
  );
});

/** One text, with a link whose code is CODE. */
async function send(record: object, { ttlMs, ...named }: { mesh?: string | undefined; ttlMs: number }) {
  const double = await startTwilioSms(ACCOUNT);
  const notifier = twilioSmsNotifier.create(twilioSmsNotifier.options.parse(record), {
    clock: systemClock,
    logger: silentLogger,
    newId: randomId,
    scope: { share: (_key, make) => make() },
    publicUrl: "https://mesh.example.com",
    links: { keep: () => "CODE" },
    network: double.server.network,
  });
  const request = {
    ring: { mesh: "phone-support", ...named },
    body: "{}",
    collapseKey: "ask_1",
    ttlMs,
    approval: "ask",
  } as unknown as RingRequest;
  try {
    await notifier.ring(request, new Secret(TO), new AbortController().signal);
    return { requests: double.server.requests, texts: double.texts };
  } finally {
    await notifier.close();
    await double.close();
  }
}
