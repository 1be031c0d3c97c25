/**
 * Sealed messages of an MQTT room. A broker's access rules say who may publish where; the room's key, which travels in
 * the signed ring, is what makes a message the mesh's or this device's. The cipher is AES-256-GCM, see `room-cipher.ts`.
 *
 *   frame = version (1 byte) ‖ sender (8) ‖ number (4, big endian) ‖ ciphertext ‖ tag (16)
 *
 * The sender is random for each {@link createSealer}, the number starts at 1; both together are the nonce, so no nonce
 * is used twice under a key. The whole topic is authenticated with the message: prefix, room, device and direction. A
 * message that is replayed, reflected or carried into another room does not open.
 */
import { fromBase64Url, toBase64Url } from "@leafmesh/protocol";
import { createRoomCipher, NONCE_BYTES, type RoomCipher, TAG_BYTES } from "./room-cipher.ts";

const VERSION = 1;
const SENDER_BYTES = 8;
const KEY_BYTES = 32;

/** What a frame is longer than its text. */
export const FRAME_OVERHEAD_BYTES = 1 + NONCE_BYTES + TAG_BYTES;

/** Senders of one topic: a device that restarts within a room is a new one. */
const MAX_SENDERS = 8;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

/** A new key for one room, as it stands in the ring: 32 random bytes in URL-safe base64. */
export function newRoomKey(): string {
  return toBase64Url(crypto.getRandomValues(new Uint8Array(KEY_BYTES)));
}

/** A room's key, ready for use. */
export type RoomKey = RoomCipher;

/** The key of a ring. Throws a `TypeError` when it is not 32 bytes of base64. */
export async function importRoomKey(text: string): Promise<RoomKey> {
  const bytes = fromBase64Url(text);
  if (bytes.byteLength !== KEY_BYTES) throw new TypeError(`a room key has ${KEY_BYTES} bytes, not ${bytes.byteLength}`);
  return await createRoomCipher(bytes);
}

/** Seals the messages of one sender on one topic. */
export interface Sealer {
  /** Numbered in the order of the calls. Sending the same frame again is a repeat, which the other side drops. */
  seal(text: string): Promise<Uint8Array>;
}

/** `topic` is the full topic that the frames will be published to. */
export function createSealer(key: RoomKey, topic: string): Sealer {
  const sender = crypto.getRandomValues(new Uint8Array(SENDER_BYTES));
  const bound = additionalData(topic);
  let sent = 0;
  return {
    async seal(text) {
      sent += 1;
      if (sent > 0xffff_ffff) throw new RangeError("a sender has at most 4294967295 messages");
      const nonce = new Uint8Array(NONCE_BYTES);
      nonce.set(sender);
      new DataView(nonce.buffer).setUint32(SENDER_BYTES, sent);
      const sealed = await key.encrypt(nonce, bound, encoder.encode(text));
      const frame = new Uint8Array(1 + NONCE_BYTES + sealed.byteLength);
      frame[0] = VERSION;
      frame.set(nonce, 1);
      frame.set(sealed, 1 + NONCE_BYTES);
      return frame;
    },
  };
}

/** `why` is for logs and counters. `repeated` is the ordinary redelivery of MQTT; the others should not happen. */
export type Opened =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly why: "repeated" | "forged" | "malformed" };

export interface Opener {
  /** One call at a time, in the order of arrival: {@link createInbox} sees to both. */
  open(frame: Uint8Array): Promise<Opened>;
}

/** Opens what comes on `topic`, each message once, never an older one after a newer one of the same sender. */
export function createOpener(key: RoomKey, topic: string): Opener {
  const bound = additionalData(topic);
  const lastOf = new Map<string, number>();
  let current: string | undefined;

  return {
    async open(frame) {
      if (frame.byteLength < FRAME_OVERHEAD_BYTES || frame[0] !== VERSION) return { ok: false, why: "malformed" };
      const nonce = new Uint8Array(frame.subarray(1, 1 + NONCE_BYTES));
      const sender = toBase64Url(nonce.subarray(0, SENDER_BYTES));
      const number = new DataView(nonce.buffer).getUint32(SENDER_BYTES);

      const known = lastOf.get(sender);
      if (known !== undefined && (number <= known || sender !== current)) return { ok: false, why: "repeated" };
      if (known === undefined && lastOf.size >= MAX_SENDERS) return { ok: false, why: "forged" };

      const opened = await key.decrypt(nonce, bound, frame.subarray(1 + NONCE_BYTES));
      const text = opened && decode(opened);
      if (text === undefined) return { ok: false, why: "forged" };
      lastOf.set(sender, number);
      current = sender;
      return { ok: true, text };
    },
  };
}

function decode(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

function additionalData(topic: string): Uint8Array<ArrayBuffer> {
  return encoder.encode(`leafmesh mqtt room ${VERSION}\n${topic}`);
}
