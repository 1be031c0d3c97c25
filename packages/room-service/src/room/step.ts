/**
 * The rules of a room, as one pure function. Time comes in with each input, everything that touches the world goes out
 * as effects, in the order in which they have to happen.
 */
import { ROOM_CLOSE, ROOM_PROTOCOL_VERSION, type RoomSeat, utf8Length } from "@leafmesh/protocol";
import { type RelayedFrame, SENDER_OF } from "./frames.ts";
import { acknowledge, append, renumber, rewind } from "./outbox.ts";
import {
  type Instant,
  type LinkId,
  mayIssue,
  otherSeat,
  type ResumeKey,
  type RoomEffect,
  type RoomEndReason,
  type RoomInput,
  type RoomState,
  seatOfLink,
} from "./state.ts";
import { Turn } from "./turn.ts";

const SEATS = ["mesh", "device"] as const satisfies readonly RoomSeat[];

export interface RoomStep {
  readonly state: RoomState;
  readonly effects: readonly RoomEffect[];
}

export type StepRoom = (state: RoomState, input: RoomInput, now: Instant) => RoomStep;

/** What becomes of the room when `input` happens at `now`. Deadlines that have passed by then come first. */
export const stepRoom: StepRoom = (state, input, now) => {
  const turn = new Turn(state, now);
  meetDeadlines(turn);
  if (turn.state.ended) refuseLate(turn, input);
  else apply(turn, input);
  if (!turn.state.ended) {
    for (const seat of SEATS) turn.flush(seat);
    for (const seat of SEATS) turn.regulate(seat);
  }
  return { state: turn.state, effects: turn.effects };
};

function apply(turn: Turn, input: RoomInput): void {
  switch (input.type) {
    case "join":
      join(turn, input);
      return;
    case "refuse":
      refuse(turn, input);
      return;
    case "resume":
      resume(turn, input);
      return;
    case "frame":
      onFrame(turn, input.link, input.frame, input.bytes);
      return;
    case "dropped":
      onDropped(turn, input.link);
      return;
    case "violated": {
      const seat = seatOfLink(turn.state, input.link);
      if (seat) turn.vacate(seat, input.how);
      return;
    }
    case "issue":
      issue(turn, input);
      return;
    case "end":
      end(turn, input.reason);
      return;
    case "tick":
      return;
    default:
      input satisfies never;
  }
}

// ── coming ──────────────────────────────────────────────────────────────────────────────────────────────────────

function join(turn: Turn, input: Extract<RoomInput, { type: "join" }>): void {
  if (!useToken(turn, input)) return;
  const before = turn.seat(input.seat);
  turn.patchSeat(input.seat, {
    presence: "joined",
    link: input.link,
    awayUntilMs: undefined,
    outbox: renumber(before.outbox),
  });
  welcome(turn, input.seat, input.link, input.resume);
  if (input.seat === "device") {
    const joinedAt = Math.floor(turn.now.wallMs / 1000);
    turn.state = { ...turn.state, device: { ...turn.state.device, joined_at: joinedAt } };
  }
  turn.announce(input.seat, {
    type: "peer",
    state: before.presence === "away" ? "back" : "joined",
    ...(input.capabilities ? { capabilities: [...input.capabilities] } : {}),
  });
}

function refuse(turn: Turn, input: Extract<RoomInput, { type: "refuse" }>): void {
  if (input.seat !== "device") {
    turn.close(input.link, ROOM_CLOSE.badFrame, "only a device may refuse");
    return;
  }
  if (!useToken(turn, input)) return;
  turn.state = { ...turn.state, device: { ...turn.state.device, reason: "not_allowed" } };
  turn.announce("device", { type: "peer", state: "refused", reason: "not_allowed" });
  turn.close(input.link, ROOM_CLOSE.finished, "refused");
}

/** Whether the token may be used, and uses it; otherwise the link is sent away. */
function useToken(turn: Turn, input: { seat: RoomSeat; link: LinkId; jti: string }): boolean {
  const { token } = turn.seat(input.seat);
  if (token?.jti !== input.jti) {
    turn.close(input.link, ROOM_CLOSE.tokenRefused, "token refused");
    return false;
  }
  if (token.used) {
    if (input.seat === "device") {
      const refusedJoins = (turn.state.device.refused_joins ?? 0) + 1;
      turn.state = { ...turn.state, device: { ...turn.state.device, refused_joins: refusedJoins } };
    }
    turn.close(input.link, ROOM_CLOSE.seatTaken, "token used before");
    return false;
  }
  if (turn.now.monotonicMs >= token.expiresAtMs) {
    turn.close(input.link, ROOM_CLOSE.tokenRefused, "token refused");
    return false;
  }
  turn.patchSeat(input.seat, { token: { ...token, used: true } });
  return true;
}

function resume(turn: Turn, input: Extract<RoomInput, { type: "resume" }>): void {
  const seat = SEATS.find((name) => turn.seat(name).resumeKeyHash === input.hash);
  if (!seat) {
    turn.close(input.link, ROOM_CLOSE.seatTaken, "resume refused");
    return;
  }
  const before = turn.seat(seat);
  if (input.received < before.outbox.ackedSeq) {
    turn.close(input.link, ROOM_CLOSE.seatTaken, "resume refused: frames above recv are gone");
    return;
  }
  const outbox = acknowledge(before.outbox, input.received);
  if (!outbox) {
    turn.close(input.link, ROOM_CLOSE.badFrame, "recv is beyond what was sent");
    return;
  }
  if (before.link !== undefined) replaceLink(turn, before.link);
  turn.patchSeat(seat, {
    presence: "joined",
    link: input.link,
    awayUntilMs: undefined,
    fullSinceMs: undefined,
    paused: false,
    outbox: rewind(outbox, input.received),
  });
  welcome(turn, seat, input.link, input.resume);
  if (before.presence === "away") turn.announce(seat, { type: "peer", state: "back" });
}

function replaceLink(turn: Turn, link: LinkId): void {
  turn.effects.push({ type: "send", link, frame: { type: "closing", reason: "replaced" } });
  turn.close(link, ROOM_CLOSE.replaced, "replaced");
}

function welcome(turn: Turn, seat: RoomSeat, link: LinkId, resumeKey: ResumeKey): void {
  turn.patchSeat(seat, { resumeKeyHash: resumeKey.hash });
  turn.effects.push({
    type: "send",
    link,
    frame: {
      type: "welcome",
      v: ROOM_PROTOCOL_VERSION,
      room: turn.state.id,
      seat,
      resume_key: resumeKey.key,
      recv: turn.seat(seat).received,
      peer: turn.seat(otherSeat(seat)).presence,
      expires_at: turn.state.expiresAt,
      limits: turn.state.limits,
    },
  });
}

/** A new token voids the old one. For the mesh's seat that includes whoever sits there. */
function issue(turn: Turn, input: Extract<RoomInput, { type: "issue" }>): void {
  if (!mayIssue(turn.state, input.seat)) return;
  turn.patchSeat(input.seat, { token: { jti: input.jti, expiresAtMs: input.expiresAtMs, used: false } });
  const { presence, link } = turn.seat(input.seat);
  if (presence !== "joined" && presence !== "away") return;
  if (link !== undefined) replaceLink(turn, link);
  turn.patchSeat(input.seat, { resumeKeyHash: undefined });
  if (presence === "joined") goAway(turn, input.seat);
}

// ── frames ──────────────────────────────────────────────────────────────────────────────────────────────────────

function onFrame(turn: Turn, link: LinkId, frame: Extract<RoomInput, { type: "frame" }>["frame"], bytes: number): void {
  const seat = seatOfLink(turn.state, link);
  if (!seat) return;
  switch (frame.type) {
    case "ack": {
      const before = turn.seat(seat);
      const outbox = acknowledge(before.outbox, frame.seq);
      if (!outbox) {
        violate(turn, seat, link, ROOM_CLOSE.badFrame, "ack is beyond what was sent");
        return;
      }
      if (outbox !== before.outbox) turn.patchSeat(seat, { outbox, fullSinceMs: undefined });
      return;
    }
    case "leave":
      turn.close(link, ROOM_CLOSE.finished, "left");
      turn.vacate(seat, "left");
      return;
    default:
      onRelayed(turn, seat, link, frame, bytes);
      return;
  }
}

function onRelayed(turn: Turn, seat: RoomSeat, link: LinkId, frame: RelayedFrame, bytes: number): void {
  if (SENDER_OF[frame.type] !== seat) {
    violate(turn, seat, link, ROOM_CLOSE.wrongSeat, `${frame.type} is not for the ${seat} to send`);
    return;
  }
  const { received } = turn.seat(seat);
  if (frame.seq > received + 1) {
    violate(turn, seat, link, ROOM_CLOSE.badFrame, "gap in the sequence");
    return;
  }
  if (frame.seq === received + 1) {
    turn.patchSeat(seat, { received: frame.seq });
    take(turn, seat, link, frame, bytes);
    // The receiver first: an acknowledgement is never what somebody waits for.
    turn.flush(otherSeat(seat));
  }
  turn.effects.push({ type: "send", link, frame: { type: "ack", seq: turn.seat(seat).received } });
}

/** A frame that is next in its sequence: relayed, or refused with an `error` that names it. */
function take(turn: Turn, seat: RoomSeat, link: LinkId, frame: RelayedFrame, bytes: number): void {
  const refusal = judge(turn.state, frame, bytes);
  if (refusal) {
    turn.effects.push({
      type: "send",
      link,
      frame: { type: "error", ...refusal, temporary: false, ref_seq: frame.seq },
    });
    return;
  }
  note(turn, frame);
  const to = otherSeat(seat);
  const receiver = turn.seat(to);
  if (to === "device" && receiver.presence === "left") return;
  const { seq, ...body } = frame;
  turn.patchSeat(to, { outbox: append(receiver.outbox, body, seq, bytes) });
}

function judge(
  state: RoomState,
  frame: RelayedFrame,
  bytes: number,
): { readonly code: string; readonly message: string } | undefined {
  const { task, limits } = state;
  if (frame.type === "task") {
    if (task) return { code: "second_task", message: "a room holds one task" };
    if (bytes > limits.inputs && utf8Length(JSON.stringify(frame.inputs)) > limits.inputs) {
      return { code: "too_large", message: `inputs may have ${limits.inputs} bytes of JSON` };
    }
    return undefined;
  }
  if (frame.id !== task?.id) return { code: "unknown_task", message: "the room has no task with this id" };
  if (frame.type !== "cancel" && task.replied) {
    return { code: "already_replied", message: "the task has its reply" };
  }
  return undefined;
}

function note(turn: Turn, frame: RelayedFrame): void {
  const { task } = turn.state;
  if (frame.type === "task") {
    turn.state = { ...turn.state, task: { id: frame.id, seq: frame.seq, accepted: false, replied: false } };
  } else if (task && frame.type !== "cancel") {
    const replied = task.replied || frame.type === "reply";
    turn.state = { ...turn.state, task: { ...task, accepted: true, replied } };
  }
}

// ── going ───────────────────────────────────────────────────────────────────────────────────────────────────────

function onDropped(turn: Turn, link: LinkId): void {
  const seat = seatOfLink(turn.state, link);
  if (seat) goAway(turn, seat);
}

function goAway(turn: Turn, seat: RoomSeat): void {
  turn.detach(seat, "away", turn.now.monotonicMs + turn.state.limits.grace_s * 1000);
  turn.announce(seat, { type: "peer", state: "away" });
}

function violate(turn: Turn, seat: RoomSeat, link: LinkId, code: number, why: string): void {
  turn.close(link, code, why);
  turn.vacate(seat, "protocol");
}

const END_CODE = {
  closed: ROOM_CLOSE.closed,
  expired: ROOM_CLOSE.expired,
  shutdown: ROOM_CLOSE.shuttingDown,
} as const satisfies Record<RoomEndReason, number>;

/** The last words: the mesh hears how far its frames got, then both seats hear that the room is over. */
function end(turn: Turn, reason: RoomEndReason): void {
  const { presence, link: deviceLink } = turn.seat("device");
  const { link: meshLink } = turn.seat("mesh");
  if (presence === "joined" || presence === "away") turn.vacate("device", reason);
  turn.flush("mesh");
  for (const link of [deviceLink, meshLink]) {
    if (link === undefined) continue;
    turn.effects.push({ type: "send", link, frame: { type: "closing", reason } });
    turn.close(link, END_CODE[reason], reason);
  }
  for (const seat of SEATS) {
    turn.detach(seat, "left");
    turn.patchSeat(seat, { token: undefined, resumeKeyHash: undefined });
  }
  turn.state = { ...turn.state, ended: reason };
  turn.effects.push({ type: "ended" });
}

/** A room that has ended takes nobody in. */
function refuseLate(turn: Turn, input: RoomInput): void {
  switch (input.type) {
    case "join":
    case "refuse":
      turn.close(input.link, ROOM_CLOSE.tokenRefused, "token refused");
      return;
    case "resume":
      turn.close(input.link, ROOM_CLOSE.noSuchRoom, "no such room");
      return;
    default:
      return;
  }
}

function meetDeadlines(turn: Turn): void {
  if (turn.state.ended) return;
  const { monotonicMs } = turn.now;
  if (monotonicMs >= turn.state.expiresAtMs) {
    end(turn, "expired");
    return;
  }
  for (const seat of SEATS) {
    const { link, awayUntilMs, fullSinceMs } = turn.seat(seat);
    if (awayUntilMs !== undefined && monotonicMs >= awayUntilMs) turn.vacate(seat, "lost");
    if (link !== undefined && fullSinceMs !== undefined && monotonicMs >= fullSinceMs + turn.state.drainMs) {
      turn.close(link, ROOM_CLOSE.tooSlow, "frames were not acknowledged in time");
      goAway(turn, seat);
    }
  }
}
