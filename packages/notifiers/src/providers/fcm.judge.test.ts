/**
 * Google's own client takes the double for Google: its assertions open it, its messages pass, and what the double refuses
 * is read by the client as what it is.
 */
import { generateKeyPairSync } from "node:crypto";
import https, { Agent, type AgentOptions } from "node:https";
import { connect } from "node:tls";
import { systemClock } from "@leafmesh/protocol";
import { type FcmDouble, fcmRefusal, startFcm } from "@leafmesh/testkit/notifiers";
import { type App, cert, deleteApp, initializeApp } from "firebase-admin/app";
import { getMessaging, type TokenMessage } from "firebase-admin/messaging";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const PROJECT = "my-app-1a2b3";
const TOKEN = "dGhlLXBob25l:APA91bH-xyz_0123456789";
const [GONE, OTHER] = ["Z29uZQ:APA91bGone", "b3RoZXI:APA91bOther"];
const account = {
  type: "service_account",
  project_id: PROJECT,
  private_key_id: "0123456789abcdef0123456789abcdef01234567",
  private_key: newKey(),
  client_email: "mesh@my-app-1a2b3.iam.gserviceaccount.com",
};

let double: FcmDouble;
const apps: App[] = [];
const ordinary = https.globalAgent;
beforeAll(async () => {
  double = await startFcm(systemClock, {
    serviceAccount: JSON.stringify(account),
    projectId: PROJECT,
    tokens: { [TOKEN]: "there", [GONE]: "gone", [OTHER]: "other" },
  });
  const { ca, route } = double.server.network;
  // The client does not use an agent that it is given for access tokens.
  https.globalAgent = new (class Led extends Agent {
    override createConnection({ host }: AgentOptions) {
      const target = route(host ?? "", 443);
      if (!target) throw new Error(`nobody plays ${host}`);
      return connect({ ...target, ca, servername: host ?? "" });
    }
  })();
});
afterAll(async () => {
  await Promise.all(apps.map((app) => deleteApp(app)));
  https.globalAgent.destroy();
  https.globalAgent = ordinary;
  await double.close();
});

/** Everything is the client's own but the socket. */
function client(key: object = account) {
  const app = initializeApp({ credential: cert(key), projectId: PROJECT }, `app-${apps.length}`);
  apps.push(app);
  return getMessaging(app);
}

function newKey(): string {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  return privateKey.export({ type: "pkcs8", format: "pem" }).toString();
}

const message: TokenMessage = {
  token: TOKEN,
  data: { leafmesh: "{}" },
  android: { priority: "high", ttl: 45_000, collapseKey: "ask-1" },
  apns: {
    headers: {
      "apns-push-type": "background",
      "apns-priority": "5",
      "apns-expiration": String(Math.floor(Date.now() / 1000) + 45),
      "apns-collapse-id": "ask-1",
    },
    payload: { aps: { contentAvailable: true } },
  },
  webpush: { headers: { TTL: "45", Urgency: "high", Topic: "ask-1" } },
};

describe("the double of Firebase", () => {
  it("takes a message of Google's client, which asks for far more rights, and rings the device", async () => {
    expect(await client().send(message)).toMatch(/^projects\/my-app-1a2b3\/messages\/0:/);
    expect(double.rings).toMatchObject([{ to: TOKEN, body: "{}", isShown: false, collapseKey: "ask-1" }]);
    const form = new URLSearchParams(double.server.requests[0]?.text);
    const claims = Buffer.from(form.get("assertion")?.split(".")[1] ?? "", "base64url").toString();
    expect(JSON.parse(claims).scope).toContain("https://www.googleapis.com/auth/cloud-platform");
  });

  it("rings nobody in a dry run, to a topic that nobody has", async () => {
    const before = double.rings.length;
    expect(await client().send({ topic: "leafmesh-check-1", data: { probe: "1" } }, true)).toMatch(/^projects\//);
    expect(double.rings).toHaveLength(before);
  });

  it.each([
    ["a token that is none", { token: "bm9uZQ:APA91bNone" }, "messaging/invalid-argument"],
    ["an app that was removed", { token: GONE }, "messaging/registration-token-not-registered"],
    ["a token of another project", { token: OTHER }, "messaging/mismatched-credential"],
    ["a message that is too big", { data: { leafmesh: "x".repeat(4097) } }, "messaging/invalid-argument"],
    ["a reserved key", { data: { "google.a": "b" } }, "messaging/invalid-argument"],
    ["a time to live of more than 28 days", { android: { ttl: 2_419_201_000 } }, "messaging/invalid-argument"],
  ])("says of %s what Google's client reads", async (_what, change, code) => {
    const before = [double.server.requests.length, double.rings.length] as const;
    await expect(client().send({ ...message, ...change })).rejects.toMatchObject({ code });
    expect(double.server.requests.slice(before[0]).map(({ host }) => host)).toContain("fcm.googleapis.com");
    expect(double.rings).toHaveLength(before[1]);
  });

  it.each([
    [
      "the Apple key that Firebase lacks",
      fcmRefusal(401, "UNAUTHENTICATED", { errorCode: "THIRD_PARTY_AUTH_ERROR" }),
      "messaging/third-party-auth-error",
    ],
    [
      "a quota",
      fcmRefusal(429, "RESOURCE_EXHAUSTED", { errorCode: "QUOTA_EXCEEDED" }),
      "messaging/message-rate-exceeded",
    ],
    ["a fault of Google's", fcmRefusal(500, "INTERNAL", { errorCode: "INTERNAL" }), "messaging/internal-error"],
  ])("tells of %s in words of Google's", async (_what, refusal, code) => {
    double.server.answerNext(refusal, ({ host }) => host === "fcm.googleapis.com");
    await expect(client().send(message)).rejects.toMatchObject({ code });
  });

  it("is told by Google's client of a lack of Apple's key where the access token was refused", async () => {
    double.server.answerNext(fcmRefusal(401, "UNAUTHENTICATED"), ({ host }) => host === "fcm.googleapis.com");
    await expect(client().send(message)).rejects.toMatchObject({ code: "messaging/third-party-auth-error" });
  });

  it("is sent a message again by Google's client without anybody asking", async () => {
    const before = double.server.requests.length;
    double.server.answerNext(fcmRefusal(503, "UNAVAILABLE"), ({ host }) => host === "fcm.googleapis.com");
    await client().send(message);
    const hosts = double.server.requests.slice(before).map(({ host }) => host);
    expect(hosts.filter((host) => host === "fcm.googleapis.com")).toHaveLength(2);
  });

  it("gives no access token for an assertion that another key has signed", async () => {
    const before = double.issued.size;
    await expect(client({ ...account, private_key: newKey() }).send(message)).rejects.toMatchObject({
      code: "app/invalid-credential",
      message: expect.stringContaining("invalid_grant"),
    });
    expect(double.issued.size).toBe(before);
  });
});
