/** What Apple refuses and no client of ours sends. */
import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { type ClientHttp2Session, connect as connectHttp2 } from "node:http2";
import { connect, type TLSSocket } from "node:tls";
import { SignJWT } from "jose";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createFakeClock, type FakeClock } from "../fake-clock.ts";
import { type ApnsDouble, startApns } from "./apns.ts";

const TOPIC = "com.example.phone";
const PHONE = "0a1b2c3d".repeat(8);
const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const pemOf = (key: KeyObject) => key.export({ format: "pem", type: "spki" }).toString();
const MINUTE_MS = 60_000;

let clock: FakeClock;
let apple: ApnsDouble;
let session: ClientHttp2Session;

beforeEach(async () => {
  clock = createFakeClock();
  const key = { publicKey: pemOf(publicKey), keyId: "KEY1234567", teamId: "TEAM123456" };
  apple = await startApns(clock, {
    keys: [key, { ...key, keyId: "KEY7654321", teamId: "TEAM654321" }],
    topics: [TOPIC],
    devices: { [PHONE]: { environment: "production", topic: TOPIC } },
  });
  session = connectHttp2("https://api.push.apple.com", { createConnection: () => led(["h2"]) });
});
afterEach(async () => {
  session.destroy();
  await apple.close();
});

function led(protocols: readonly string[]): TLSSocket {
  const { ca, route } = apple.server.network;
  const servername = "api.push.apple.com";
  return connect({ ...route(servername, 443), ca, servername, ALPNProtocols: [...protocols] });
}

/** A provider token of now; made anew each time, since signatures differ. */
async function bearer(keyId = "KEY1234567", teamId = "TEAM123456"): Promise<string> {
  const jwt = new SignJWT({ iss: teamId, iat: Math.floor(clock.nowMs() / 1000) });
  return `bearer ${await jwt.setProtectedHeader({ alg: "ES256", kid: keyId }).sign(privateKey)}`;
}

type Fields = Readonly<Record<string, string>>;

async function send(authorization: string | undefined, fields: Fields = {}, body = '{"aps":{"alert":"x"}}') {
  const stream = session.request({
    ":method": "POST",
    ":authority": "api.push.apple.com",
    ":path": `/3/device/${PHONE}`,
    "apns-topic": TOPIC,
    ...(authorization === undefined ? {} : { authorization }),
    ...fields,
  });
  let status = 0;
  stream.on("response", (headers) => {
    status = Number(headers[":status"]);
  });
  stream.end(body);
  let text = "";
  for await (const piece of stream.setEncoding("utf8")) text += piece;
  return [status, text === "" ? undefined : JSON.parse(text).reason];
}

describe("the double of Apple", () => {
  it("takes another provider token after 20 minutes, and not before", async () => {
    const first = await bearer();
    expect(await send(first)).toEqual([200, undefined]);
    expect(await send(await bearer())).toEqual([429, "TooManyProviderTokenUpdates"]);
    expect(await send(first)).toEqual([200, undefined]);
    await clock.advance(20 * MINUTE_MS);
    expect(await send(await bearer())).toEqual([200, undefined]);
    expect(apple.rings).toHaveLength(3);
  });

  it("keeps a connection for the team that used it first", async () => {
    expect(await send(await bearer("KEY7654321", "TEAM654321"))).toEqual([200, undefined]);
    expect(await send(await bearer())).toEqual([403, "InvalidProviderToken"]);
  });

  it.each<[string, Fields, string | undefined, number, string]>([
    ["another path", { ":path": "/3/devices" }, undefined, 404, "BadPath"],
    ["another method", { ":method": "PUT" }, undefined, 405, "MethodNotAllowed"],
    ["no device", { ":path": "/3/device/" }, undefined, 400, "MissingDeviceToken"],
    ["a time that is none", { "apns-expiration": "soon" }, undefined, 400, "BadExpirationDate"],
    ["no payload", {}, "", 400, "PayloadEmpty"],
    ["a payload that is none", {}, "[]", 400, "PayloadEmpty"],
    ["a silent one that shows something", background("5"), undefined, 400, "InvalidPushType"],
    ["a silent one in a hurry", background("10"), '{"aps":{"content-available":1}}', 400, "BadPriority"],
    ["one that is to be shown and shows nothing", {}, '{"aps":{"content-available":1}}', 400, "InvalidPushType"],
  ])("refuses %s", async (_what, fields, body, status, reason) => {
    expect(await send(await bearer(), fields, body)).toEqual([status, reason]);
    expect(apple.rings).toEqual([]);
  });

  it("takes nobody without a provider token, and allows one request at once until one has come", async () => {
    expect(await send(undefined)).toEqual([403, "MissingProviderToken"]);
    expect(session.remoteSettings.maxConcurrentStreams).toBe(1);
    const raised = new Promise((known) => session.once("remoteSettings", known));
    await send(await bearer());
    await raised;
    expect(session.remoteSettings.maxConcurrentStreams).toBe(1000);
  });

  it("speaks HTTP/2 alone", async () => {
    const socket = led(["http/1.1"]);
    socket.end(
      `POST /3/device/${PHONE} HTTP/1.1\r\nHost: api.push.apple.com\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`,
    );
    let text = "";
    for await (const piece of socket.setEncoding("utf8")) text += piece;
    expect(text).toMatch(/^HTTP\/1\.1 505 /);
  });
});

function background(priority: string): Fields {
  return { "apns-push-type": "background", "apns-priority": priority };
}
