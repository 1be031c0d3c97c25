/**
 * Plays the data plane of AWS IoT Core over HTTPS, and the STS beside it: it checks the signature, the rights and the
 * message, and answers as AWS does, which says nothing of who is subscribed.
 * https://docs.aws.amazon.com/goto/WebAPI/iot-data-2015-05-28/Publish
 */
import type { Clock } from "@leafmesh/protocol";
import type { NotifierDouble, ReceivedRing } from "../suites/notifier/under-test.ts";
import { AWS_FLAWS, awsQueryRefusal, awsQueryResult } from "./aws-refusal.ts";
import { judgeAwsSignature, type PlayedAccessKey } from "./aws-signature.ts";
import type { VendorReply } from "./replies.ts";
import { startVendorServer, type VendorRequest } from "./vendor-server.ts";

export interface PlayedAwsIot {
  /** The data endpoint. */
  readonly host: string;
  readonly region: string;
  /** A right to publish ends with the topic, in which `*` stands for anything. */
  readonly keys: Readonly<Record<string, PlayedAccessKey & { readonly rights: readonly AwsIotRight[] }>>;
}

export type AwsIotRight = `iot:Publish:${string}` | "iot:ListRetainedMessages";

const MAX_BYTES = 131_072;
const MAX_TOPIC_BYTES = 256;
const MAX_SLASHES = 7;
const QUERY = new Set(["contentType", "messageExpiry", "qos", "responseTopic", "retain"]);

export async function startAwsIot(clock: Clock, { host, region, keys }: PlayedAwsIot): Promise<NotifierDouble> {
  const rings: ReceivedRing[] = [];
  const sts = `sts.${region}.${region.startsWith("cn-") ? "amazonaws.com.cn" : "amazonaws.com"}`;

  const take = (request: VendorRequest): VendorReply => {
    const isSts = request.host === sts;
    const service = isSts ? "sts" : "iotdata";
    const verdict = judgeAwsSignature({ request, keys, region, service, nowMs: clock.nowMs() });
    if ("flaw" in verdict) {
      const [status, code, said] = AWS_FLAWS[verdict.flaw];
      return isSts ? awsQueryRefusal(status, code, said) : awsIotRefusal(403, "ForbiddenException", said);
    }
    if (isSts) return awsQueryResult("GetCallerIdentity", "<UserId>AIDA</UserId><Account>123456789012</Account>");
    if (request.path === "/retainedMessage" && request.method === "GET") return list(verdict.keyId);
    const [, topic] = /^\/topics\/([^/]+)$/.exec(request.path) ?? [];
    if (topic === undefined) return awsIotRefusal(404, "ResourceNotFoundException", "Not Found");
    if (request.method !== "POST") return awsIotRefusal(405, "MethodNotAllowedException", "Method not allowed");
    return publish(verdict.keyId, decodeURIComponent(topic), request);
  };

  const list = (keyId: string): VendorReply => {
    if (!keys[keyId]?.rights.includes("iot:ListRetainedMessages")) return forbidden;
    return { status: 200, body: { retainedTopics: [] } };
  };

  const publish = (keyId: string, topic: string, { query, body, text }: VendorRequest): VendorReply => {
    const isTopic =
      Buffer.byteLength(topic) <= MAX_TOPIC_BYTES &&
      topic.split("/").length <= MAX_SLASHES + 1 &&
      !/[+#]|^\$/.test(topic);
    const expiry = query.get("messageExpiry") ?? "";
    if (!isTopic || !["0", "1"].includes(query.get("qos") ?? "0") || !/^[1-9]\d{0,8}$/.test(expiry)) return invalid;
    if ([...query.keys()].some((name) => !QUERY.has(name)) || body.byteLength === 0) return invalid;
    if (body.byteLength > MAX_BYTES) {
      return awsIotRefusal(413, "RequestEntityTooLargeException", "Request entity too large");
    }
    // Every later subscriber would get it.
    if (query.has("retain")) throw new Error("a ring that is kept");
    if (!mayPublish(keyId, topic)) return forbidden;
    rings.push({ body: text, to: topic, isShown: false, ttlSeconds: Number(expiry) });
    return { status: 200, body: { message: "OK", traceId: TRACE_ID } };
  };

  const mayPublish = (keyId: string, topic: string): boolean =>
    (keys[keyId]?.rights ?? []).some((right) => {
      const [, allowed] = /^iot:Publish:(.+)$/.exec(right) ?? [];
      if (allowed === undefined) return false;
      const parts = allowed.split("*").map((part) => part.replace(/[^\w/]/g, "\\$&"));
      return new RegExp(`^${parts.join(".*")}$`, "u").test(topic);
    });

  const server = await startVendorServer({ hosts: [host, sts], handle: take });
  return {
    server,
    rings,
    purposeOf: ({ path }) => (path.startsWith("/topics/") ? "ring" : "check"),
    close: () => server.close(),
  };
}

const TRACE_ID = "8b8a5f1e-8a4e-c2b6-6a3f-2f2a5b8d9c10";

/** As the data plane words a refusal. */
export function awsIotRefusal(status: number, name: string, message: string): VendorReply {
  return { status, headers: { "x-amzn-errortype": name }, body: { message, traceId: TRACE_ID } };
}

const forbidden = awsIotRefusal(403, "ForbiddenException", "Forbidden");
const invalid = awsIotRefusal(400, "InvalidRequestException", "Invalid request");
