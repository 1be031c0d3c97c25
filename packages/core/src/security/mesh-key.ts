import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, sign } from "node:crypto";
import { join } from "node:path";
import type { NativeRingKey } from "@leafmesh/protocol";
import { createKeyFile, KeyFileError, readKeyFile } from "./key-file.ts";
import { SealError, type Sealer } from "./sealer.ts";

const CONTEXT = "mesh_key";
const UNSEALED = "pkcs8.";
const SEALED = "sealed.";

/**
 * The Ed25519 key pair by which devices recognise this mesh, for `createRingSigner`. It lies in `<folder>/mesh.key`
 * (PKCS #8 in base64, mode 0600; sealed when a sealer is given) and is made when it is missing. The private key signs
 * and is not handed out.
 *
 * @throws {KeyFileError} when the file holds no such key, was sealed with another secret key, or can be read by others
 */
export async function loadMeshKey({
  folder,
  sealer,
}: {
  readonly folder: string;
  readonly sealer?: Sealer | undefined;
}): Promise<NativeRingKey> {
  const path = join(folder, "mesh.key");
  const text = (await readKeyFile(path)) ?? (await createKeyFile(path, newKeyText(sealer)));
  return importKey(path, unwrap(path, text, sealer));
}

/**
 * The same key pair for every process of a mesh: `agree` keeps the first text that any of them brings, sealed.
 *
 * @throws {KeyFileError} when it was sealed with another secret key than this process has
 */
export async function shareMeshKey({
  sealer,
  place,
  agree,
}: {
  readonly sealer: Sealer;
  /** Where the text is kept, for messages. */
  readonly place: string;
  readonly agree: (text: string) => Promise<string>;
}): Promise<NativeRingKey> {
  const text = await agree(newKeyText(sealer));
  try {
    return importKey(place, unwrap(place, text, sealer));
  } catch (error) {
    if (!(error instanceof KeyFileError)) throw error;
    throw new KeyFileError(
      place,
      "holds a mesh key that this process's secret key does not open; give every process the same LEAFMESH_SECRET_KEY",
      { cause: error },
    );
  }
}

function newKeyText(sealer: Sealer | undefined): string {
  const { privateKey } = generateKeyPairSync("ed25519");
  const pkcs8 = privateKey.export({ format: "der", type: "pkcs8" }).toString("base64");
  return sealer ? `${SEALED}${sealer.seal(pkcs8, CONTEXT)}` : `${UNSEALED}${pkcs8}`;
}

function unwrap(path: string, text: string, sealer: Sealer | undefined): Buffer {
  if (text.startsWith(UNSEALED)) return Buffer.from(text.slice(UNSEALED.length), "base64");
  if (!text.startsWith(SEALED)) throw notAKey(path);
  if (!sealer) throw new KeyFileError(path, "is sealed and the mesh was started without its secret key");
  try {
    return Buffer.from(sealer.open(text.slice(SEALED.length), CONTEXT), "base64");
  } catch (cause) {
    if (!(cause instanceof SealError)) throw cause;
    throw new KeyFileError(
      path,
      "does not open with this secret key; start with the one it was made with, or remove the file to make a new mesh key (devices that know the old one then refuse rings)",
      { cause },
    );
  }
}

function importKey(path: string, pkcs8: Buffer): NativeRingKey {
  try {
    const key = createPrivateKey({ key: pkcs8, format: "der", type: "pkcs8" });
    if (key.asymmetricKeyType !== "ed25519") throw new TypeError(`it is a key for ${key.asymmetricKeyType}`);
    // The last 32 bytes of an Ed25519 key in SPKI are the key itself (RFC 8410).
    const publicKey = createPublicKey(key).export({ format: "der", type: "spki" }).subarray(-32);
    return {
      publicKey,
      publicKeyHash: createHash("sha256").update(publicKey).digest(),
      signNow: (bytes) => sign(null, bytes, key),
    };
  } catch (cause) {
    throw notAKey(path, cause);
  }
}

function notAKey(path: string, cause?: unknown): KeyFileError {
  return new KeyFileError(
    path,
    "does not hold an Ed25519 key; restore it from a backup, or remove it to make a new mesh key (devices that know the old one then refuse rings)",
    { cause },
  );
}
