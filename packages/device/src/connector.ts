/**
 * How a device enters the room that a ring names. One connector serves one room technology; it moves envelopes and
 * reports what becomes of the link, and never decides what an envelope means: that is the device's work, the same for
 * every room.
 *
 * A connector keeps three promises that at-most-once rests on:
 * - an envelope of the mesh is handed on at most once, in the order the mesh sent it;
 * - an envelope that {@link DeviceRoom.send} took is sent again after a lost link until the other side has it, and is
 *   never sent after the room ended;
 * - nothing is believed that the room's own rules do not tie to the mesh (seat, topic, per-room key).
 */
import type { Capability, DeviceEnvelope, MeshEnvelope, Ring } from "@leafmesh/protocol";

export interface JoinOptions {
  /** What this device can do, told to the mesh on joining. Left out, the mesh accepts any action name. */
  readonly capabilities?: readonly Capability[] | undefined;
  /** Ends the attempt: the ring's time is over, or the device is closed. It does not end a room that was joined. */
  readonly signal: AbortSignal;
}

/** A way into rooms. Holds no socket of its own between rooms. */
export interface Connector {
  /** Values of `ring.join.provider` that it serves. */
  readonly providers: readonly string[];
  /**
   * Takes the device's seat and resolves once the mesh can see that the device is there. Tries again by itself, with a
   * back-off, while a try can help and `signal` allows it. Throws {@link JoinError}; anything else is a bug.
   */
  join(ring: Ring, options: JoinOptions): Promise<DeviceRoom>;
  /**
   * Tells the mesh that the person did not allow the connection, so that it need not wait for a join that will not
   * come. Takes no seat and gets no task. Resolves once the other side has it; throws {@link JoinError} when it could
   * not be told.
   */
  refuse(ring: Ring, signal: AbortSignal): Promise<void>;
}

/**
 * Why a room ended without the device leaving it. `closed`: the mesh is done with it. `expired`: its time is over.
 * `replaced`: another connection of this device took the seat. `refused`: the service did not let the device come back.
 * `lost`: the link was down for too long. `protocol`: the other side broke the rules.
 */
export type RoomEnd = "closed" | "expired" | "replaced" | "refused" | "lost" | "protocol";

/** What happens in a room, in order. After `closed` nothing follows. */
export type DeviceRoomEvent =
  /** From the mesh, well-formed, never the same one twice. */
  | { readonly type: "envelope"; readonly envelope: MeshEnvelope }
  /** The link is down; the connector tries to bring it back. */
  | { readonly type: "away" }
  | { readonly type: "back" }
  | { readonly type: "closed"; readonly reason: RoomEnd; readonly detail: string };

/**
 * What became of an envelope: `queued` means on its way, now or after the link is back; `too_large` that it is over
 * {@link DeviceRoom.maxEnvelopeBytes}; `ended` that the room is over; `dropped` that it was a `progress`, which nobody
 * needs late, and the link could not take it now. All but `queued` mean that it will never be sent.
 */
export type QueueResult = "queued" | "too_large" | "ended" | "dropped";

/** The device's seat in one room. */
export interface DeviceRoom {
  /** Largest envelope, in bytes of its JSON (UTF-8). */
  readonly maxEnvelopeBytes: number;
  /** One reader. Ends after `closed`, or when {@link DeviceRoom.leave} was called. Bounded: a flood ends the room. */
  readonly events: AsyncIterable<DeviceRoomEvent>;
  /** Never blocks and never throws. */
  send(envelope: DeviceEnvelope): QueueResult;
  /**
   * Resolves `true` when the other side has everything that was sent before the call, `false` when the room ended or
   * `signal` was aborted first.
   */
  acked(signal: AbortSignal): Promise<boolean>;
  /** A clean goodbye: the mesh sees at once that the device will not come back. Idempotent, never throws, ends within 2 s. */
  leave(reason: string): Promise<void>;
}

/**
 * `over`: the room is closed or the token dead, nobody waits any more. `seat_taken`: the token was used before, by this
 * device or by somebody else who held the ring. `unreachable`: no answer before the signal ended. `unsupported`: this
 * ring cannot be served (missing or forbidden address, other protocol version).
 */
export type JoinErrorKind = "over" | "seat_taken" | "unreachable" | "unsupported";

/** Why a room could not be joined. `message` is for people and holds no token. */
export class JoinError extends Error {
  override readonly name = "JoinError";
  readonly kind: JoinErrorKind;

  constructor(kind: JoinErrorKind, message: string, more: { readonly cause?: unknown } = {}) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.kind = kind;
  }
}
