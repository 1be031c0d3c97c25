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
import { type LinkId, statusOf } from "./room/state.ts";
import { newResumeKey, type RoomHost } from "./room-host.ts";
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
  /** The device's credential: one room, one seat, one use. Empty once it was used. */
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
  return new EmbeddedRoom(host, request.onFrame, context.connectUrl(), device.token, context.limits);
}

class EmbeddedRoom implements LocalRoom {
  readonly connectUrl: string;
  readonly limits: RoomLimits;
  readonly #host: RoomHost;
  readonly #onFrame: OpenLocalRoom["onFrame"];
  readonly #link: LinkId;
  #deviceToken: string;
  #sent = 0;

  constructor(
    host: RoomHost,
    onFrame: OpenLocalRoom["onFrame"],
    connectUrl: string,
    deviceToken: string,
    limits: RoomLimits,
  ) {
    this.#host = host;
    this.#onFrame = onFrame;
    this.connectUrl = connectUrl;
    this.#deviceToken = deviceToken;
    this.limits = limits;
    this.#link = host.addLink(new EmbeddedLink(this));
    const jti = host.state.seats.mesh.token?.jti ?? "";
    host.dispatch({ type: "join", seat: "mesh", link: this.#link, jti, resume: newResumeKey(host.state.id) });
  }

  get roomId(): string {
    return this.#host.state.id;
  }

  get deviceToken(): string {
    return this.#deviceToken;
  }

  status(): RoomStatus {
    return statusOf(this.#host.state);
  }

  receive(frame: OutboundFrame): void {
    if (frame.type === "welcome" || frame.type === "ack") return;
    // A room is held for as long as its ask waits, and the token is the longest text in it.
    if (frame.type === "peer" && frame.state === "joined") this.#deviceToken = "";
    this.#onFrame(frame);
    if ("seq" in frame && typeof frame.seq === "number") {
      this.#host.dispatch({ type: "frame", link: this.#link, frame: { type: "ack", seq: frame.seq }, bytes: 0 });
    }
  }

  send(envelope: TaskEnvelope | CancelEnvelope): number | undefined {
    if (this.#host.state.ended) return undefined;
    const seq = ++this.#sent;
    const bytes = utf8Length(JSON.stringify(envelope));
    this.#host.dispatch({ type: "frame", link: this.#link, frame: { ...envelope, seq }, bytes });
    return seq;
  }

  close(): void {
    this.#host.dispatch({ type: "end", reason: "closed" });
  }
}

/** The mesh's connection. What the mesh sends is one task and a few cancels, so there is nothing to pause. */
class EmbeddedLink implements Link {
  readonly #room: EmbeddedRoom;

  constructor(room: EmbeddedRoom) {
    this.#room = room;
  }

  send(frame: OutboundFrame): void {
    this.#room.receive(frame);
  }

  /** `closing` has said it. */
  close(): void {}
  pause(): void {}
  unpause(): void {}
}
