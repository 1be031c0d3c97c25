import { createHash, timingSafeEqual } from "node:crypto";

/** SHA-256 of the text, in hex: what is stored of a token that was made from enough random bits. */
export function hashToken(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** Whether two texts are equal, in a time that tells nothing about either, not even its length. */
export function tokensMatch(left: string, right: string): boolean {
  return timingSafeEqual(digest(left), digest(right));
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
