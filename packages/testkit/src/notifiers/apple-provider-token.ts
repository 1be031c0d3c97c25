/** Judges a provider token as Apple does. Pure. */
import { verify } from "node:crypto";
import * as z from "zod";

export type AppleEnvironment = "production" | "sandbox";

/** A key of Apple's console. */
export interface AppleKey {
  readonly keyId: string;
  readonly teamId: string;
  /** PEM of the public half. */
  readonly publicKey: string;
  /** Where it may send; default both. */
  readonly environments?: readonly AppleEnvironment[] | undefined;
  /** Apps that it may send to; default all of its team's. */
  readonly topics?: readonly string[] | undefined;
}

export type TokenVerdict = { readonly key: AppleKey } | { readonly refusal: string };

const MAX_AGE_SECONDS = 3600;
const MAX_AHEAD_SECONDS = 60;
const headerSchema = z.object({ alg: z.literal("ES256"), kid: z.string() });
const claimsSchema = z.object({ iss: z.string(), iat: z.int() });

/** Whose token it is, or the reason with the status 403. `authorization` is the header as it came. */
export function judgeProviderToken(
  authorization: string | undefined,
  keys: readonly AppleKey[],
  environment: AppleEnvironment,
  nowMs: number,
): TokenVerdict {
  if (authorization === undefined) return { refusal: "MissingProviderToken" };
  const [, jwt = ""] = /^bearer (\S+)$/i.exec(authorization) ?? [];
  const [head = "", body = "", signature = "", ...more] = jwt.split(".");
  const header = headerSchema.safeParse(decoded(head));
  const claims = claimsSchema.safeParse(decoded(body));
  if (more.length > 0 || !header.success || !claims.success) return { refusal: "InvalidProviderToken" };
  const { kid } = header.data;
  const { iss, iat } = claims.data;
  const key = keys.find(({ keyId, teamId }) => keyId === kid && teamId === iss);
  if (!key) {
    const isOfAnotherTeam = keys.some(({ keyId }) => keyId === kid);
    return { refusal: isOfAnotherTeam ? "UnrelatedKeyIdInToken" : "InvalidProviderToken" };
  }
  const asJwtHasIt = { key: key.publicKey, dsaEncoding: "ieee-p1363" } as const;
  if (!verify("sha256", Buffer.from(`${head}.${body}`), asJwtHasIt, Buffer.from(signature, "base64url"))) {
    return { refusal: "InvalidProviderToken" };
  }
  const ageSeconds = nowMs / 1000 - iat;
  if (ageSeconds > MAX_AGE_SECONDS) return { refusal: "ExpiredProviderToken" };
  if (ageSeconds < -MAX_AHEAD_SECONDS) return { refusal: "InvalidProviderToken" };
  if (key.environments?.includes(environment) === false) return { refusal: "BadEnvironmentKeyIdInToken" };
  return { key };
}

function decoded(part: string): unknown {
  try {
    return JSON.parse(Buffer.from(part, "base64url").toString("utf8"));
  } catch {
    return undefined;
  }
}
