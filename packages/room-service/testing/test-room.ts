/** A room without sockets for tests: inputs in, effects out, the clock moved by hand. */
import { DEFAULT_ROOM_LIMITS, type RoomLimits, type RoomSeat } from "@leafmesh/protocol";
import type { OutboundFrame, RelayedFrame } from "../src/room/frames.ts";
import { type LinkId, newRoom, type RoomEffect, type RoomInput, type RoomState } from "../src/room/state.ts";
import { type StepRoom, stepRoom } from "../src/room/step.ts";

export interface TestRoom {
  readonly state: RoomState;
  /** Every effect so far. */
  readonly effects: RoomEffect[];
  /** Runs one input and answers its effects. */
  step(input: RoomInput): readonly RoomEffect[];
  advance(ms: number): readonly RoomEffect[];
  /** Joins with the seat's first token; the resume key is `key-<link>`. */
  join(seat: RoomSeat, link: LinkId): readonly RoomEffect[];
  resume(link: LinkId, key: string, received: number): readonly RoomEffect[];
  frame(link: LinkId, frame: Extract<RoomInput, { type: "frame" }>["frame"], bytes?: number): readonly RoomEffect[];
}

export function createTestRoom(limits: Partial<RoomLimits> = {}, step: StepRoom = stepRoom): TestRoom {
  let nowMs = 1000;
  const now = () => ({ monotonicMs: nowMs, wallMs: 1_800_000_000_000 + nowMs });
  let state = newRoom(
    {
      id: "room_1",
      limits: { ...DEFAULT_ROOM_LIMITS, ...limits },
      drainMs: 10_000,
      lifetimeMs: 120_000,
      tokens: {
        mesh: { jti: "mesh-token", expiresAtMs: nowMs + 120_000, used: false },
        device: { jti: "device-token", expiresAtMs: nowMs + 60_000, used: false },
      },
    },
    now(),
  );
  const effects: RoomEffect[] = [];
  const run = (input: RoomInput): readonly RoomEffect[] => {
    const result = step(state, input, now());
    state = result.state;
    effects.push(...result.effects);
    return result.effects;
  };
  return {
    get state() {
      return state;
    },
    effects,
    step: run,
    advance(ms) {
      nowMs += ms;
      return run({ type: "tick" });
    },
    join: (seat, link) => run({ type: "join", seat, link, jti: `${seat}-token`, resume: keyOf(link) }),
    resume: (link, key, received) => run({ type: "resume", link, hash: hashOf(key), received, resume: keyOf(link) }),
    frame: (link, frame, bytes = 100) => run({ type: "frame", link, frame, bytes }),
  };
}

const hashOf = (key: string): string => `hash of ${key}`;
const keyOf = (link: LinkId) => ({ key: `key-${link}`, hash: hashOf(`key-${link}`) });

/** The frames that went to one link, in order. */
export function sentTo(link: LinkId, effects: readonly RoomEffect[]): OutboundFrame[] {
  return effects.flatMap((effect) => (effect.type === "send" && effect.link === link ? [effect.frame] : []));
}

export function closeOf(link: LinkId, effects: readonly RoomEffect[]): number | undefined {
  const close = effects.find((effect) => effect.type === "close" && effect.link === link);
  return close?.type === "close" ? close.code : undefined;
}

export const task = (seq: number, id = "ask_1"): RelayedFrame => ({
  type: "task",
  seq,
  id,
  action: "battery.read",
  inputs: {},
  budget_ms: 60_000,
});
export const cancel = (seq: number, reason = "over"): RelayedFrame => ({ type: "cancel", seq, id: "ask_1", reason });
export const accepted = (seq: number): RelayedFrame => ({ type: "accepted", seq, id: "ask_1" });
export const progress = (seq: number, note = "working"): RelayedFrame => ({ type: "progress", seq, id: "ask_1", note });
export const reply = (seq: number): RelayedFrame => ({ type: "reply", seq, id: "ask_1", outcome: "done", data: 71 });
