/**
 * Encrypts what only the browser of a subscription can read: one record of `aes128gcm`.
 *
 * https://www.rfc-editor.org/rfc/rfc8291, https://www.rfc-editor.org/rfc/rfc8188
 */
import { createCipheriv, createECDH, hkdfSync, randomBytes } from "node:crypto";
import type { Subscription } from "./webpush-subscription.ts";

/** What a push service has to take, and the whole of one record. */
const RECORD_BYTES = 4096;
const HEADER_BYTES = 86;
const TAG_BYTES = 16;
/** Ends the last record. */
const DELIMITER = Uint8Array.of(2);

/** Bytes of a message that fit. */
export const MAX_PLAINTEXT_BYTES = RECORD_BYTES - HEADER_BYTES - TAG_BYTES - DELIMITER.byteLength;

/** What is drawn anew for every message. */
export interface Chance {
  /** 16 bytes. */
  readonly salt: Uint8Array;
  /** A private key of P-256, 32 bytes. */
  readonly senderKey: Uint8Array;
}

/** The body of a push message. Throws for a public key that is none, and for more than {@link MAX_PLAINTEXT_BYTES}. */
export function encryptPush(
  plaintext: Uint8Array,
  { publicKey, authSecret }: Pick<Subscription, "publicKey" | "authSecret">,
  chance: Chance = draw(),
): Buffer {
  if (plaintext.byteLength > MAX_PLAINTEXT_BYTES) throw new Error(`a push message has at most ${MAX_PLAINTEXT_BYTES}`);
  const sender = createECDH("prime256v1");
  sender.setPrivateKey(chance.senderKey);
  const senderPublicKey = sender.getPublicKey();
  const keyInfo = Buffer.concat([Buffer.from("WebPush: info\0"), publicKey, senderPublicKey]);
  const secret = derive(sender.computeSecret(publicKey), authSecret, keyInfo, 32);
  const key = derive(secret, chance.salt, Buffer.from("Content-Encoding: aes128gcm\0"), 16);
  const nonce = derive(secret, chance.salt, Buffer.from("Content-Encoding: nonce\0"), 12);

  const sizes = Buffer.alloc(5);
  sizes.writeUInt32BE(RECORD_BYTES);
  sizes.writeUInt8(senderPublicKey.byteLength, 4);
  const cipher = createCipheriv("aes-128-gcm", key, nonce);
  const sealed = [cipher.update(plaintext), cipher.update(DELIMITER), cipher.final(), cipher.getAuthTag()];
  return Buffer.concat([chance.salt, sizes, senderPublicKey, ...sealed]);
}

function draw(): Chance {
  const pair = createECDH("prime256v1");
  pair.generateKeys();
  // Without its leading zeros, if it has any.
  const key = pair.getPrivateKey();
  return { salt: randomBytes(16), senderKey: Buffer.concat([Buffer.alloc(32 - key.byteLength), key]) };
}

function derive(secret: Uint8Array, salt: Uint8Array, info: Uint8Array, length: number): Buffer {
  return Buffer.from(hkdfSync("sha256", secret, salt, info, length));
}
