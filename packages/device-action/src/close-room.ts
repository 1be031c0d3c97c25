import type { Clock, Logger } from "@leafmesh/protocol";
import type { Room } from "@leafmesh/rooms/contract";
import { bounded } from "./bounded.ts";

const CANCEL_MS = 2_000;
/** A room promises to be closed within 5 s. */
const CLOSE_MS = 6_000;

export interface RoomClosing {
  /** Id of the task that the device is told not to go on with. */
  readonly cancelTask: string | undefined;
  /** The room is closed after this. */
  whenStored(): Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Ends a room in bounded time. Never rejects. */
export async function closeRoom(room: Room, closing: RoomClosing): Promise<void> {
  const { cancelTask, whenStored, clock, logger } = closing;
  const within = (ms: number, work: () => Promise<void>): Promise<void> =>
    bounded(clock, ms, undefined, work).catch((error: unknown) => {
      logger.warn("a room did not end in good order", { room: room.label, error });
    });
  if (cancelTask !== undefined) {
    await within(CANCEL_MS, () => room.cancel(cancelTask, "the mesh no longer waits for this task"));
  }
  await whenStored();
  await within(CLOSE_MS, () => room.close("the ask is over"));
}
