/**
 * What travels on the topics of a room besides the envelopes of the protocol. Everything is JSON, sealed with the
 * room's key.
 *
 * - `presence` (device, retained): `joined`, and `left` as a goodbye or as the will that the broker publishes.
 * - `up` (device): the device's envelopes.
 * - `down` (mesh): the mesh's envelopes, and `closed`, retained so that a ring that comes late finds it.
 */
import { capabilitySchema, MAX_CAPABILITIES } from "@leafmesh/protocol";
import * as z from "zod";

/** Seconds after which a broker forgets what was retained in a room that nobody closed: the longest life of a room. */
export const RETAINED_SECONDS = 900;

/** Seconds for which a broker keeps the session of a lost connection, and what came for it. */
export const SESSION_SECONDS = 60;

/** Seconds that a broker holds back a device's will, so that a device that is quickly back never left. */
export const WILL_DELAY_SECONDS = 5;

/** Seconds of silence after which a client asks the broker whether it is there; dead after half as much again. */
export const KEEPALIVE_SECONDS = 15;

export const presenceSchema = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("joined"),
    capabilities: z.array(capabilitySchema).max(MAX_CAPABILITIES).optional(),
  }),
  z.object({ type: z.literal("left"), reason: z.enum(["left", "lost"]) }),
]);
export type Presence = z.infer<typeof presenceSchema>;

export function parsePresence(text: string): Presence | undefined {
  try {
    return presenceSchema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}
