/**
 * Seat tokens: compact JWS (RFC 7515) with `typ: lmr+jwt`, HS256 and nothing else (RFC 8725, 3.1 and 3.11). Opaque to
 * everyone but the service. That a token is used once is the room's to know; here it only has to be genuine.
 */
import { type Clock, type RoomSeat, roomSeatSchema, type Secret } from "@leafmesh/protocol";
import { jwtVerify, SignJWT } from "jose";
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

const claimsSchema = z.object({ room: z.string(), seat: roomSeatSchema, jti: z.string() });

/** Without keys a random one is made: tokens then die with the process, as the rooms do. */
export function createSeatTokens(clock: Clock, keys: readonly TokenKey[] = []): SeatTokens {
  const imported = importKeys(keys);
  // A key that cannot be imported fails the first use, not the process.
  imported.catch(() => {});
  return {
    async sign({ room, seat, jti }, expiresAtMs) {
      const [signing] = await imported;
      if (!signing) throw new Error("no token key");
      const [kid, key] = signing;
      return new SignJWT({ room, seat })
        .setProtectedHeader({ alg: ALGORITHM, typ: TYPE, kid })
        .setIssuer(ISSUER)
        .setAudience(AUDIENCE)
        .setJti(jti)
        .setIssuedAt(Math.floor(clock.nowMs() / 1000))
        .setExpirationTime(Math.ceil(expiresAtMs / 1000))
        .sign(key);
    },
    async verify(token) {
      const known = new Map(await imported);
      try {
        const { payload } = await jwtVerify(
          token,
          ({ kid }) => {
            const key = known.get(kid ?? "");
            if (!key) throw new Error("unknown key");
            return key;
          },
          {
            algorithms: [ALGORITHM],
            typ: TYPE,
            issuer: ISSUER,
            audience: AUDIENCE,
            requiredClaims: ["exp", "iat", "jti", "room", "seat"],
            currentDate: new Date(clock.nowMs()),
            clockTolerance: CLOCK_TOLERANCE_S,
          },
        );
        return claimsSchema.safeParse(payload).data;
      } catch {
        return undefined;
      }
    },
  };
}

async function importKeys(keys: readonly TokenKey[]): Promise<(readonly [kid: string, key: CryptoKey])[]> {
  if (keys.length === 0) return [["0", await importKey(crypto.getRandomValues(new Uint8Array(32)))]];
  return Promise.all(
    keys.map(async ({ kid, secret }) => {
      const bytes = new TextEncoder().encode(secret.reveal());
      if (bytes.byteLength < SMALLEST_KEY_BYTES) {
        throw new RangeError(`token key ${kid} must have at least ${SMALLEST_KEY_BYTES} bytes`);
      }
      return [kid, await importKey(bytes)] as const;
    }),
  );
}

function importKey(bytes: Uint8Array<ArrayBuffer>): Promise<CryptoKey> {
  return crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign", "verify"]);
}
