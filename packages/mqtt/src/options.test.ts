import { createPrivateKey } from "node:crypto";
import { Secret } from "@leafmesh/protocol";
import {
  type Authority,
  createAuthority,
  type IssuedCertificate,
  mosquittoAvailable,
} from "@leafmesh/testkit/mosquitto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { mqttOptionIssues, mqttOptions, mqttRoomIssues } from "./options.ts";

type Input = Record<string, string>;

function issuesOf(input: Input, judge = mqttOptionIssues): readonly string[] {
  return judge(mqttOptions.parse(input)).map(({ path, message }) => `${path.join(".")} ${message}`);
}

const login = { username: "mesh", password: "secret" };

describe("the fields of an mqtt record", () => {
  it("are strict and typed", () => {
    expect(mqttOptions.safeParse({ url: "mqtt://localhost", qos: 2 }).success).toBe(false);
    expect(mqttOptions.safeParse({}).success).toBe(false);
    expect(mqttOptions.safeParse({ url: "mqtt://localhost", username: "" }).success).toBe(false);
  });

  it("hold secrets as values that cannot be printed", () => {
    const { password, client_key } = mqttOptions.parse({ url: "mqtt://localhost", ...login, client_key: "pem" });
    expect(String(password)).toBe("[redacted]");
    expect(client_key).toBeInstanceOf(Secret);
  });

  it("pass as they are with an address alone", () => {
    expect(issuesOf({ url: "mqtt://broker.example.com" })).toEqual([]);
    expect(issuesOf({ url: "wss://broker.example.com/mqtt", ...login })).toEqual([]);
    expect(issuesOf({ url: "mqtt://127.0.0.1", ...login, room_topic_prefix: "acme/leafmesh" })).toEqual([]);
  });

  it.each<[string, Input, RegExp]>([
    ["an address in another scheme", { url: "tcp://broker" }, /^url must start with mqtt:/],
    ["a login in clear", { url: "mqtt://broker", ...login }, /^url would send the login in clear .* use mqtts:\/\//],
    ["a login in clear over WebSocket", { url: "ws://broker/mqtt", ...login }, /^url .* use wss:\/\//],
    ["a login in clear in a private network", { url: "mqtt://10.0.0.5", ...login }, /^url .* in clear/],
    ["a password alone", { url: "mqtts://broker", password: "x" }, /^username is needed/],
    ["a link-local address", { url: "mqtt://169.254.169.254" }, /^url is a link-local, metadata/],
    ["a link-local IPv6 address", { url: "mqtt://[fe80::1]" }, /^url is a link-local, metadata/],
    ["one in disguise", { url: "mqtt://[::ffff:169.254.169.254]" }, /^url is a link-local, metadata/],
    ["a CA without TLS", { url: "mqtt://broker", ca_cert: "x" }, /^ca_cert has no effect without TLS; use mqtts:/],
    ["a CA that is none", { url: "mqtts://broker", ca_cert: "/etc/ca.pem" }, /^ca_cert must hold a certificate in PEM/],
    ["a key that is none", { url: "mqtts://broker", client_key: "x" }, /^client_key must be a private key in PEM/],
    ["a wildcard in the prefix", { url: "mqtt://broker", room_topic_prefix: "a/#" }, /^room_topic_prefix .*wildcards/],
    ["a slash at its end", { url: "mqtt://broker", room_topic_prefix: "a/" }, /^room_topic_prefix .*empty levels/],
  ])("refuse %s", (_case, input, issue) => {
    expect(issuesOf(input)).toContainEqual(expect.stringMatching(issue));
  });

  it("refuse a certificate that cannot be read", () => {
    const broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----";
    expect(issuesOf({ url: "mqtts://broker", ca_cert: broken })).toEqual([
      "ca_cert holds a certificate that cannot be read",
    ]);
  });
});

describe("a record that serves as a room", () => {
  it("needs a prefix", () => {
    expect(issuesOf({ url: "mqtt://localhost" }, mqttRoomIssues)).toEqual([
      "room_topic_prefix is needed to use this broker as a room; for example: leafmesh",
    ]);
    expect(issuesOf({ url: "mqtt://localhost", room_topic_prefix: "leafmesh" }, mqttRoomIssues)).toEqual([]);
  });
});

describe.skipIf(!mosquittoAvailable())("a client certificate (needs openssl)", () => {
  let authority: Authority;
  let one: IssuedCertificate;
  let other: IssuedCertificate;
  beforeAll(async () => {
    authority = await createAuthority();
    one = await authority.issue({ commonName: "mesh" });
    other = await authority.issue({ commonName: "mesh" });
  });
  afterAll(() => authority.close());

  it("passes with its key, and with the rest of its chain behind it", () => {
    expect(issuesOf({ url: "mqtts://broker", client_cert: one.cert, client_key: one.key })).toEqual([]);
    const chain = one.cert + authority.ca;
    expect(issuesOf({ url: "mqtts://broker", client_cert: chain, client_key: one.key, ca_cert: authority.ca })).toEqual(
      [],
    );
  });

  it("is refused with another key, before any connection", () => {
    expect(issuesOf({ url: "mqtts://broker", client_cert: one.cert, client_key: other.key })).toEqual([
      "client_key does not belong to client_cert: the certificate holds another public key",
    ]);
  });

  it("is refused without its key, and the key without it", () => {
    expect(issuesOf({ url: "mqtts://broker", client_cert: one.cert })).toEqual([
      "client_key is needed with client_cert",
    ]);
    expect(issuesOf({ url: "mqtts://broker", client_key: one.key })).toEqual(["client_cert is needed with client_key"]);
  });

  it("is refused where there is no TLS to show it in", () => {
    const input = { url: "ws://broker", client_cert: one.cert, client_key: one.key };
    expect(issuesOf(input)).toEqual(["client_cert has no effect without TLS; use wss:// in url"]);
  });

  it("is refused with a key behind a passphrase, and the message does not hold the key", () => {
    const key = createPrivateKey(one.key).export({
      type: "pkcs8",
      format: "pem",
      cipher: "aes-256-cbc",
      passphrase: "open",
    });
    const issues = issuesOf({ url: "mqtts://broker", client_cert: one.cert, client_key: String(key) });
    expect(issues).toEqual([expect.stringMatching(/^client_key is protected by a passphrase/)]);
    expect(issues.join()).not.toContain(String(key).split("\n")[1]);
  });
});
