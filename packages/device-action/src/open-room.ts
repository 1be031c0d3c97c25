/** Opens the room of one ask: in bounded time, with one more try where that can help. */
import type { Clock, Logger } from "@leafmesh/protocol";
import { type OpenRoom, type Room, RoomError, type RoomProvider } from "@leafmesh/rooms/contract";
import { bounded, GivenUp, pause } from "./bounded.ts";

const ATTEMPT_MS = 10_000;
const MAX_ATTEMPTS = 2;
const FIRST_PAUSE_MS = 300;

export interface RoomOpening {
  readonly provider: RoomProvider;
  /** The request for an opening now; asked again for each try, since its times shrink. */
  request(): OpenRoom;
  /** Time left for all tries. */
  leftMs(): number;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * The open room. Throws {@link RoomError}, or {@link GivenUp} when `signal` fired. A room that comes after its try was
 * given up is closed.
 */
export async function openRoom(opening: RoomOpening): Promise<Room> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await openOnce(opening);
    } catch (error) {
      if (error instanceof GivenUp && error.why === "aborted") throw error;
      const failure = toRoomError(error, opening.logger);
      const pauseMs = failure.retryAfterMs ?? FIRST_PAUSE_MS;
      const mayRetry = failure.kind === "rate" || failure.kind === "unavailable";
      if (!mayRetry || attempt === MAX_ATTEMPTS || pauseMs >= opening.leftMs()) throw failure;
      opening.logger.info("a room could not be opened; trying once more", { error: failure.message, pauseMs });
      await pause(opening.clock, pauseMs, opening.signal);
    }
  }
}

function openOnce({ provider, request, leftMs, signal, clock, logger }: RoomOpening): Promise<Room> {
  return bounded(
    clock,
    Math.min(ATTEMPT_MS, leftMs()),
    signal,
    (inner) => provider.open(request(), inner),
    (room) => {
      room.close("opened too late").catch((error: unknown) => logger.error("a late room did not close", { error }));
    },
  );
}

function toRoomError(error: unknown, logger: Logger): RoomError {
  if (error instanceof RoomError) return error;
  if (error instanceof GivenUp) return new RoomError("unavailable", "the room service did not answer in time");
  logger.error("a room provider failed in a way it should not", { error });
  return new RoomError("mismatch", "the room provider failed", { cause: error });
}
