/** The mesh's seat without a socket, for a mesh that runs the service itself: same room, same rules, no serialising. */
import {
  type Approval,
  type CancelEnvelope,
  type RoomLimits,
  type RoomStatus,
  type TaskEnvelope,
  utf8Length,
} from "@leafmesh/protocol";
import type { Link } from "./link.ts";
import type { OutboundFrame } from "./room/frames.ts";
import { statusOf } from "./room/state.ts";
import { newResumeKey } from "./room-host.ts";
import type { Rooms, ServiceContext } from "./rooms.ts";

export interface OpenLocalRoom {
  /** After this the room ends by itself. */
  readonly lifetimeMs: number;
  /** How long the device's token works for its first join. */
  readonly joinWithinMs: number;
  readonly approval?: Approval | undefined;
  /**
   * What the room has for the mesh, in order and once: `peer`, the device's frames, `error` about a frame of the mesh,
   * and `closing` as the last one. Called synchronously; must not throw.
   */
  onFrame(frame: OutboundFrame): void;
}

export interface LocalRoom {
  readonly roomId: string;
  /** Where the device connects. */
  readonly connectUrl: string;
  /** The device's credential: one room, one seat, one use. */
  readonly deviceToken: string;
  readonly limits: RoomLimits;
  status(): RoomStatus;
  /** The sequence number under which `left` tells how far the frame got; `undefined` when the room has ended. */
  send(envelope: TaskEnvelope | CancelEnvelope): number | undefined;
  /** Closes the room for both seats. Idempotent. */
  close(): void;
}

/** Whose rooms these are, so that no API key can see them. */
const EMBEDDED_OWNER = "embedded";

export async function openLocalRoom(
  request: OpenLocalRoom,
  context: ServiceContext & { readonly rooms: Rooms; readonly connectUrl: () => string },
): Promise<LocalRoom> {
  const { host, device } = await context.rooms.open({
    owner: EMBEDDED_OWNER,
    lifetimeMs: request.lifetimeMs,
    joinWithinMs: request.joinWithinMs,
    purpose: "task",
    approval: request.approval,
    meshToken: false,
  });
  let sent = 0;
  const seat: Link = {
    send(frame) {
      if (frame.type === "welcome" || frame.type === "ack") return;
      request.onFrame(frame);
      if ("seq" in frame && typeof frame.seq === "number") {
        host.dispatch({ type: "frame", link, frame: { type: "ack", seq: frame.seq }, bytes: 0 });
      }
    },
    // `closing` has said it.
    close() {},
    // What the mesh sends is one task and a few cancels.
    pause() {},
    unpause() {},
  };
  const link = host.addLink(seat);
  const jti = host.state.seats.mesh.token?.jti ?? "";
  host.dispatch({ type: "join", seat: "mesh", link, jti, resume: newResumeKey(host.state.id) });
  return {
    roomId: host.state.id,
    connectUrl: context.connectUrl(),
    deviceToken: device.token,
    limits: context.limits,
    status: () => statusOf(host.state),
    send(envelope) {
      if (host.state.ended) return undefined;
      sent++;
      const bytes = utf8Length(JSON.stringify(envelope));
      host.dispatch({ type: "frame", link, frame: { ...envelope, seq: sent }, bytes });
      return sent;
    },
    close: () => host.dispatch({ type: "end", reason: "closed" }),
  };
}
