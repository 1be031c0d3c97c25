/**
 * Plays Amazon SNS in one region of one account, and the STS beside it: it checks the signature, the rights and the
 * notification for the platform, and answers as SNS does. https://docs.aws.amazon.com/sns/latest/api/API_Publish.html
 */
import type { Clock } from "@leafmesh/protocol";
import type { NotifierDouble, ReceivedRing } from "../suites/notifier/under-test.ts";
import { AWS_FLAWS, awsQueryRefusal, awsQueryResult } from "./aws-refusal.ts";
import { judgeAwsSignature, type PlayedAccessKey } from "./aws-signature.ts";
import type { VendorReply } from "./replies.ts";
import { judgeSnsMessage } from "./sns-message.ts";
import { startVendorServer, type VendorRequest } from "./vendor-server.ts";

export interface PlayedSns {
  readonly region: string;
  /** Twelve digits. */
  readonly account: string;
  readonly keys: Readonly<Record<string, PlayedAccessKey & { readonly rights: readonly SnsRight[] }>>;
  /** Platform applications, such as `GCM/my-app`. */
  readonly applications: readonly string[];
  /** By ARN. `token_dead`: enabled until the first notification, which tells SNS that the token is none any more. */
  readonly endpoints: Readonly<Record<string, "enabled" | "disabled" | "token_dead">>;
}

/** `sns:Publish:GCM/my-app` is the right on the endpoints of that application alone. */
export type SnsRight = "sns:Publish" | `sns:Publish:${string}` | "sns:ListPlatformApplications";

const MAX_BYTES = 262_144;
const FORM = /^application\/x-www-form-urlencoded(?:; ?charset=utf-8)?$/i;
const NO_ENDPOINT = /00000000-0000-0000-0000-000000000000$/;
/** SNS names the application in two parts, the endpoint in four. */
const ARN = /^arn:[a-z-]+:sns:([a-z0-9-]+):(\d{12}):(.+)$/;

export async function startSns(clock: Clock, played: PlayedSns): Promise<NotifierDouble> {
  const { region, account, keys, applications } = played;
  const rings: ReceivedRing[] = [];
  const endpoints = new Map(Object.entries(played.endpoints));
  const partition = region.startsWith("cn-") ? "aws-cn" : region.startsWith("us-gov-") ? "aws-us-gov" : "aws";
  const domain = region.startsWith("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
  const hosts = [`sns.${region}.${domain}`, `sts.${region}.${domain}`];
  let published = 0;

  const take = (request: VendorRequest): VendorReply => {
    const service = request.host.startsWith("sts.") ? "sts" : "sns";
    const verdict = judgeAwsSignature({ request, keys, region, service, nowMs: clock.nowMs() });
    if ("flaw" in verdict) return awsQueryRefusal(...AWS_FLAWS[verdict.flaw]);
    if (request.method !== "POST" || request.target !== "/" || !FORM.test(request.headers["content-type"] ?? "")) {
      return awsQueryRefusal(400, "MalformedQueryString", "The query string contains a syntax error.");
    }
    const fields = new URLSearchParams(request.text);
    const action = `${service}:${fields.get("Action")}`;
    const version = service === "sts" ? "2011-06-15" : "2010-03-31";
    if (fields.get("Version") !== version) return awsQueryRefusal(400, "InvalidAction", "Could not find operation");
    switch (action) {
      case "sts:GetCallerIdentity":
        return awsQueryResult("GetCallerIdentity", `<UserId>AIDA</UserId><Account>${account}</Account>`);
      case "sns:ListPlatformApplications":
        return list(verdict.keyId);
      case "sns:Publish":
        return publish(verdict.keyId, fields);
      default:
        return awsQueryRefusal(400, "InvalidAction", "Could not find operation");
    }
  };

  const list = (keyId: string): VendorReply => {
    if (!may(keyId, "sns:ListPlatformApplications")) return denied("ListPlatformApplications");
    const arns = applications.map(
      (name) =>
        `<member><PlatformApplicationArn>arn:${partition}:sns:${region}:${account}:app/${name}</PlatformApplicationArn></member>`,
    );
    return awsQueryResult("ListPlatformApplications", `<PlatformApplications>${arns.join("")}</PlatformApplications>`);
  };

  const publish = (keyId: string, fields: URLSearchParams): VendorReply => {
    const target = fields.get("TargetArn") ?? "";
    // SNS would send to a topic's every subscriber, and a text to a phone.
    if (fields.has("PhoneNumber") || fields.has("TopicArn")) throw new Error("a ring that is no device's");
    const [, inRegion, ofAccount, resource = ""] = ARN.exec(target) ?? [];
    const [kind, platform = "", name = "", id] = resource.split("/");
    if (inRegion === undefined) return invalid("TargetArn Reason: An ARN must have at least 6 elements, not 1");
    if (kind !== "endpoint" || id === undefined) throw new Error("a ring that is no endpoint's");
    const application = `${platform}/${name}`;
    if (!may(keyId, "sns:Publish") && !may(keyId, `sns:Publish:${application}`)) return denied("Publish");
    if (inRegion !== region || ofAccount !== account) return invalid("TargetArn");
    const state = endpoints.get(target);
    if (state === undefined) return invalid("TargetArn Reason: No endpoint found for the target arn specified");
    if (state === "disabled") return awsQueryRefusal(400, "EndpointDisabled", "Endpoint is disabled");
    if (Buffer.byteLength(fields.toString()) > MAX_BYTES) return invalid("Message too long");
    const verdict = judgeSnsMessage(platform, fields);
    if ("refused" in verdict) return invalid(verdict.refused);
    if (state === "token_dead") endpoints.set(target, "disabled");
    else rings.push({ ...verdict.ring, to: target });
    const messageId = `94f20ce6-13c5-43a0-9a9e-${String(++published).padStart(12, "0")}`;
    return awsQueryResult("Publish", `<MessageId>${messageId}</MessageId>`);
  };

  const may = (keyId: string, right: SnsRight): boolean => keys[keyId]?.rights.includes(right) ?? false;

  const server = await startVendorServer({ hosts, handle: take });
  return { server, rings, purposeOf, close: () => server.close() };
}

function purposeOf({ text }: VendorRequest): "ring" | "check" {
  const fields = new URLSearchParams(text);
  const isRing = fields.get("Action") === "Publish" && !NO_ENDPOINT.test(fields.get("TargetArn") ?? "");
  return isRing ? "ring" : "check";
}

function invalid(what: string): VendorReply {
  return awsQueryRefusal(400, "InvalidParameter", `Invalid parameter: ${what}`);
}

function denied(action: string): VendorReply {
  const said = `User: arn:aws:iam::123456789012:user/mesh is not authorized to perform: SNS:${action}`;
  return awsQueryRefusal(403, "AuthorizationError", said);
}
