import { DEFAULT_ROOM_LIMITS, type RoomLimits, type WelcomeFrame } from "@leafmesh/protocol";

/** A device that is silent for the idle time and then for the dead time is away, and after the grace it is lost. */
export const LOSS_SEEN_WITHIN_MS =
  (DEFAULT_ROOM_LIMITS.idle_s + DEFAULT_ROOM_LIMITS.dead_s + DEFAULT_ROOM_LIMITS.grace_s) * 1000;

/** Room that the sequence number of a frame needs beside the task. */
const FRAME_OVERHEAD_BYTES = 32;

/** Largest task in bytes of its JSON. A room limits the inputs, so a task that is no larger fits in any case. */
export function taskBytes(limits: RoomLimits = DEFAULT_ROOM_LIMITS): number {
  return Math.min(limits.inputs, limits.frame - FRAME_OVERHEAD_BYTES);
}

/** What a service says of its limits: any of them, or none. */
export type AnnouncedLimits = WelcomeFrame["limits"] | undefined;

/** What a service announces, filled up with the protocol's defaults. The last one wins. */
export function mergeLimits(...announced: readonly AnnouncedLimits[]): RoomLimits {
  const said = announced.flatMap((limits) => Object.entries(limits ?? {}).filter(([, value]) => value !== undefined));
  return { ...DEFAULT_ROOM_LIMITS, ...Object.fromEntries(said) };
}
