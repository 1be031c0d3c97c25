/** The state of one room as plain data, what can happen to it, and what follows from it. */
import type { Capability, RoomLimits, RoomSeat, RoomStatus, WelcomeFrame } from "@leafmesh/protocol";
import type { OutboundFrame, SeatFrame } from "./frames.ts";
import { EMPTY_OUTBOX, type Outbox } from "./outbox.ts";

/** One reading of both clocks: deadlines are monotonic, what people read is wall time. */
export interface Instant {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

/** Names one connection of a seat: a socket, or the in-memory seat of an embedded mesh. */
export type LinkId = number;

export type Presence = WelcomeFrame["peer"];

/** A credential for a first join. The secret itself is not kept. */
export interface SeatToken {
  readonly jti: string;
  /** Monotonic. */
  readonly expiresAtMs: number;
  readonly used: boolean;
}

export interface SeatState {
  readonly presence: Presence;
  readonly token: SeatToken | undefined;
  readonly link: LinkId | undefined;
  /** SHA-256 of the key that the next resume must show. */
  readonly resumeKeyHash: string | undefined;
  /** Monotonic; set while `away`. */
  readonly awayUntilMs: number | undefined;
  /** The last sequence number that was taken from this seat. */
  readonly received: number;
  /** Frames for this seat. */
  readonly outbox: Outbox;
  /** Since when the outbox has been full without an acknowledgement, while there is a link. */
  readonly fullSinceMs: number | undefined;
  /** Whether the service has stopped reading from this seat's link. */
  readonly paused: boolean;
}

export interface TaskState {
  readonly id: string;
  /** The mesh's sequence number. */
  readonly seq: number;
  readonly accepted: boolean;
  readonly replied: boolean;
}

/** `too_large`: a frame over the announced size, of which nothing was read. Perhaps it was the answer. */
export type Violation = "protocol" | "too_large";

export type RoomEndReason = "closed" | "expired" | "shutdown";

export interface RoomState {
  readonly id: string;
  readonly limits: RoomLimits;
  /** How long a full outbox may stand still before its receiver's link is closed. */
  readonly drainMs: number;
  /** Monotonic. */
  readonly expiresAtMs: number;
  /** Wall, seconds since the epoch: what clients are told. */
  readonly expiresAt: number;
  readonly seats: { readonly [Seat in RoomSeat]: SeatState };
  readonly task: TaskState | undefined;
  readonly device: RoomStatus["device"];
  readonly ended: RoomEndReason | undefined;
}

/** A fresh key for the next resume: the client gets the key, the state keeps the hash. */
export interface ResumeKey {
  readonly key: string;
  readonly hash: string;
}

export type RoomInput =
  | {
      readonly type: "join";
      readonly seat: RoomSeat;
      readonly link: LinkId;
      readonly jti: string;
      readonly resume: ResumeKey;
      readonly capabilities?: readonly Capability[] | undefined;
    }
  /** The device's token was shown to say that the person did not allow the connection. */
  | { readonly type: "refuse"; readonly seat: RoomSeat; readonly link: LinkId; readonly jti: string }
  | {
      readonly type: "resume";
      readonly link: LinkId;
      /** SHA-256 of the key that the client showed. */
      readonly hash: string;
      /** The last sequence number that the client has seen. */
      readonly received: number;
      readonly resume: ResumeKey;
    }
  | { readonly type: "frame"; readonly link: LinkId; readonly frame: SeatFrame; readonly bytes: number }
  /** The link is gone; the client may come back. */
  | { readonly type: "dropped"; readonly link: LinkId }
  /** The client broke the protocol; its link was or will be closed with a code that says not to come back. */
  | { readonly type: "violated"; readonly link: LinkId; readonly how: Violation }
  /** A new token for a seat; the old one is void. See {@link mayIssue}. */
  | { readonly type: "issue"; readonly seat: RoomSeat; readonly jti: string; readonly expiresAtMs: number }
  | { readonly type: "end"; readonly reason: RoomEndReason }
  /** Time has passed. */
  | { readonly type: "tick" };

export type RoomEffect =
  | { readonly type: "send"; readonly link: LinkId; readonly frame: OutboundFrame }
  | { readonly type: "close"; readonly link: LinkId; readonly code: number; readonly reason: string }
  /** Stop reading from the link, or go on. */
  | { readonly type: "pause"; readonly link: LinkId }
  | { readonly type: "unpause"; readonly link: LinkId }
  | { readonly type: "ended" };

export interface NewRoom {
  readonly id: string;
  readonly limits: RoomLimits;
  readonly drainMs: number;
  readonly lifetimeMs: number;
  readonly tokens: { readonly mesh?: SeatToken | undefined; readonly device: SeatToken };
}

export function newRoom(room: NewRoom, now: Instant): RoomState {
  return {
    id: room.id,
    limits: room.limits,
    drainMs: room.drainMs,
    expiresAtMs: now.monotonicMs + room.lifetimeMs,
    expiresAt: Math.ceil((now.wallMs + room.lifetimeMs) / 1000),
    seats: { mesh: newSeat(room.tokens.mesh), device: newSeat(room.tokens.device) },
    task: undefined,
    device: {},
    ended: undefined,
  };
}

function newSeat(token: SeatToken | undefined): SeatState {
  return {
    presence: "absent",
    token,
    link: undefined,
    resumeKeyHash: undefined,
    awayUntilMs: undefined,
    received: 0,
    outbox: EMPTY_OUTBOX,
    fullSinceMs: undefined,
    paused: false,
  };
}

export function otherSeat(seat: RoomSeat): RoomSeat {
  return seat === "mesh" ? "device" : "mesh";
}

/** Which seat a link holds; `undefined` for a link that lost its seat or never had one. */
export function seatOfLink(state: RoomState, link: LinkId): RoomSeat | undefined {
  if (state.seats.mesh.link === link) return "mesh";
  if (state.seats.device.link === link) return "device";
  return undefined;
}

/** Whether a new token may be made for the seat: a device's seat is taken once, a mesh may come back at any time. */
export function mayIssue(state: RoomState, seat: RoomSeat): boolean {
  return state.ended === undefined && (seat === "mesh" || state.seats.device.presence === "absent");
}

/** When `tick` has something to do next, monotonic; `undefined` once the room has ended. */
export function nextDeadlineMs(state: RoomState): number | undefined {
  if (state.ended) return undefined;
  let next = state.expiresAtMs;
  for (const seat of [state.seats.mesh, state.seats.device]) {
    if (seat.awayUntilMs !== undefined) next = Math.min(next, seat.awayUntilMs);
    if (seat.fullSinceMs !== undefined) next = Math.min(next, seat.fullSinceMs + state.drainMs);
  }
  return next;
}

/** What `GET /v1/rooms/{id}` answers, in the room's life and after it. */
export function statusOf(state: RoomState): RoomStatus {
  const { device } = state.seats;
  const { task } = state;
  return {
    state: state.ended
      ? "closed"
      : device.presence === "joined" || device.presence === "away"
        ? device.presence
        : "open",
    device: state.device,
    task: {
      handed: task !== undefined && device.outbox.handedOrigin >= task.seq,
      acked: task !== undefined && (task.accepted || device.outbox.ackedOrigin >= task.seq),
      replied: task?.replied ?? false,
    },
  };
}
