import { createHash } from "node:crypto";

/**
 * SHA-256, in hex, of a value that came from JSON, whatever the order of its keys. Takes what strict canonical JSON
 * refuses, such as half of a surrogate pair: the value comes from outside.
 */
export function digestOf(value: unknown): string {
  const text = JSON.stringify(value, (_key, inner: unknown) => sorted(inner));
  return createHash("sha256").update(text).digest("hex");
}

function sorted(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1)));
}
