/**
 * Who sends: the VAPID key of an operator, and what is signed with it for each push service.
 *
 * https://www.rfc-editor.org/rfc/rfc8292
 */
import { createECDH, createPrivateKey, type KeyObject, sign } from "node:crypto";
import type { Clock, Secret } from "@leafmesh/protocol";

export interface VapidKey {
  readonly privateKey: KeyObject;
  /** What pages subscribe with (`applicationServerKey`): base64url of a point in 65 bytes. */
  readonly publicKey: string;
}

const PRIVATE_KEY_BYTES = 32;
const PUBLIC_KEY_BYTES = 65;
const HOUR_MS = 3_600_000;
/** Push services take at most 24 hours. */
export const SIGNED_FOR_MS = 12 * HOUR_MS;
/** Apple asks not to change a signature more than once an hour. */
const USED_FOR_MS = 6 * HOUR_MS;
/** Origins come from devices; a signature costs less than a millisecond. */
const MAX_ORIGINS = 64;

/** The key in a record's field, or what is wrong with it. Never quotes it. */
export function readVapidKey(field: Secret): { readonly key: VapidKey } | { readonly issue: string } {
  const text = field.reveal().trim();
  if (text.includes("-----BEGIN")) {
    return { issue: "is a PEM file; it must be the 43 characters (base64url) that such a key has for web push" };
  }
  const bytes = Buffer.from(text, "base64url");
  const isBase64 = /^[A-Za-z0-9+/_-]+={0,2}$/.test(text);
  if (isBase64 && bytes.byteLength === PUBLIC_KEY_BYTES) {
    return { issue: "holds the public key, which is for the page; it must be the private key of that pair" };
  }
  const pair = createECDH("prime256v1");
  try {
    if (!isBase64 || bytes.byteLength !== PRIVATE_KEY_BYTES) throw new Error("another length");
    pair.setPrivateKey(bytes);
  } catch {
    return { issue: "must be a private key of P-256 in 43 characters (base64url), as tools for VAPID keys print it" };
  }
  const point = pair.getPublicKey();
  const jwk = {
    ...{ kty: "EC", crv: "P-256", d: bytes.toString("base64url") },
    x: point.subarray(1, 33).toString("base64url"),
    y: point.subarray(33).toString("base64url"),
  };
  return { key: { privateKey: createPrivateKey({ key: jwk, format: "jwk" }), publicKey: point.toString("base64url") } };
}

/** The value of `authorization` for a push service. */
export type VapidSigner = (origin: string) => string;

/**
 * Signs once for each push service, and anew after six hours of the wall clock, which is the one that services compare
 * with: a machine that slept does not send what has run out.
 */
export function createVapidSigner({ privateKey, publicKey }: VapidKey, contact: string, clock: Clock): VapidSigner {
  const signed = new Map<string, { readonly header: string; readonly atMs: number }>();
  return (origin) => {
    const nowMs = clock.nowMs();
    const known = signed.get(origin);
    if (known && nowMs >= known.atMs && nowMs - known.atMs < USED_FOR_MS) return known.header;
    const claims = { aud: origin, exp: Math.floor((nowMs + SIGNED_FOR_MS) / 1000), sub: contact };
    const text = `${encoded({ typ: "JWT", alg: "ES256" })}.${encoded(claims)}`;
    const signature = sign("sha256", Buffer.from(text), { key: privateKey, dsaEncoding: "ieee-p1363" });
    const header = `vapid t=${text}.${signature.toString("base64url")}, k=${publicKey}`;
    signed.delete(origin);
    const [oldest] = signed.keys();
    if (oldest !== undefined && signed.size >= MAX_ORIGINS) signed.delete(oldest);
    signed.set(origin, { header, atMs: nowMs });
    return header;
  };
}

function encoded(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString("base64url");
}
