/** After a restart of the mesh: the reply that a room service kept. */
import {
  type Clock,
  type DeviceEnvelope,
  deviceEnvelopeSchema,
  type Logger,
  type RoomStatus,
} from "@leafmesh/protocol";
import { RoomError } from "../contract.ts";
import { type LinkOptions, MeshLink } from "./mesh-link.ts";
import type { RoomServiceClient } from "./service-client.ts";
import { withTimeLimit } from "./time-limit.ts";

const DELETE_MS = 2000;

export interface ReplyRecovery {
  readonly client: RoomServiceClient;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * The reply to `askId` in the room, now or as soon as the device sends it and while `signal` allows to wait; `undefined`
 * when none can be had any more. The room is closed in either case. Throws {@link RoomError} when the service did not
 * answer.
 */
export async function recoverReply(
  roomId: string,
  askId: string,
  { client, clock, logger }: ReplyRecovery,
  signal: AbortSignal,
): Promise<DeviceEnvelope | undefined> {
  const status = await client.status(roomId, signal);
  if (!status || status.state === "closed") return undefined;
  try {
    if (!mayStillAnswer(status)) return undefined;
    const token = await client.meshToken(roomId, signal);
    if (!token) return undefined;
    const seat = { url: token.connect_url, room: roomId, token: token.mesh_token, limits: undefined, clock, logger };
    return await awaitReply(seat, askId, signal);
  } finally {
    await withTimeLimit(clock, DELETE_MS, undefined, (limit) => client.delete(roomId, limit)).catch(
      (error: unknown) => {
        if (!(error instanceof RoomError)) throw error;
        logger.warn("a recovered room could not be closed; it ends with its time", {
          room: roomId,
          why: error.message,
        });
      },
    );
  }
}

function mayStillAnswer({ state, task }: RoomStatus): boolean {
  return task.replied || (task.handed && (state === "joined" || state === "away"));
}

async function awaitReply(seat: LinkOptions, askId: string, signal: AbortSignal): Promise<DeviceEnvelope | undefined> {
  let settle: (reply: DeviceEnvelope | undefined) => void = () => {};
  const reply = new Promise<DeviceEnvelope | undefined>((resolve) => {
    settle = resolve;
  });
  const giveUp = (): void => settle(undefined);
  const link = await MeshLink.open(
    seat,
    {
      frame(frame) {
        const envelope = deviceEnvelopeSchema.safeParse(frame).data;
        if (envelope?.type === "reply" && envelope.id === askId) settle(envelope);
        else if (frame.type === "peer" && "state" in frame && frame.state === "left") giveUp();
      },
      refused: () => {},
      ended: giveUp,
    },
    signal,
  );
  signal.addEventListener("abort", giveUp, { once: true });
  if (signal.aborted) giveUp();
  try {
    return await reply;
  } finally {
    signal.removeEventListener("abort", giveUp);
    link.close();
  }
}
