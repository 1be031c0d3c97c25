/** Amazon's own client takes the double for IoT Core's data plane: so the double asks for what AWS asks. */
import {
  IoTDataPlaneClient,
  ListRetainedMessagesCommand,
  PublishCommand,
  type PublishCommandInput,
} from "@aws-sdk/client-iot-data-plane";
import { systemClock } from "@leafmesh/protocol";
import { startAwsIot } from "@leafmesh/testkit/notifiers";
import type { NotifierDouble } from "@leafmesh/testkit/suites";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ledAgent } from "../../testing/led-agent.ts";

const HOST = "a1b2c3d4e5-ats.iot.eu-west-1.amazonaws.com";
const TOPIC = "leafmesh/kiosk.7-|@:%2f?a=b&c'(d)*!~é🌿/connect";
const credentials = {
  accessKeyId: "ASIAIOSFODNN7EXAMPLE",
  secretAccessKey: "s/".repeat(20),
  sessionToken: "t+/=".repeat(9),
};

let double: NotifierDouble;
beforeAll(async () => {
  const { accessKeyId, secretAccessKey: secret, sessionToken } = credentials;
  const rights = ["iot:Publish:leafmesh/*/connect", "iot:ListRetainedMessages"] as const;
  double = await startAwsIot(systemClock, {
    ...{ host: HOST, region: "eu-west-1" },
    keys: { [accessKeyId]: { secret, sessionToken, rights } },
  });
});
afterAll(() => double.close());

function client(more: Partial<typeof credentials> = {}): IoTDataPlaneClient {
  return new IoTDataPlaneClient({
    ...{ region: "eu-west-1", endpoint: `https://${HOST}`, maxAttempts: 1 },
    credentials: { ...credentials, ...more },
    requestHandler: { httpsAgent: ledAgent(double.server.network, HOST) },
  });
}

const publish = (more: Partial<PublishCommandInput> = {}) =>
  new PublishCommand({
    ...{ topic: TOPIC, qos: 1, messageExpiry: 43, contentType: "application/json" },
    payload: new TextEncoder().encode('{"a":"ring 🌿"}'),
    ...more,
  });

describe("the double of AWS IoT Core, by Amazon's client", () => {
  it("takes a message", async () => {
    await client().send(publish());
    expect(double.rings).toEqual([{ body: '{"a":"ring 🌿"}', to: TOPIC, isShown: false, ttlSeconds: 43 }]);
    // The adapter's address is this one, letter for letter.
    const { path } = double.server.requests.at(-1) ?? {};
    expect(decodeURIComponent(path ?? "")).toBe(`/topics/${TOPIC}`);
  });

  it("lists retained messages", async () => {
    const { retainedTopics } = await client().send(new ListRetainedMessagesCommand({ maxResults: 1 }));
    expect(retainedTopics).toEqual([]);
  });

  it.each([
    ["a topic that the key has no right to", {}, { topic: "other/topic" }, 403, "Forbidden"],
    ["a wildcard", {}, { topic: "leafmesh/+/connect" }, 400, "Invalid"],
    ["a message that is too large", {}, { payload: new Uint8Array(131_073) }, 413, "large"],
    ["another secret", { secretAccessKey: "x" }, {}, 403, "signature"],
    ["another session token", { sessionToken: "x" }, {}, 403, "security token"],
    ["another key", { accessKeyId: "AKIANOBODY" }, {}, 403, "security token"],
  ])("refuses %s", async (_name, key, message, status, said) => {
    await expect(client(key).send(publish(message))).rejects.toMatchObject({
      $metadata: { httpStatusCode: status },
      message: expect.stringContaining(said),
    });
  });
});
