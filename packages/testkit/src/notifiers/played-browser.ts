/** A browser's half of web push: it subscribes with keys of its own, and reads what was encrypted for it. */
import { createDecipheriv, createECDH, hkdfSync, randomBytes } from "node:crypto";

export interface PlayedBrowserOptions {
  /** Where its push service takes messages for it. */
  readonly endpoint: string;
  /** The public key that the page subscribed with (base64url). */
  readonly applicationServerKey: string;
  /** Whether the person has taken the permission away: its push service then answers 410. */
  readonly isGone?: boolean | undefined;
}

export interface PlayedBrowser extends PlayedBrowserOptions {
  /** What the page sends as its push token. */
  readonly subscription: string;
  /** What the worker gets of a message's body. Throws for one that the browser would drop. */
  read(body: Uint8Array): string;
}

const HEADER_BYTES = 21;
const TAG_BYTES = 16;

export function playBrowser(options: PlayedBrowserOptions): PlayedBrowser {
  const pair = createECDH("prime256v1");
  const publicKey = pair.generateKeys();
  const auth = randomBytes(16);
  const keys = { p256dh: publicKey.toString("base64url"), auth: auth.toString("base64url") };
  return {
    ...options,
    subscription: JSON.stringify({ endpoint: options.endpoint, expirationTime: null, keys }),
    read(message) {
      const body = Buffer.from(message);
      const salt = body.subarray(0, 16);
      const recordBytes = body.readUInt32BE(16);
      const senderKey = body.subarray(HEADER_BYTES, HEADER_BYTES + body.readUInt8(20));
      const record = body.subarray(HEADER_BYTES + senderKey.byteLength);
      // https://www.rfc-editor.org/rfc/rfc8291#section-4
      if (senderKey.byteLength !== 65 || record.byteLength > recordBytes) throw new Error("not one record of web push");
      const info = Buffer.concat([Buffer.from("WebPush: info\0"), publicKey, senderKey]);
      const secret = hkdfSync("sha256", pair.computeSecret(senderKey), auth, info, 32);
      const derived = (name: string, length: number): Uint8Array =>
        new Uint8Array(hkdfSync("sha256", new Uint8Array(secret), salt, `Content-Encoding: ${name}\0`, length));
      const decipher = createDecipheriv("aes-128-gcm", derived("aes128gcm", 16), derived("nonce", 12));
      decipher.setAuthTag(record.subarray(-TAG_BYTES));
      const padded = Buffer.concat([decipher.update(record.subarray(0, -TAG_BYTES)), decipher.final()]);
      const end = padded.findLastIndex((byte) => byte !== 0);
      if (padded[end] !== 2) throw new Error("its padding is not that of a last record");
      return padded.subarray(0, end).toString("utf8");
    },
  };
}
