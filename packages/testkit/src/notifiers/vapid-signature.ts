/**
 * Judges who sends, as push services do. Pure.
 *
 * https://www.rfc-editor.org/rfc/rfc8292
 */
import { createPublicKey, type KeyObject, verify } from "node:crypto";
import * as z from "zod";

export interface VapidRequest {
  readonly authorization: string | undefined;
  /** Of the push service that was called. */
  readonly origin: string;
  readonly nowMs: number;
}

/** Whose public key (base64url) the request is signed with, or what is wrong with it. */
export type VapidVerdict = { readonly publicKey: string } | { readonly refusal: string };

const MAX_AHEAD_SECONDS = 24 * 60 * 60;
const headerSchema = z.object({ typ: z.literal("JWT").optional(), alg: z.literal("ES256") });
const claimsSchema = z.object({
  aud: z.string(),
  exp: z.int(),
  sub: z.string().regex(/^(?:mailto:[^\s<>@]+@[^\s<>@]+|https:\/\/[^\s<>]+)$/),
});

export function judgeVapid({ authorization = "", origin, nowMs }: VapidRequest): VapidVerdict {
  const [, jwt = "", publicKey = ""] = /^vapid t=([\w.-]+), ?k=([\w-]{87})$/.exec(authorization) ?? [];
  const [head = "", body = "", signature = "", ...more] = jwt.split(".");
  const header = headerSchema.safeParse(decoded(head));
  const claims = claimsSchema.safeParse(decoded(body));
  if (more.length > 0 || !header.success || !claims.success) return { refusal: "Invalid VAPID token" };
  const key = keyOf(publicKey);
  const signed = Buffer.from(`${head}.${body}`);
  const asJwtHasIt = { key, dsaEncoding: "ieee-p1363" } as const;
  if (!key || !verify("sha256", signed, { ...asJwtHasIt, key }, Buffer.from(signature, "base64url"))) {
    return { refusal: "Invalid VAPID signature" };
  }
  const { aud, exp } = claims.data;
  if (aud !== origin) return { refusal: "Invalid VAPID audience" };
  const leftSeconds = exp - nowMs / 1000;
  if (leftSeconds <= 0 || leftSeconds > MAX_AHEAD_SECONDS) return { refusal: "Invalid VAPID expiration" };
  return { publicKey };
}

function keyOf(publicKey: string): KeyObject | undefined {
  const point = Buffer.from(publicKey, "base64url");
  const x = point.subarray(1, 33).toString("base64url");
  const y = point.subarray(33).toString("base64url");
  try {
    return createPublicKey({ key: { kty: "EC", crv: "P-256", x, y }, format: "jwk" });
  } catch {
    return undefined;
  }
}

function decoded(part: string): unknown {
  try {
    return JSON.parse(Buffer.from(part, "base64url").toString("utf8"));
  } catch {
    return undefined;
  }
}
