/**
 * The frames on their way to one seat: numbered, held until the seat's client acknowledges them, sent again after a
 * resume. Pure: every function answers a new outbox.
 */
import type { RoomLimits } from "@leafmesh/protocol";
import type { QueuedBody } from "./frames.ts";

export interface QueuedFrame {
  /** Number in the receiver's sequence. */
  readonly seq: number;
  /** The sender's number of the same frame; 0 for the service's own. */
  readonly origin: number;
  /** Size on the wire, about. */
  readonly bytes: number;
  readonly body: QueuedBody;
}

export interface Outbox {
  readonly nextSeq: number;
  /** Everything up to here was acknowledged. */
  readonly ackedSeq: number;
  /** Everything up to here went out on the present link. */
  readonly sentSeq: number;
  /** Everything up to here went out on some link; such a number is never given to another frame. */
  readonly seenSeq: number;
  /** The highest of the sender's numbers that went out on some link. */
  readonly handedOrigin: number;
  /** The highest of the sender's numbers that was acknowledged. */
  readonly ackedOrigin: number;
  /** Not acknowledged yet, oldest first. */
  readonly frames: readonly QueuedFrame[];
  readonly bytes: number;
}

export const EMPTY_OUTBOX: Outbox = {
  nextSeq: 1,
  ackedSeq: 0,
  sentSeq: 0,
  seenSeq: 0,
  handedOrigin: 0,
  ackedOrigin: 0,
  frames: [],
  bytes: 0,
};

export function append(outbox: Outbox, body: QueuedBody, origin: number, bytes: number): Outbox {
  const frame: QueuedFrame = { seq: outbox.nextSeq, origin, bytes, body };
  return {
    ...outbox,
    nextSeq: outbox.nextSeq + 1,
    frames: [...outbox.frames, frame],
    bytes: outbox.bytes + bytes,
  };
}

/** The newest frame, while nobody has seen it. */
export function unseenTail(outbox: Outbox): QueuedFrame | undefined {
  const tail = outbox.frames.at(-1);
  return tail && tail.seq > outbox.seenSeq ? tail : undefined;
}

/** Takes back the newest frame, which nobody may have seen. */
export function withoutTail(outbox: Outbox, tail: QueuedFrame): Outbox {
  return {
    ...outbox,
    nextSeq: tail.seq,
    frames: outbox.frames.slice(0, -1),
    bytes: outbox.bytes - tail.bytes,
  };
}

/** The frames that the present link has not had, and the outbox once it has. */
export function takeUnsent(outbox: Outbox): { readonly frames: readonly QueuedFrame[]; readonly outbox: Outbox } {
  const last = outbox.nextSeq - 1;
  if (outbox.sentSeq === last) return { frames: [], outbox };
  const frames = outbox.frames.filter((frame) => frame.seq > outbox.sentSeq);
  return {
    frames,
    outbox: {
      ...outbox,
      sentSeq: last,
      seenSeq: Math.max(outbox.seenSeq, last),
      handedOrigin: highestOrigin(frames, outbox.handedOrigin),
    },
  };
}

/** Drops what is acknowledged; `undefined` when `seq` lies beyond everything that was sent. */
export function acknowledge(outbox: Outbox, seq: number): Outbox | undefined {
  if (seq > outbox.seenSeq) return undefined;
  if (seq <= outbox.ackedSeq) return outbox;
  const acked = outbox.frames.filter((frame) => frame.seq <= seq);
  return {
    ...outbox,
    ackedSeq: seq,
    ackedOrigin: highestOrigin(acked, outbox.ackedOrigin),
    frames: outbox.frames.slice(acked.length),
    bytes: acked.reduce((bytes, frame) => bytes - frame.bytes, outbox.bytes),
  };
}

/** For a new link of the same client, which has seen everything up to `received`: the rest is unsent again. */
export function rewind(outbox: Outbox, received: number): Outbox {
  return { ...outbox, sentSeq: received };
}

/** For a new client, which has seen nothing: what is not acknowledged counts from 1 again. */
export function renumber(outbox: Outbox): Outbox {
  return {
    ...outbox,
    nextSeq: outbox.frames.length + 1,
    ackedSeq: 0,
    sentSeq: 0,
    seenSeq: 0,
    frames: outbox.frames.map((frame, index) => ({ ...frame, seq: index + 1 })),
  };
}

/** Forgets the frames of a seat that will not come back; the numbers stay for the record. */
export function discard(outbox: Outbox): Outbox {
  return { ...outbox, frames: [], bytes: 0, sentSeq: outbox.nextSeq - 1 };
}

export function isFull(outbox: Outbox, limits: RoomLimits): boolean {
  return outbox.frames.length >= limits.buffer_frames || outbox.bytes >= limits.buffer_bytes;
}

function highestOrigin(frames: readonly QueuedFrame[], atLeast: number): number {
  return frames.reduce((highest, frame) => Math.max(highest, frame.origin), atLeast);
}
