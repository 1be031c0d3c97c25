import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from "node:crypto";

/**
 * Seals secrets for storage: AES-256-GCM under a key derived from the mesh's secret key. `context` says what the value
 * is and whose, such as `push_token:<session>:<device>`; it is authenticated and not stored, so that sealed data moved
 * to another place does not open.
 */
export interface Sealer {
  seal(plain: string, context: string): string;
  seal(plain: Uint8Array, context: string): Uint8Array<ArrayBuffer>;
  /** @throws {SealError} when it was sealed with another key or for another context, or was altered */
  open(sealed: string, context: string): string;
  open(sealed: Uint8Array, context: string): Uint8Array<ArrayBuffer>;
}

export type SealErrorCode = "not_sealed" | "other_key" | "altered";

/** What was sealed does not open. The message names the context and the cure, and holds nothing of the value. */
export class SealError extends Error {
  override readonly name = "SealError";
  readonly code: SealErrorCode;

  constructor(code: SealErrorCode, message: string, more: { cause?: unknown } = {}) {
    super(message, { cause: more.cause });
    this.code = code;
  }
}

export const SECRET_KEY_BYTES = 32;

const ALGORITHM = "aes-256-gcm";
const VERSION = 1;
const KEY_ID_BYTES = 4;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const HEADER_BYTES = 1 + KEY_ID_BYTES;

/**
 * A sealer over a key of 32 bytes. Sealed bytes are version (1), key id (4), nonce (12), ciphertext, tag (16); sealed
 * text is the same in URL-safe base64. The nonce is random, which is safe for some four thousand million values a key.
 */
export function createSealer(key: Uint8Array): Sealer {
  if (key.length !== SECRET_KEY_BYTES) throw new RangeError(`a secret key has ${SECRET_KEY_BYTES} bytes`);
  const sealingKey = Buffer.from(hkdfSync("sha256", key, "", "leafmesh seal v1", SECRET_KEY_BYTES));
  const keyId = createHmac("sha256", key).update("leafmesh key id").digest().subarray(0, KEY_ID_BYTES);
  const header = Buffer.concat([Buffer.of(VERSION), keyId]);

  const sealBytes = (plain: Uint8Array, context: string): Uint8Array<ArrayBuffer> => {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(ALGORITHM, sealingKey, nonce, { authTagLength: TAG_BYTES });
    cipher.setAAD(authenticated(header, context));
    return joined([header, nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
  };

  const openBytes = (sealed: Uint8Array, context: string): Uint8Array<ArrayBuffer> => {
    const fail = (code: SealErrorCode, why: string, cause?: unknown): SealError =>
      new SealError(code, `the sealed value "${context}" ${why}`, { cause });
    if (sealed.length < HEADER_BYTES + NONCE_BYTES + TAG_BYTES || sealed[0] !== VERSION) {
      throw fail("not_sealed", "is not in a format that this release knows");
    }
    if (!keyId.equals(sealed.subarray(1, HEADER_BYTES))) {
      throw fail("other_key", "was sealed with another secret key; start with the key that the data was written with");
    }
    const nonce = sealed.subarray(HEADER_BYTES, HEADER_BYTES + NONCE_BYTES);
    const decipher = createDecipheriv(ALGORITHM, sealingKey, nonce, { authTagLength: TAG_BYTES });
    decipher.setAAD(authenticated(header, context));
    decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
    try {
      return joined([decipher.update(sealed.subarray(HEADER_BYTES + NONCE_BYTES, -TAG_BYTES)), decipher.final()]);
    } catch (cause) {
      throw fail("altered", "was altered, or belongs to another place", cause);
    }
  };

  function seal(plain: string, context: string): string;
  function seal(plain: Uint8Array, context: string): Uint8Array<ArrayBuffer>;
  function seal(plain: string | Uint8Array, context: string): string | Uint8Array<ArrayBuffer> {
    if (typeof plain !== "string") return sealBytes(plain, context);
    return Buffer.from(sealBytes(Buffer.from(plain, "utf8"), context)).toString("base64url");
  }

  function open(sealed: string, context: string): string;
  function open(sealed: Uint8Array, context: string): Uint8Array<ArrayBuffer>;
  function open(sealed: string | Uint8Array, context: string): string | Uint8Array<ArrayBuffer> {
    if (typeof sealed !== "string") return openBytes(sealed, context);
    const bytes = Buffer.from(sealed, "base64url");
    // Decoding skips what is no base64: only the very text that was sealed opens.
    const exact = bytes.toString("base64url") === sealed;
    return Buffer.from(openBytes(exact ? bytes : new Uint8Array(), context)).toString("utf8");
  }

  return { seal, open };
}

function authenticated(header: Uint8Array, context: string): Buffer {
  return Buffer.concat([header, Buffer.from(context, "utf8")]);
}

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.concat(parts));
}
