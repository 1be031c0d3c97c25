/**
 * Seat tokens: compact JWS (RFC 7515) with `typ: lmr+jwt`, HS256 and nothing else (RFC 8725, 3.1 and 3.11). Opaque to
 * everyone but the service. That a token is used once is the room's to know; here it only has to be genuine.
 *
 * Signed and checked with `node:crypto` where it is called: WebCrypto, which JOSE libraries stand on, sends each token
 * through a thread of its pool, and two of those trips lie on the way of every ask.
 */
import { createHmac, createSecretKey, type KeyObject, randomBytes, timingSafeEqual } from "node:crypto";
import { type Clock, type RoomSeat, roomSeatSchema, type Secret } from "@leafmesh/protocol";
import * as z from "zod";

const ALGORITHM = "HS256";
const TYPE = "lmr+jwt";
const ISSUER = "leafmesh";
const AUDIENCE = "leafmesh-room/1";
/** The room itself ends a token's life to the millisecond; this only keeps a wall clock that jumps from doing it early. */
const CLOCK_TOLERANCE_S = 60;
const SMALLEST_KEY_BYTES = 32;

/** A signing key. The first of a list signs, all verify, so that keys can rotate. */
export interface TokenKey {
  /** Goes into the token's header: no secret. */
  readonly kid: string;
  /** At least 32 bytes. */
  readonly secret: Secret;
}

export interface TokenClaims {
  readonly room: string;
  readonly seat: RoomSeat;
  readonly jti: string;
}

export interface SeatTokens {
  /** `expiresAtMs` is wall time. */
  sign(claims: TokenClaims, expiresAtMs: number): Promise<string>;
  /** The claims of a genuine token that is within its time; `undefined` for anything else, without a reason. */
  verify(token: string): Promise<TokenClaims | undefined>;
}

/** Exactly the header that `sign` writes: an extension (`crit`) or any other field is not ours. */
const headerSchema = z.strictObject({ alg: z.literal(ALGORITHM), typ: z.literal(TYPE), kid: z.string() });
const payloadSchema = z.object({
  room: z.string(),
  seat: roomSeatSchema,
  iss: z.literal(ISSUER),
  aud: z.literal(AUDIENCE),
  jti: z.string(),
  iat: z.number(),
  exp: z.number(),
});

/** Without keys a random one is made: tokens then die with the process, as the rooms do. */
export function createSeatTokens(clock: Clock, keys: readonly TokenKey[] = []): SeatTokens {
  const listed = keys.map(({ kid, secret }) => [kid, Buffer.from(secret.reveal())] as const);
  if (listed.length === 0) listed.push(["0", randomBytes(SMALLEST_KEY_BYTES)]);
  const tooShort = listed.find(([, bytes]) => bytes.byteLength < SMALLEST_KEY_BYTES);
  const known = new Map(listed.map(([kid, bytes]) => [kid, createSecretKey(bytes)]));
  const [signing] = known;
  /** A key that cannot be used fails the first use, not the process. */
  const check = (): void => {
    if (tooShort) throw new RangeError(`token key ${tooShort[0]} must have at least ${SMALLEST_KEY_BYTES} bytes`);
  };
  return {
    async sign({ room, seat, jti }, expiresAtMs) {
      check();
      if (!signing) throw new Error("no token key");
      const [kid, key] = signing;
      const iat = Math.floor(clock.nowMs() / 1000);
      const payload = { room, seat, iss: ISSUER, aud: AUDIENCE, jti, iat, exp: Math.ceil(expiresAtMs / 1000) };
      const signed = `${encode({ alg: ALGORITHM, typ: TYPE, kid })}.${encode(payload)}`;
      return `${signed}.${hmac(key, signed).toString("base64url")}`;
    },
    async verify(token) {
      check();
      const [header = "", payload = "", signature = "", ...rest] = token.split(".");
      if (rest.length > 0) return undefined;
      const key = known.get(headerSchema.safeParse(decode(header)).data?.kid ?? "");
      if (!key) return undefined;
      const given = Buffer.from(signature, "base64url");
      const right = hmac(key, `${header}.${payload}`);
      if (given.length !== right.length || !timingSafeEqual(given, right)) return undefined;
      const claims = payloadSchema.safeParse(decode(payload)).data;
      if (!claims || claims.exp <= clock.nowMs() / 1000 - CLOCK_TOLERANCE_S) return undefined;
      return { room: claims.room, seat: claims.seat, jti: claims.jti };
    },
  };
}

function hmac(key: KeyObject, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}

function encode(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

/** `undefined` for what is no JSON. */
function decode(part: string): unknown {
  try {
    return JSON.parse(Buffer.from(part, "base64url").toString());
  } catch {
    return undefined;
  }
}
