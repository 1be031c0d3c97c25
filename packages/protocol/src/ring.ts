import canonicalize from "canonicalize";
import * as z from "zod";
import { deviceIdSchema } from "./identifiers.ts";
import { fromBase64Url, toBase64Url } from "./runtime.ts";

/** A ring must fit the smallest push channel beside the provider's own envelope. */
export const MAX_RING_BYTES = 1536;

/** Collapse keys and ask ids: what every provider that has such a field accepts. */
export const askIdSchema = z.string().regex(/^[A-Za-z0-9_-]{1,32}$/, "must be 1 to 32 letters, digits, _ or -");

/** Where to join and with what. Holds the device's one-room credential and never the provider's secret. */
export const joinInfoSchema = z.object({
  /** Which connector the device needs: `leafmesh`, `room`, `mqtt`, `pubnub`, `ably`, `pusher`, `livekit`. */
  provider: z.string().min(1).max(40),
  /** Address of the service as the device reaches it. */
  url: z.string().max(512).optional(),
  room: z.string().min(1).max(200),
  token: z.string().max(1024).optional(),
  /** What else the connector needs, such as the per-room key of an MQTT room. */
  params: z.record(z.string(), z.string()).optional(),
});
export type JoinInfo = z.infer<typeof joinInfoSchema>;

export const approvalSchema = z.enum(["ask", "silent"]);
export type Approval = z.infer<typeof approvalSchema>;

/** What a notifier carries to a device. Times are whole seconds since the epoch. */
export const ringSchema = z.object({
  v: z.literal(1),
  ask: askIdSchema,
  device: deviceIdSchema,
  approval: approvalSchema,
  /** Name of the mesh, for the notification that a person sees. */
  mesh: z.string().max(80).optional(),
  iat: z.int(),
  /** After this the device does nothing: the room is closed by then. */
  exp: z.int(),
  join: joinInfoSchema,
  /** Key id and Ed25519 signature over the canonical JSON (RFC 8785) of everything else. */
  kid: z.string().max(64).optional(),
  sig: z.string().max(128).optional(),
});
export type Ring = z.infer<typeof ringSchema>;

/** A public key by which a device recognises its mesh: `GET /.well-known/leafmesh-keys` and `leafmesh keys show`. */
export const meshKeySchema = z.object({
  kid: z.string(),
  kty: z.literal("OKP"),
  crv: z.literal("Ed25519"),
  /** The raw public key in URL-safe base64. */
  x: z.string(),
});
export type MeshKey = z.infer<typeof meshKeySchema>;

/** The public key as published. `privateKey` stays with the mesh. */
export interface RingSigner {
  readonly key: MeshKey;
  sign(ring: Omit<Ring, "kid" | "sig">): Promise<Ring>;
}

/** An Ed25519 key whose owner signs and hashes at once: WebCrypto waits for a thread, and Node loads it on first use. */
export interface NativeRingKey {
  /** The raw public key, and its SHA-256. */
  readonly publicKey: Uint8Array;
  readonly publicKeyHash: Uint8Array;
  signNow(bytes: Uint8Array): Uint8Array;
}

/**
 * A signer over an Ed25519 key: a pair of WebCrypto, whose `privateKey` must allow `sign` and whose `publicKey` must be
 * extractable, or one that does without.
 */
export async function createRingSigner(owner: CryptoKeyPair | NativeRingKey): Promise<RingSigner> {
  const { publicKey, publicKeyHash, sign } = "signNow" in owner ? fromNative(owner) : await fromPair(owner);
  const kid = toBase64Url(publicKeyHash.slice(0, 9));
  return {
    key: { kid, kty: "OKP", crv: "Ed25519", x: toBase64Url(publicKey) },
    async sign(ring) {
      const named = { ...ring, kid };
      return { ...named, sig: toBase64Url(await sign(signedBytes(named))) };
    },
  };
}

interface SigningKey {
  readonly publicKey: Uint8Array;
  readonly publicKeyHash: Uint8Array;
  readonly sign: (bytes: Uint8Array<ArrayBuffer>) => Uint8Array | Promise<Uint8Array>;
}

function fromNative(key: NativeRingKey): SigningKey {
  const { publicKey, publicKeyHash } = key;
  return { publicKey, publicKeyHash, sign: (bytes) => key.signNow(bytes) };
}

async function fromPair({ publicKey, privateKey }: CryptoKeyPair): Promise<SigningKey> {
  const raw = new Uint8Array(await crypto.subtle.exportKey("raw", publicKey));
  return {
    publicKey: raw,
    publicKeyHash: new Uint8Array(await crypto.subtle.digest("SHA-256", raw)),
    sign: async (bytes) => new Uint8Array(await crypto.subtle.sign("Ed25519", privateKey, bytes)),
  };
}

/** Whether `ring` was signed by one of `keys`. Never throws: a malformed signature or key is `false`. */
export async function isRingFrom(ring: Ring, keys: readonly MeshKey[]): Promise<boolean> {
  const key = keys.find((candidate) => candidate.kid === ring.kid);
  if (!key || !ring.sig) return false;
  try {
    const publicKey = await importedKey(key);
    return await crypto.subtle.verify("Ed25519", publicKey, fromBase64Url(ring.sig), signedBytes(ring));
  } catch {
    return false;
  }
}

/** By the key object itself: a device checks every ring with the same few, and a list that is let go takes them along. */
const importedKeys = new WeakMap<MeshKey, { readonly x: string; readonly imported: Promise<CryptoKey> }>();

function importedKey(key: MeshKey): Promise<CryptoKey> {
  const { x } = key;
  const known = importedKeys.get(key);
  if (known?.x === x) return known.imported;
  const imported = crypto.subtle.importKey("raw", fromBase64Url(x), "Ed25519", false, ["verify"]);
  importedKeys.set(key, { x, imported });
  return imported;
}

function signedBytes(ring: Omit<Ring, "sig"> & { sig?: string | undefined }): Uint8Array<ArrayBuffer> {
  const { sig: _signature, ...signed } = ring;
  return new TextEncoder().encode(canonicalize(signed) ?? "");
}
