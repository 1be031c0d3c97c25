import { randomBytes } from "node:crypto";
import { join } from "node:path";
import type { Logger } from "@leafmesh/protocol";
import { createKeyFile, KeyFileError, readKeyFile } from "./key-file.ts";
import { SECRET_KEY_BYTES } from "./sealer.ts";

export const SECRET_KEY_VARIABLE = "LEAFMESH_SECRET_KEY";

/** The value of `LEAFMESH_SECRET_KEY` is not a key. The message does not repeat it. */
export class SecretKeyError extends Error {
  override readonly name = "SecretKeyError";
}

export interface SecretKeyOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The data folder: absolute. `secret.key` lies in it. */
  readonly folder: string;
  readonly logger?: Logger | undefined;
}

/**
 * The key that push tokens, uploads and connection secrets are sealed with: `LEAFMESH_SECRET_KEY` (32 bytes in base64 or
 * hex), else `<folder>/secret.key`, which is made with mode 0600 when it is missing.
 *
 * @throws {SecretKeyError} when the variable holds no key
 * @throws {KeyFileError} when the file holds none, can be read by others, or cannot be made
 */
export async function loadSecretKey({ env, folder, logger }: SecretKeyOptions): Promise<Uint8Array<ArrayBuffer>> {
  const given = env[SECRET_KEY_VARIABLE];
  if (given !== undefined && given !== "") {
    const key = parseKey(given.trim());
    if (key) return key;
    throw new SecretKeyError(
      `${SECRET_KEY_VARIABLE} is not ${SECRET_KEY_BYTES} bytes in base64 or hex; make one with: openssl rand -base64 ${SECRET_KEY_BYTES}`,
    );
  }
  const path = join(folder, "secret.key");
  let text = await readKeyFile(path);
  if (text === undefined) {
    text = await createKeyFile(path, randomBytes(SECRET_KEY_BYTES).toString("base64"));
    logger?.info("made a secret key; keep a copy, without it push tokens and uploads in the store cannot be opened", {
      path,
    });
  }
  const key = parseKey(text);
  if (!key) {
    throw new KeyFileError(
      path,
      `does not hold ${SECRET_KEY_BYTES} bytes in base64 or hex; restore it from a backup, or remove it to start with a new key (what is sealed is lost then)`,
    );
  }
  return key;
}

function parseKey(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (/^[0-9A-Fa-f]{64}$/.test(text)) return new Uint8Array(Buffer.from(text, "hex"));
  if (!/^[A-Za-z0-9+/_-]{43}=?$/.test(text)) return undefined;
  return new Uint8Array(Buffer.from(text, "base64"));
}
