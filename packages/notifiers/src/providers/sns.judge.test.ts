/** Amazon's own client takes the double for SNS, signed and worded as it does: so the double asks for what SNS asks. */
import { ListPlatformApplicationsCommand, PublishCommand, SNSClient } from "@aws-sdk/client-sns";
import { systemClock } from "@leafmesh/protocol";
import { startSns } from "@leafmesh/testkit/notifiers";
import type { NotifierDouble } from "@leafmesh/testkit/suites";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ledAgent } from "../../testing/led-agent.ts";

const REGION = "eu-west-1";
const HOST = `sns.${REGION}.amazonaws.com`;
const PHONE = `arn:aws:sns:${REGION}:123456789012:endpoint/GCM/my-app/5e3e9847-3183-3f18-a7e8-671c3a57d4b3`;
const DISABLED = PHONE.replace("5e3e9847", "00000001");
const credentials = {
  accessKeyId: "ASIAIOSFODNN7EXAMPLE",
  secretAccessKey: "s/".repeat(20),
  sessionToken: "t+/=".repeat(9),
};

let double: NotifierDouble;
beforeAll(async () => {
  const { accessKeyId, secretAccessKey: secret, sessionToken } = credentials;
  double = await startSns(systemClock, {
    region: REGION,
    account: "123456789012",
    keys: { [accessKeyId]: { secret, sessionToken, rights: ["sns:Publish", "sns:ListPlatformApplications"] } },
    applications: ["GCM/my-app"],
    endpoints: { [PHONE]: "enabled", [DISABLED]: "disabled" },
  });
});
afterAll(() => double.close());

/** Everything is the client's own but the socket. */
function client(more: Partial<typeof credentials> = {}): SNSClient {
  return new SNSClient({
    region: REGION,
    credentials: { ...credentials, ...more },
    maxAttempts: 1,
    requestHandler: { httpsAgent: ledAgent(double.server.network, HOST) },
  });
}

const attribute = (StringValue: string) => ({ DataType: "String", StringValue });
const payload = {
  fcmV1Message: {
    message: {
      data: { leafmesh: "the ring & <more> +1%" },
      android: { priority: "high", ttl: "43s", collapse_key: "ask_1" },
    },
  },
};
const publish = (TargetArn: string) =>
  new PublishCommand({
    TargetArn,
    MessageStructure: "json",
    Message: JSON.stringify({ default: "-", GCM: JSON.stringify(payload) }),
    MessageAttributes: { "AWS.SNS.MOBILE.FCM.TTL": attribute("43") },
  });

describe("the double of SNS, by Amazon's client", () => {
  it("takes a notification, and names it", async () => {
    expect(await client().send(publish(PHONE))).toMatchObject({ MessageId: expect.stringMatching(/^[\da-f-]{36}$/) });
    expect(double.rings).toEqual([
      { body: "the ring & <more> +1%", to: PHONE, isShown: false, ttlSeconds: 43, collapseKey: "ask_1" },
    ]);
  });

  it("lists the applications", async () => {
    const { PlatformApplications } = await client().send(new ListPlatformApplicationsCommand());
    expect(PlatformApplications).toEqual([
      { PlatformApplicationArn: `arn:aws:sns:${REGION}:123456789012:app/GCM/my-app` },
    ]);
  });

  it.each([
    ["an endpoint that is disabled", {}, DISABLED, "EndpointDisabledException"],
    ["an endpoint that is none", {}, PHONE.replace("5e3e9847", "00000002"), "InvalidParameterException"],
    ["another secret", { secretAccessKey: "x" }, PHONE, "SignatureDoesNotMatch"],
    ["another session token", { sessionToken: "x" }, PHONE, "InvalidClientTokenId"],
    ["another key", { accessKeyId: "AKIANOBODY" }, PHONE, "InvalidClientTokenId"],
  ])("refuses %s", async (_name, more, to, name) => {
    await expect(client(more).send(publish(to))).rejects.toMatchObject({ name });
  });
});
