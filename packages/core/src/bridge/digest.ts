import { createHash } from "node:crypto";
import canonicalize from "canonicalize";

/** SHA-256 of the value's canonical JSON (https://www.rfc-editor.org/rfc/rfc8785), in hex. */
export function digestOf(value: unknown): string {
  return createHash("sha256")
    .update(canonicalize(value) ?? "")
    .digest("hex");
}
