/**
 * What Amazon checks of a request's signature (version 4), from the request as it came. Pure, and written apart from
 * what signs. https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
 */
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import type { VendorRequest } from "./vendor-server.ts";

/** An access key that is known. */
export interface PlayedAccessKey {
  readonly secret: string;
  /** With temporary keys, which are nothing without it. */
  readonly sessionToken?: string | undefined;
  readonly expiresAtMs?: number | undefined;
}

export interface AwsSignatureToJudge {
  readonly request: Pick<VendorRequest, "method" | "target" | "headers" | "body">;
  /** By their ids. */
  readonly keys: Readonly<Record<string, PlayedAccessKey>>;
  readonly region: string;
  readonly service: string;
  readonly nowMs: number;
}

export type AwsSignatureFlaw =
  | "missing"
  | "malformed"
  | "unknown_key"
  | "session_token"
  | "expired_token"
  | "scope"
  | "clock"
  | "signature";

export type AwsSignatureVerdict = { readonly keyId: string } | { readonly flaw: AwsSignatureFlaw };

const HEADER =
  /^AWS4-HMAC-SHA256 Credential=(\w{1,128})\/(\d{8})\/([\w-]+)\/([\w-]+)\/aws4_request, ?SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})$/;
const SKEW_MS = 15 * 60_000;

export function judgeAwsSignature({ request, keys, region, service, nowMs }: AwsSignatureToJudge): AwsSignatureVerdict {
  const { authorization } = request.headers;
  if (authorization === undefined) return { flaw: "missing" };
  const [, keyId = "", date = "", inRegion, ofService, names = "", given = ""] = HEADER.exec(authorization) ?? [];
  const time = headerOf(request, "x-amz-date");
  if (keyId === "" || !/^\d{8}T\d{6}Z$/.test(time)) return { flaw: "malformed" };
  const key = Object.hasOwn(keys, keyId) ? keys[keyId] : undefined;
  if (!key) return { flaw: "unknown_key" };
  if (headerOf(request, "x-amz-security-token") !== (key.sessionToken ?? "")) return { flaw: "session_token" };
  if (key.expiresAtMs !== undefined && key.expiresAtMs <= nowMs) return { flaw: "expired_token" };
  if (inRegion !== region || ofService !== service || !time.startsWith(date)) return { flaw: "scope" };
  if (Math.abs(timeOf(time) - nowMs) > SKEW_MS) return { flaw: "clock" };

  const signed = names.split(";");
  // Whoever could leave these out could change them on the way.
  const needed = ["host", ...Object.keys(request.headers).filter((name) => MUST_BE_SIGNED.test(name))];
  if (signed.join() !== signed.toSorted().join() || needed.some((name) => !signed.includes(name))) {
    return { flaw: "signature" };
  }
  const scope = `${date}/${region}/${service}/aws4_request`;
  const toSign = ["AWS4-HMAC-SHA256", time, scope, sha256(canonical(request, signed))].join("\n");
  const signingKey = [region, service, "aws4_request"].reduce(hmac, hmac(`AWS4${key.secret}`, date));
  const wanted = hmac(signingKey, toSign);
  return timingSafeEqual(wanted, Buffer.from(given, "hex")) ? { keyId } : { flaw: "signature" };
}

const MUST_BE_SIGNED = /^(?:content-type|x-amz-.*)$/;

function canonical(request: AwsSignatureToJudge["request"], signed: readonly string[]): string {
  const at = request.target.indexOf("?");
  const path = at < 0 ? request.target : request.target.slice(0, at);
  const query = at < 0 ? "" : request.target.slice(at + 1);
  return [
    request.method,
    // Each segment once more: services other than S3 encode what is encoded.
    path.split("/").map(encoded).join("/"),
    canonicalQuery(query),
    ...signed.map((name) => `${name}:${headerOf(request, name).trim().replace(/ +/g, " ")}`),
    "",
    signed.join(";"),
    sha256(request.body),
  ].join("\n");
}

function canonicalQuery(query: string): string {
  if (query === "") return "";
  const pairs = query.split("&").map((pair) => {
    const at = pair.indexOf("=");
    const [name, value] = at < 0 ? [pair, ""] : [pair.slice(0, at), pair.slice(at + 1)];
    return [name, value].map((part) => encoded(decodeURIComponent(part))).join("=");
  });
  return pairs.toSorted((a, b) => (a < b ? -1 : 1)).join("&");
}

/** RFC 3986, which leaves fewer characters as they are than `encodeURIComponent`. */
function encoded(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}

function headerOf({ headers }: AwsSignatureToJudge["request"], name: string): string {
  return headers[name]?.toString() ?? "";
}

function timeOf(time: string): number {
  return Date.parse(time.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, "$1-$2-$3T$4:$5:$6Z"));
}

function hmac(key: string | Uint8Array, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}

function sha256(content: string | Uint8Array): string {
  return createHash("sha256").update(content).digest("hex");
}
