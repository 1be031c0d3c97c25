/** The library of the web's own makes the double deliver, unmodified but for its socket: so the double reads as browsers do. */
import { createECDH } from "node:crypto";
import { Agent } from "node:https";
import { connect } from "node:tls";
import { Secret, systemClock } from "@leafmesh/protocol";
import { playBrowser, startWebPush } from "@leafmesh/testkit/notifiers";
import type { NotifierDouble } from "@leafmesh/testkit/suites";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import webPush, { type RequestOptions } from "web-push";
import { readVapidKey } from "./webpush-vapid.ts";

const keys = webPush.generateVAPIDKeys();
const phone = playBrowser({ endpoint: "https://web.push.apple.com/phone", applicationServerKey: keys.publicKey });
const gone = playBrowser({ ...phone, endpoint: "https://web.push.apple.com/gone", isGone: true });

let double: NotifierDouble;
let agent: Agent;
beforeAll(async () => {
  double = await startWebPush(systemClock, [phone, gone]);
  const { route, ca } = double.server.network;
  agent = new Agent();
  agent.createConnection = ({ host }) => connect({ ...route(String(host), 443), servername: String(host), ca });
});
afterAll(async () => {
  agent.destroy();
  await double.close();
});

const vapidDetails = { subject: "mailto:ops@example.com", ...keys };
const send = (options: RequestOptions = {}, subscription = phone.subscription, text = "a ring 🌿") =>
  webPush.sendNotification(JSON.parse(subscription), text, { TTL: 60, vapidDetails, agent, ...options });

describe("the double of push services, by web-push", () => {
  it("takes what it sends, and the browser reads it", async () => {
    expect(await send({ topic: "abcd", urgency: "high" })).toMatchObject({ statusCode: 201 });
    expect(double.rings).toEqual([
      { body: "a ring 🌿", to: phone.subscription, isShown: false, ttlSeconds: 60, collapseKey: "abcd" },
    ]);
  });

  it.each([
    ["another key", { vapidDetails: { ...vapidDetails, ...webPush.generateVAPIDKeys() } }, 403],
    ["keys that do not belong together", { vapidDetails: { ...keysOfTwo(), subject: "mailto:a@example.com" } }, 401],
    ["no signature", { vapidDetails: null as unknown as undefined }, 401],
    ["a topic that Apple cannot decode", { topic: "abcde" }, 400],
  ] as const)("refuses %s", async (_name, options, statusCode) => {
    const before = double.rings.length;
    await expect(send(options as RequestOptions)).rejects.toMatchObject({ statusCode });
    expect(double.rings).toHaveLength(before);
  });

  it("refuses what is too large, and what nobody reads any more", async () => {
    await expect(send({}, phone.subscription, "x".repeat(3_993))).resolves.toMatchObject({ statusCode: 201 });
    await expect(send({}, phone.subscription, "x".repeat(3_994))).rejects.toMatchObject({ statusCode: 413 });
    await expect(send({}, gone.subscription)).rejects.toMatchObject({ statusCode: 410 });
  });

  it("has keys that our records read, and the same public key comes of them", () => {
    for (let nth = 0; nth < 50; nth++) {
      const made = webPush.generateVAPIDKeys();
      expect(readVapidKey(new Secret(made.privateKey))).toMatchObject({ key: { publicKey: made.publicKey } });
    }
  });

  it("would go to any host, which is why a ring does not go through it", () => {
    const endpoint = "https://127.0.0.1:8443/steal";
    const to = { ...JSON.parse(phone.subscription), endpoint };
    expect(webPush.generateRequestDetails(to, "a ring", { vapidDetails })).toMatchObject({ endpoint });
  });
});

function keysOfTwo() {
  const { privateKey } = webPush.generateVAPIDKeys();
  return { privateKey, publicKey: createECDH("prime256v1").generateKeys("base64url") };
}
