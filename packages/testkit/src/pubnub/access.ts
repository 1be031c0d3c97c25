/** PubNub's Access Manager v3: signatures of the secret key, and tokens. https://www.pubnub.com/docs/general/security/access-control */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import * as z from "zod";
import type { ParsedQuery } from "./request.ts";

export interface PubNubKeys {
  readonly publishKey: string;
  readonly subscribeKey: string;
  readonly secretKey: string;
}

/** A request with the `timestamp` of another time is refused. */
const CLOCK_LEEWAY_SECONDS = 60;

export const RIGHT = { read: 1, write: 2 } as const;

const grantSchema = z.object({
  ttl: z.int().min(1).max(43_200),
  permissions: z.object({
    resources: z.object({ channels: z.record(z.string(), z.int()) }),
    uuid: z.string().optional(),
  }),
});

interface Token {
  readonly channels: Readonly<Record<string, number>>;
  readonly uuid: string | undefined;
  readonly expiresAtMs: number;
}

export interface AccessManager {
  /** `undefined` when the body is none. */
  grant(body: string): string | undefined;
  revoke(token: string): boolean;
  /** Whether the request may do this on the channel: with the secret key's signature everything, else with its token. */
  allows(request: SignedRequest, channel: string, right: number): boolean;
  isSigned(request: SignedRequest): boolean;
}

export interface SignedRequest {
  readonly method: string;
  readonly path: string;
  readonly query: ParsedQuery;
  readonly body: string;
}

export function createAccessManager(keys: PubNubKeys): AccessManager {
  const tokens = new Map<string, Token>();

  const isSigned = ({ method, path, query, body }: SignedRequest): boolean => {
    const { signature, timestamp } = query.values;
    if (signature === undefined || Math.abs(Date.now() / 1000 - Number(timestamp)) > CLOCK_LEEWAY_SECONDS) return false;
    // A message that is posted is signed as if it were not.
    const signedMethod = path.startsWith("/publish") ? "GET" : method;
    const signedBody = signedMethod === "POST" ? body : "";
    const text = `${signedMethod}\n${keys.publishKey}\n${path}\n${query.withoutSignature}\n${signedBody}`;
    const expected = `v2.${createHmac("sha256", keys.secretKey).update(text).digest("base64url")}`;
    const [left, right] = [Buffer.from(expected), Buffer.from(signature)];
    return left.length === right.length && timingSafeEqual(left, right);
  };

  return {
    isSigned,
    grant(body) {
      const parsed = grantSchema.safeParse(JSON.parse(body)).data;
      if (!parsed) return undefined;
      const { ttl, permissions } = parsed;
      const token = `qEF2AkF0${randomBytes(150).toString("base64url")}`;
      const { channels } = permissions.resources;
      tokens.set(token, { channels, uuid: permissions.uuid, expiresAtMs: Date.now() + ttl * 60_000 });
      return token;
    },
    revoke: (token) => tokens.delete(token),
    allows(request, channel, right) {
      if (isSigned(request)) return true;
      const { auth = "", uuid } = request.query.values;
      const token = tokens.get(auth);
      if (!token || token.expiresAtMs < Date.now()) return false;
      if (token.uuid !== undefined && token.uuid !== uuid) return false;
      return ((token.channels[channel] ?? 0) & right) !== 0;
    },
  };
}
