/**
 * What Amazon's services share: the fields of an access key, and requests that are signed with it.
 * https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html
 */
import { type Clock, type Secret, secretString } from "@leafmesh/protocol";
import * as z from "zod";
import type { OptionIssue } from "../contract.ts";

/** Fields of a record; the region is each provider's own. */
export const accessKeyFields = {
  access_key_id: z
    .string()
    .regex(/^[A-Z0-9]{16,128}$/, "must be 16 to 128 capital letters and digits, such as AKIAIOSFODNN7EXAMPLE")
    .meta({ description: "IAM → Users → the user of this mesh → Security credentials → Access keys: its ID." }),
  secret_access_key: secretString("The secret of the access key, which IAM shows once."),
  session_token: secretString(
    "The session token of temporary keys, whose ID begins with ASIA. When it expires, the connection fails.",
  ).optional(),
};

export interface AccessKey {
  readonly access_key_id: string;
  readonly secret_access_key: Secret;
  readonly session_token?: Secret | undefined;
}

export const REGION = /^[a-z]{2,4}(?:-[a-z]{2,12}){1,3}-\d{1,2}$/;
export const REGION_SHAPE = "must be the code of a region, such as eu-west-1";

/** What no look at a single field can find. Repeats nothing of a secret. */
export function accessKeyIssues(key: AccessKey): readonly OptionIssue[] {
  const issues: OptionIssue[] = [];
  const copied = "copy it again, without quotes, blanks or line breaks";
  // What is signed with it would be refused as if the key were another's.
  if (!/^[A-Za-z0-9/+=]{16,128}$/.test(key.secret_access_key.reveal())) {
    issues.push({ path: ["secret_access_key"], message: `is not the secret of an access key: ${copied}` });
  }
  const isTemporary = key.access_key_id.startsWith("ASIA");
  if (isTemporary && !key.session_token) {
    issues.push({ path: ["session_token"], message: "is needed with a temporary key, whose ID begins with ASIA" });
  }
  if (key.session_token && !/^[\x21-\x7e]{16,8192}$/.test(key.session_token.reveal())) {
    issues.push({ path: ["session_token"], message: `is not a session token: ${copied}` });
  }
  return issues;
}

/** The domain of a region's services. */
export function awsDomain(region: string): string {
  return region.startsWith("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
}

/** The first part of an ARN that is not `arn`. */
export function awsPartition(region: string): string {
  if (region.startsWith("cn-")) return "aws-cn";
  return region.startsWith("us-gov-") ? "aws-us-gov" : "aws";
}

export interface UnsignedRequest {
  readonly url: string;
  readonly method: "GET" | "POST";
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: string | undefined;
  /** The name that the service signs under, such as `sns`. */
  readonly service: string;
  readonly region: string;
}

/** What a client sends, with the signature of now over all that it has. */
export interface SignedRequest {
  readonly url: string;
  readonly method: "GET" | "POST";
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
}

export async function signAws(request: UnsignedRequest, key: AccessKey, clock: Clock): Promise<SignedRequest> {
  const { AwsV4Signer } = await import("aws4fetch");
  const { url, method, headers = {}, body, service, region } = request;
  const signer = new AwsV4Signer({
    url,
    method,
    headers: { ...headers },
    ...(body === undefined ? {} : { body }),
    service,
    region,
    accessKeyId: key.access_key_id,
    secretAccessKey: key.secret_access_key.reveal(),
    ...(key.session_token ? { sessionToken: key.session_token.reveal() } : {}),
    datetime: new Date(clock.nowMs()).toISOString().replace(/[:-]|\.\d{3}/g, ""),
    // Else the content type would be left out, which AWS wants signed where it is sent.
    allHeaders: true,
  });
  const signed = await signer.sign();
  return { url, method, headers: Object.fromEntries(signed.headers), body };
}
