/** Signatures of notices: HMAC-SHA256 over timestamp, dot, nonce, dot and the raw body. */
import { createHmac } from "node:crypto";
import { SIGNATURE_HEADER, SIGNATURE_NONCE_HEADER, SIGNATURE_TIMESTAMP_HEADER } from "@leafmesh/protocol";

/** @param timestamp seconds since the epoch */
export function signNotice(secret: string, timestamp: number, nonce: string, body: string): string {
  const mac = createHmac("sha256", secret).update(`${timestamp}.${nonce}.${body}`).digest("hex");
  return `sha256=${mac}`;
}

export function signatureHeaders(secret: string, nowMs: number, nonce: string, body: string): Record<string, string> {
  const timestamp = Math.floor(nowMs / 1000);
  return {
    [SIGNATURE_HEADER]: signNotice(secret, timestamp, nonce, body),
    [SIGNATURE_TIMESTAMP_HEADER]: String(timestamp),
    [SIGNATURE_NONCE_HEADER]: nonce,
  };
}
