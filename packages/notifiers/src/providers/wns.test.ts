/** Against a played Entra and a played Windows, which checks every header and reads the toast. */
import { type Clock, Secret } from "@leafmesh/protocol";
import { entraRefusal, startWns, type VendorReply, type WnsDouble } from "@leafmesh/testkit/notifiers";
import { type DocumentedAnswer, onNotifierStage, testNotifier } from "@leafmesh/testkit/suites";
import { XMLParser, XMLValidator } from "fast-xml-parser";
import { describe, expect, it } from "vitest";
import type { RingErrorKind } from "../contract.ts";
import { wnsNotifier } from "./wns.ts";

const app = {
  tenantId: "5e3e9847-3183-4f18-a7e8-671c3a57d4b3",
  clientId: "0b1c2d3e-4f50-4617-8293-a4b5c6d7e8f9",
  clientSecret: "aB8~the.secret_of.the-application",
};
const record = { client_secret: app.clientSecret, tenant_id: app.tenantId, client_id: app.clientId };
const channel = (token: string, host = "db5.notify.windows.com"): string => `https://${host}/w/?token=${token}`;
const CHANNEL = channel("BQYAAADdW%2bkFq%2f3d%3d");
const EXPIRED = channel("expired", "wns2-by3p.notify.windows.com");
const FOREIGN = channel("another-app");

const said = (status: number, headers: Record<string, string> = {}): VendorReply => ({ status, headers, body: "" });
const row = (reply: VendorReply, kind: RingErrorKind, code: string, message?: RegExp): DocumentedAnswer => ({
  name: `${kind}: ${reply.status} ${JSON.stringify(reply.headers ?? {})}`,
  reply,
  expect: { kind, code, message },
});
const description = "x-wns-error-description";

const under: Parameters<typeof testNotifier<WnsDouble>>[0] = {
  definition: wnsNotifier,
  open: async (clock: Clock) => ({
    double: await startWns(clock, {
      app,
      channels: { [CHANNEL]: "open", [EXPIRED]: "expired", [FOREIGN]: "another_app" },
    }),
    record,
  }),
  tokens: {
    valid: CHANNEL,
    wrong: [
      "https://db5.notify.windows.com/w/",
      "https://db5.notify.windows.com/w/?token=",
      "http://db5.notify.windows.com/w/?token=t",
      "https://db5.notify.windows.com:8443/w/?token=t",
      "https://evil-notify.windows.com/w/?token=t",
      "https://notify.windows.com.evil.example/w/?token=t",
      "https://notify.windows.com@evil.example/w/?token=t",
      "https://evil.example\\.notify.windows.com/w/?token=t",
      "https://evil.example/w/?token=t#.notify.windows.com",
      "https://127.0.0.1/w/?token=t",
      "https://2130706433/w/?token=t",
      "https://[::ffff:169.254.169.254]/?token=t",
      "https://db5.notify.windows.com/w/?token=a b",
      "https://db5.notify.windows.com/w/?token='t'",
      channel("x".repeat(2048)),
    ],
    secretParts: ["BQYAAADdW"],
  },
  shows: { ask: true, silent: false },
  credential: { lifetimeMs: 86_399_000, made: ({ issued }) => issued.size },
  answers: [
    {
      name: "received",
      reply: said(200, { "x-wns-status": "received", "x-wns-msg-id": "7A6C" }),
      expect: { receipt: "7A6C" },
    },
    {
      name: "received, in the other header",
      reply: said(200, { "x-wns-notificationstatus": "received" }),
      expect: { receipt: undefined },
    },
    row(said(503), "transient", "503"),
    row(said(500), "transient", "500"),
    row(said(502), "transient", "502"),
    // Successes that are none.
    row(said(200), "transient", "200"),
    row(said(201, { "x-wns-status": "received" }), "transient", "201"),
    row(said(200, { "x-wns-status": "dropped" }), "transient", "dropped", /switched off/),
    row(said(200, { "x-wns-status": "dropped", "x-wns-deviceconnectionstatus": "connected" }), "transient", "dropped"),
    row(said(200, { "x-wns-status": "dropped", "x-wns-deviceconnectionstatus": "disconnected" }), "offline", "dropped"),
    row(
      said(200, { "x-wns-status": "dropped", "x-wns-deviceconnectionstatus": "tempconnected" }),
      "offline",
      "dropped",
    ),
    row(said(200, { "x-wns-notificationstatus": "channelThrottled" }), "quota", "channelthrottled"),
    row(said(200, { "x-wns-status": "channelthrottled", "retry-after": "60" }), "quota", "channelthrottled"),
    row(said(200, { "x-wns-status": "postponed" }), "transient", "200"),

    row(said(404, { [description]: "Channel not recognized" }), "dead_token", "404"),
    row(said(410, { [description]: "Channel expired" }), "dead_token", "410"),
    row(said(410, { [description]: "Domain Blocked" }), "bad_credential", "410", /blocked/),
    { ...row(said(401), "bad_credential", "401", /client_secret/), requests: 2 },
    row(said(403, { [description]: "Not in allowed receiving apps" }), "bad_credential", "403", /package family/),
    row(said(406, { "retry-after": "5" }), "quota", "406"),
    row(said(429), "quota", "429"),
    row(said(413), "too_big", "413"),
    row(said(400), "bad_request", "400"),
    row(said(405), "bad_request", "405"),
    row(said(302, { location: "https://127.0.0.1/steal" }), "transient", "302", /not followed/),
  ],
  checks: [
    { name: "a secret that works", expect: "active" },
    { name: "another secret", record: { client_secret: "another~secret" }, expect: "failing", reason: /client_secret/ },
    { name: "another application", record: { client_id: app.tenantId }, expect: "failing", reason: /client_id/ },
    { name: "no such tenant", record: { tenant_id: "none.example.com" }, expect: "failing", reason: /tenant_id/ },
    ...(
      [
        ["a secret of yesterday", entraRefusal(401, "invalid_client", 7000222), "failing", /has expired/],
        ["an application that is disabled", entraRefusal(401, "unauthorized_client", 7000112), "failing", /disabled/],
        [
          "a tenant without Windows' service",
          entraRefusal(400, "invalid_resource", 500011),
          "failing",
          /any directory/,
        ],
        ["a refusal of tomorrow", entraRefusal(400, "invalid_request", 9999999), "failing", /AADSTS9999999/],
        [
          "an Entra that is overloaded",
          entraRefusal(400, "temporarily_unavailable", 90033),
          "readable",
          /not available/,
        ],
        ["too many requests", said(429), "readable", /throttles/],
        ["an Entra that is down", said(503), "readable", /not available/],
        ["a page that is no answer", { status: 200, body: "<html>" }, "readable", /nothing that it documents/],
        ["a redirect", said(302, { location: "https://127.0.0.1/" }), "readable", /not followed/],
      ] as const
    ).map(([name, reply, verdict, reason]) => ({
      name,
      arrange: ({ server }: WnsDouble) => server.answerNext(reply),
      expect: verdict,
      reason,
    })),
  ],
};

testNotifier<WnsDouble>(under);

const never = new AbortController().signal;
const stage = (act: Parameters<typeof onNotifierStage<WnsDouble>>[1]) => onNotifierStage<WnsDouble>(under, act);
const rings = ({ server }: WnsDouble) => server.requests.filter(({ host }) => host.endsWith("notify.windows.com"));

describe("wns", () => {
  it("asks with a toast that an XML parser reads, each of whose choices carries the ring", () =>
    stage(async ({ ring, request, double }) => {
      await ring({ approval: "ask" });
      const [sent] = rings(double);
      expect(sent?.headers).toMatchObject({
        ...{ "x-wns-type": "wns/toast", "content-type": "text/xml", "x-wns-priority": "1", "x-wns-ttl": "43" },
        ...{ "x-wns-requestforstatus": "true", "content-length": String(sent?.body.length) },
      });
      expect(sent?.headers).not.toHaveProperty("x-wns-cache-policy");
      const xml = sent?.text ?? "";
      expect(XMLValidator.validate(xml)).toBe(true);
      const parser = new XMLParser({ ignoreAttributes: false, attributeNamePrefix: "@" });
      const { toast } = parser.parse(xml);
      const { body } = request();
      expect(toast.visual.binding.text).toEqual(['Zoë\'s "mesh" 🌿', "Allow this connection?"]);
      const choices = toast.actions.action.map((each: Record<string, string>) => [
        each["@content"],
        each["@arguments"],
      ]);
      expect([toast["@launch"], ...choices]).toEqual([
        `ask ${body}`,
        ["Allow", `allow ${body}`],
        ["Deny", `deny ${body}`],
      ]);
    }));

  it("lets no text of a mesh out of its place in the toast", () =>
    stage(async ({ notifier, request, double }) => {
      const mesh = `</text><action content='x' arguments='&#39;"]]>\u0000\ud800`;
      const { ring, ...more } = request();
      const named = { ...ring, mesh };
      await notifier.ring({ ...more, ring: named, body: JSON.stringify(named) }, new Secret(CHANNEL), never);
      const xml = rings(double)[0]?.text ?? "";
      expect(XMLValidator.validate(xml)).toBe(true);
      expect(JSON.parse(double.rings[0]?.body ?? "")).toMatchObject({ ask: ring.ask, mesh });
    }));

  it("is silent with bytes for the app, which Windows keeps for a device that is offline", () =>
    stage(async ({ ring, request, double }) => {
      await ring({ approval: "silent", ttlMs: 0 });
      const [sent] = rings(double);
      expect(sent?.headers).toMatchObject({
        ...{ "x-wns-type": "wns/raw", "content-type": "application/octet-stream", "x-wns-cache-policy": "cache" },
        ...{ "x-wns-priority": "1", "x-wns-ttl": "1" },
      });
      expect(sent?.text).toBe(request({ approval: "silent", ttlMs: 0 }).body);
    }));

  it("sends to the channel exactly as it was given", () =>
    stage(async ({ ring, double }) => {
      await ring();
      expect(rings(double)).toMatchObject([{ target: "/w/?token=BQYAAADdW%2bkFq%2f3d%3d", httpVersion: "1.1" }]);
    }));

  it("replaces an access token that was revoked, and rings once more with the new one", () =>
    stage(async ({ ring, double, answerNext }) => {
      await ring();
      answerNext("ring", said(401));
      await ring();
      expect(double.issued.size).toBe(2);
      expect(rings(double)).toHaveLength(3);
      expect(double.rings).toHaveLength(2);
    }));

  it("tells a channel that has expired from one of another app", () =>
    stage(async ({ notifier, request, failure }) => {
      const to = (uri: string) => failure(notifier.ring(request(), new Secret(uri), never));
      expect(await to(EXPIRED)).toMatchObject({ kind: "dead_token", code: "410" });
      expect(await to(FOREIGN)).toMatchObject({ kind: "bad_credential", code: "403" });
    }));

  it("makes no access token for an address that is none of Windows', and sends nothing there", () =>
    stage(async ({ notifier, request, double, failure }) => {
      for (const wrong of under.tokens.wrong) {
        expect(await failure(notifier.ring(request(), new Secret(wrong), never))).toMatchObject({
          kind: "bad_request",
        });
      }
      expect(double.server.connections).toBe(0);
    }));

  it("takes its access token nowhere when it is redirected", () =>
    stage(async ({ ring, double, answerNext, failure }) => {
      answerNext("ring", said(307, { location: EXPIRED }));
      expect(await failure(ring())).toMatchObject({ kind: "transient", code: "307" });
      expect(rings(double)).toHaveLength(1);
    }));

  it.each([{ tenant_id: "tenant" }, { tenant_id: "../common" }, { client_id: "my-app" }, { client_secret: "" }])(
    "refuses %o",
    (fields) => expect(wnsNotifier.options.safeParse({ ...record, ...fields }).success).toBe(false),
  );
});
