/** Amazon's own signer comes to the same signatures. */
import { Secret } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { beforeAll, describe, expect, it } from "vitest";
import { botocoreMissing, botocoreSignatures, type RequestToSign } from "../../testing/botocore.ts";
import { type AccessKey, type SignedRequest, signAws, type UnsignedRequest } from "./aws-access-key.ts";

const TOPIC = "leafmesh/kiosk.7-|@:%2f?a=b&c'(d)*!~é🌿/connect";
const form = { "content-type": "application/x-www-form-urlencoded; charset=utf-8" };
const key: AccessKey = { access_key_id: "AKIAIOSFODNN7EXAMPLE", secret_access_key: new Secret("s3cr3t/+".repeat(5)) };
const temporary: AccessKey = { ...key, session_token: new Secret("t+/=".repeat(20)) };

const requests: readonly (readonly [string, UnsignedRequest])[] = [
  [
    "a form for SNS",
    {
      ...{ url: "https://sns.eu-west-1.amazonaws.com/", method: "POST", service: "sns", region: "eu-west-1" },
      ...{ headers: form, body: "Action=Publish&Message=%7B%22a%22%3A%22+%C3%A9%22%7D" },
    },
  ],
  [
    "a message for IoT Core, whose topic is one segment of the path",
    {
      url: `https://a1-ats.iot.us-east-1.amazonaws.com/topics/${encodeURIComponent(TOPIC)}?contentType=application%2Fjson&messageExpiry=43&qos=1`,
      ...{ method: "POST", service: "iotdata", region: "us-east-1", body: '{"a":"🌿"}' },
      headers: { "content-type": "application/octet-stream" },
    },
  ],
  [
    "a question without a body",
    {
      url: "https://a1-ats.iot.cn-north-1.amazonaws.com.cn/retainedMessage?maxResults=1",
      ...{ method: "GET", service: "iotdata", region: "cn-north-1" },
    },
  ],
];
const cases = requests.flatMap(([name, request]) => [
  { name, request, by: key },
  { name: `${name}, by temporary keys`, request, by: temporary },
]);
const missing = botocoreMissing();

describe.skipIf(missing)(`signatures by botocore${missing ? `, left out since ${missing}` : ""}`, () => {
  let signed: readonly SignedRequest[];
  let judged: readonly (readonly [string, string])[];

  beforeAll(async () => {
    const clock = createFakeClock();
    signed = await Promise.all(cases.map(({ request, by }) => signAws(request, by, clock)));
    judged = botocoreSignatures(cases.map(({ request }, nth) => toJudge(request, signed[nth]?.headers ?? {})));
  }, 30_000);

  it.each(cases.map(({ name }, nth) => [name, nth] as const))("are the same for %s", (_name, nth) => {
    const [names, signature] = judged[nth] ?? [];
    expect(signed[nth]?.headers.authorization).toMatch(new RegExp(`SignedHeaders=${names}, Signature=${signature}$`));
    expect(signature).toMatch(/^[0-9a-f]{64}$/);
  });
});

function toJudge(request: UnsignedRequest, { authorization: _, ...headers }: SignedRequest["headers"]): RequestToSign {
  const { method, url, body = "", service, region } = request;
  return {
    ...{ method, url, headers, body, service, region },
    keyId: key.access_key_id,
    secret: key.secret_access_key.reveal(),
  };
}
