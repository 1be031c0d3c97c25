/** What Ably makes of a key, a signed token request and a JWT. https://ably.com/docs/auth/token */
import { createHmac, timingSafeEqual } from "node:crypto";
import * as z from "zod";

/** Operations by channel, where a channel may end in `*`. */
export type Capability = Readonly<Record<string, readonly string[]>>;

export interface AblyIdentity {
  readonly capability: Capability;
  readonly clientId: string | undefined;
  /** Wall clock. */
  readonly expiresAtMs: number;
  readonly revocationKey: string | undefined;
}

/** Ably's own words: https://ably.com/docs/platform/errors/codes */
export interface AblyError {
  readonly code: number;
  readonly statusCode: number;
  readonly message: string;
}

export const ABLY_ERRORS = {
  badKey: { code: 40101, statusCode: 401, message: "invalid credentials" },
  badToken: { code: 40140, statusCode: 401, message: "token unrecognised" },
  tokenExpired: { code: 40142, statusCode: 401, message: "token expired" },
  tokenRevoked: { code: 40141, statusCode: 401, message: "token revoked" },
  noRight: { code: 40160, statusCode: 401, message: "action not permitted, insufficient capability" },
  noClientId: { code: 91000, statusCode: 400, message: "unable to enter presence channel (no clientId)" },
  clientIdMismatch: { code: 40012, statusCode: 400, message: "mismatched clientId" },
  tooLarge: { code: 40009, statusCode: 400, message: "maximum message length exceeded" },
  notRevocable: { code: 40020, statusCode: 400, message: "revocable tokens are not enabled for this key" },
  replayed: { code: 40105, statusCode: 401, message: "nonce value replayed" },
} as const satisfies Record<string, AblyError>;

const claimsSchema = z.object({
  iat: z.int(),
  exp: z.int(),
  "x-ably-capability": z.string(),
  "x-ably-clientId": z.string().optional(),
  "x-ably-revocation-key": z.string().optional(),
});
const headerSchema = z.object({ alg: z.literal("HS256"), kid: z.string() });

/** A JWT signed with the key's secret; its rights are at most the key's. */
export function identifyJwt(
  token: string,
  key: { readonly name: string; readonly secret: string; readonly capability: Capability },
  nowMs: number,
): AblyIdentity | AblyError {
  const [header = "", claims = "", signature = ""] = token.split(".");
  const { kid } = headerSchema.safeParse(decoded(header)).data ?? {};
  if (kid !== key.name || !sameText(hmac(key.secret, `${header}.${claims}`, "base64url"), signature)) {
    return ABLY_ERRORS.badKey;
  }
  const parsed = claimsSchema.safeParse(decoded(claims)).data;
  if (!parsed) return ABLY_ERRORS.badToken;
  if (parsed.exp * 1000 <= nowMs) return ABLY_ERRORS.tokenExpired;
  const asked = capabilityOf(parsed["x-ably-capability"]);
  if (!asked) return ABLY_ERRORS.badToken;
  return {
    capability: intersection(asked, key.capability),
    clientId: parsed["x-ably-clientId"],
    expiresAtMs: parsed.exp * 1000,
    revocationKey: parsed["x-ably-revocation-key"],
  };
}

export const tokenRequestSchema = z.object({
  keyName: z.string(),
  ttl: z.coerce.number().optional(),
  capability: z.string(),
  clientId: z.string().optional(),
  timestamp: z.number(),
  nonce: z.string().min(16),
  mac: z.string(),
});

/** The rights that a signed request for a token would get. https://ably.com/docs/api/token-request-spec */
export function checkTokenRequest(
  request: z.infer<typeof tokenRequestSchema>,
  key: { readonly name: string; readonly secret: string; readonly capability: Capability },
): Capability | AblyError {
  const { keyName, ttl, capability, clientId, timestamp, nonce, mac } = request;
  const signed = [keyName, ttl ?? "", capability, clientId ?? "", timestamp, nonce].map((part) => `${part}\n`).join("");
  if (keyName !== key.name || !sameText(hmac(key.secret, signed, "base64"), mac)) return ABLY_ERRORS.badKey;
  const asked = capabilityOf(capability);
  if (!asked) return ABLY_ERRORS.badToken;
  const granted = intersection(asked, key.capability);
  return Object.keys(granted).length === 0 ? ABLY_ERRORS.noRight : granted;
}

export function mayDo(capability: Capability, channel: string, operation: string): boolean {
  return Object.entries(capability).some(
    ([pattern, operations]) =>
      matches(pattern, channel) && (operations.includes(operation) || operations.includes("*")),
  );
}

function capabilityOf(text: string): Capability | undefined {
  return z.record(z.string(), z.array(z.string())).safeParse(parsedJson(text)).data;
}

function intersection(asked: Capability, owned: Capability): Capability {
  const granted = Object.entries(asked).map(
    ([channel, operations]) => [channel, operations.filter((operation) => mayDo(owned, channel, operation))] as const,
  );
  return Object.fromEntries(granted.filter(([, operations]) => operations.length > 0));
}

/** A `*` stands for the whole rest. */
function matches(pattern: string, channel: string): boolean {
  return pattern.endsWith("*") ? channel.startsWith(pattern.slice(0, -1)) : pattern === channel;
}

function decoded(part: string): unknown {
  return parsedJson(Buffer.from(part, "base64url").toString("utf8"));
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function hmac(secret: string, text: string, encoding: "base64" | "base64url"): string {
  return createHmac("sha256", secret).update(text).digest(encoding);
}

function sameText(left: string, right: string): boolean {
  const [a, b] = [Buffer.from(left), Buffer.from(right)];
  return a.length === b.length && timingSafeEqual(a, b);
}
