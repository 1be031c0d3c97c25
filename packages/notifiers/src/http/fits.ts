import { utf8Length } from "@leafmesh/protocol";
import { RingError } from "../contract.ts";

/** Throws {@link RingError} (`too_big`) for a payload that the vendor would refuse. Call it before anything is sent. */
export function assertFits(payload: string, maxBytes: number): void {
  const bytes = utf8Length(payload);
  if (bytes <= maxBytes) return;
  throw new RingError("too_big", `the notification has ${bytes} bytes, and the push service takes ${maxBytes}`);
}
