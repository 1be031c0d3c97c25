import { type RoomSeat, utf8Length } from "@leafmesh/protocol";
import type { OutboundFrame, PeerBody, QueuedBody } from "./frames.ts";
import { append, discard, isFull, takeUnsent, unseenTail, withoutTail } from "./outbox.ts";
import {
  type Instant,
  type LinkId,
  otherSeat,
  type Presence,
  type RoomEffect,
  type RoomState,
  type SeatState,
} from "./state.ts";

/** One step in the making: the state so far and the effects so far. Lives for one call of `stepRoom`. */
export class Turn {
  state: RoomState;
  readonly effects: RoomEffect[] = [];
  readonly now: Instant;

  constructor(state: RoomState, now: Instant) {
    this.state = state;
    this.now = now;
  }

  seat(seat: RoomSeat): SeatState {
    return this.state.seats[seat];
  }

  patchSeat(seat: RoomSeat, patch: Partial<SeatState>): void {
    this.state = {
      ...this.state,
      seats: { ...this.state.seats, [seat]: { ...this.state.seats[seat], ...patch } },
    };
  }

  close(link: LinkId, code: number, reason: string): void {
    this.effects.push({ type: "close", link, code, reason });
  }

  /** Takes the link away from its seat; the socket itself is closed by whoever calls, or is gone already. */
  detach(seat: RoomSeat, presence: Presence, awayUntilMs?: number): void {
    this.patchSeat(seat, { presence, link: undefined, awayUntilMs, fullSinceMs: undefined, paused: false });
  }

  /** The seat is over. What was kept for a device is dropped; a mesh may come back with a new token and fetch it. */
  vacate(seat: RoomSeat, reason: string): void {
    this.detach(seat, "left");
    this.patchSeat(seat, { resumeKeyHash: undefined });
    const { outbox } = this.seat(seat);
    if (seat === "device") {
      this.patchSeat(seat, { outbox: discard(outbox) });
      const leftAt = Math.floor(this.now.wallMs / 1000);
      this.state = { ...this.state, device: { ...this.state.device, left_at: leftAt, reason } };
    }
    this.announce(seat, {
      type: "peer",
      state: "left",
      reason,
      handed_seq: outbox.handedOrigin,
      acked_seq: outbox.ackedOrigin,
    });
  }

  /** Tells the other seat about this one. Changes that nobody has seen yet and that cancel out are taken back. */
  announce(about: RoomSeat, body: PeerBody): void {
    const to = otherSeat(about);
    const receiver = this.seat(to);
    if (to === "device" && receiver.presence === "left") return;
    let { outbox } = receiver;
    const tail = unseenTail(outbox);
    if (tail?.body.type === "peer") {
      const before = tail.body.state;
      const undone = (before === "away" && body.state === "back") || (before === "back" && body.state === "away");
      if (undone || (before === "away" && body.state === "left")) outbox = withoutTail(outbox, tail);
      if (undone) {
        this.patchSeat(to, { outbox });
        return;
      }
    }
    this.patchSeat(to, { outbox: append(outbox, body, 0, utf8Length(JSON.stringify(body))) });
  }

  /** Puts on the wire what the seat's link has not had yet. */
  flush(seat: RoomSeat): void {
    const { link, outbox } = this.seat(seat);
    if (link === undefined) return;
    const taken = takeUnsent(outbox);
    if (taken.frames.length === 0) return;
    this.patchSeat(seat, { outbox: taken.outbox });
    for (const { body, seq } of taken.frames) this.effects.push({ type: "send", link, frame: numbered(body, seq) });
  }

  /** Back-pressure: a full outbox stops the other side, and starts the time that its receiver has to drain it. */
  regulate(seat: RoomSeat): void {
    const { outbox, link, presence, fullSinceMs } = this.seat(seat);
    const full = isFull(outbox, this.state.limits);
    if (full && link !== undefined && fullSinceMs === undefined) {
      this.patchSeat(seat, { fullSinceMs: this.now.monotonicMs });
    } else if (!full && fullSinceMs !== undefined) {
      this.patchSeat(seat, { fullSinceMs: undefined });
    }
    const sender = otherSeat(seat);
    const { link: senderLink, paused } = this.seat(sender);
    const stop = full && !(seat === "device" && presence === "left");
    if (senderLink === undefined || stop === paused) return;
    this.patchSeat(sender, { paused: stop });
    this.effects.push({ type: stop ? "pause" : "unpause", link: senderLink });
  }
}

function numbered(body: QueuedBody, seq: number): OutboundFrame {
  return body.type === "peer" ? { ...body, seq } : { ...body, seq };
}
