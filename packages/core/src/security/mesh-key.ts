import { createPrivateKey, createPublicKey, sign } from "node:crypto";
import { join } from "node:path";
import { createKeyFile, KeyFileError, readKeyFile } from "./key-file.ts";
import { SealError, type Sealer } from "./sealer.ts";

const ED25519 = { name: "Ed25519" } as const;
const CONTEXT = "mesh_key";
const UNSEALED = "pkcs8.";
const SEALED = "sealed.";

export interface MeshKeyPair extends CryptoKeyPair {
  /** The signature of `privateKey`, without the trip to a thread that WebCrypto takes for each. */
  signNow(bytes: Uint8Array): Uint8Array;
}

/**
 * The Ed25519 key pair by which devices recognise this mesh, for `createRingSigner`. It lies in `<folder>/mesh.key`
 * (PKCS #8 in base64, mode 0600; sealed when a sealer is given) and is made when it is missing. The private key signs
 * and cannot be exported.
 *
 * @throws {KeyFileError} when the file holds no such key, was sealed with another secret key, or can be read by others
 */
export async function loadMeshKey({
  folder,
  sealer,
}: {
  readonly folder: string;
  readonly sealer?: Sealer | undefined;
}): Promise<MeshKeyPair> {
  const path = join(folder, "mesh.key");
  const text = (await readKeyFile(path)) ?? (await createKeyFile(path, await newKeyText(sealer)));
  return importPair(path, unwrap(path, text, sealer));
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
}): Promise<MeshKeyPair> {
  const text = await agree(await newKeyText(sealer));
  try {
    return await importPair(place, unwrap(place, text, sealer));
  } catch (error) {
    if (!(error instanceof KeyFileError)) throw error;
    throw new KeyFileError(
      place,
      "holds a mesh key that this process's secret key does not open; give every process the same LEAFMESH_SECRET_KEY",
      { cause: error },
    );
  }
}

async function newKeyText(sealer: Sealer | undefined): Promise<string> {
  const pair = await crypto.subtle.generateKey(ED25519, true, ["sign", "verify"]);
  const pkcs8 = Buffer.from(await crypto.subtle.exportKey("pkcs8", pair.privateKey)).toString("base64");
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

async function importPair(path: string, pkcs8: Buffer): Promise<MeshKeyPair> {
  try {
    const key = createPrivateKey({ key: pkcs8, format: "der", type: "pkcs8" });
    const spki = createPublicKey(key).export({ format: "der", type: "spki" });
    return {
      privateKey: await crypto.subtle.importKey("pkcs8", new Uint8Array(pkcs8), ED25519, false, ["sign"]),
      publicKey: await crypto.subtle.importKey("spki", new Uint8Array(spki), ED25519, true, ["verify"]),
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
