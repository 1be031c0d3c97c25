/** The matrix: where a mesh is killed, and what the model has to be told of each act then. */
import type { StopPoint } from "./stop-point.ts";
import type { Face, Play } from "./wanted.ts";

/** What the model is told of one act; `unclear` is a lie or nonsense. */
export type Told = "done" | "not done" | "unknown" | "unclear";

/** What it is to be told. `either`: whether the executor is back in time is a matter of milliseconds. */
export type Expected = Exclude<Told, "unclear"> | "either";

/** What is seen from outside before the kill. */
export type Sign = "stopped" | "acting" | "delivered" | "half an answer";

export interface Point {
  readonly name: string;
  readonly play: Play;
  readonly stopAt?: StopPoint;
  readonly sign: Sign;
  /** Nothing that the mesh sends reaches the executor before the kill. */
  readonly unseen?: boolean;
  /** By face, what is told of each number of the play, from 1. A face that is left out has no such point, or dies there as another does. */
  readonly told: Partial<Record<Face, readonly Expected[]>>;
}

const ONE: Play = [[{ number: 1 }]];
const ALL_DONE = { room: ["done"], "rooms service": ["done"], bridge: ["done"], client: ["done"] } as const;

export const POINTS: readonly Point[] = [
  {
    name: "call stored, not offered",
    play: ONE,
    stopAt: { kind: "stored", when: "after", how: "freeze" },
    sign: "stopped",
    unseen: true,
    told: { ...ALL_DONE, room: ["not done"], "rooms service": ["not done"] },
  },
  {
    name: "offered, executor at work",
    play: [[{ number: 1, hold: true }]],
    sign: "acting",
    told: { ...ALL_DONE, room: ["unknown"] },
  },
  {
    name: "answer stored, not acknowledged",
    play: ONE,
    stopAt: { kind: "settled", when: "after", how: "freeze" },
    sign: "stopped",
    told: ALL_DONE,
  },
  {
    name: "answer acknowledged, not in the history",
    play: ONE,
    stopAt: { kind: "used", when: "before", how: "hold" },
    sign: "delivered",
    told: { bridge: ["done"], client: ["done"] },
  },
  {
    name: "answer stored, not in the history",
    play: ONE,
    stopAt: { kind: "used", when: "before", how: "freeze" },
    sign: "stopped",
    told: { "rooms service": ["done"] },
  },
  {
    name: "history written",
    play: ONE,
    stopAt: { kind: "used", when: "after", how: "freeze" },
    sign: "stopped",
    told: { "rooms service": ["done"], bridge: ["done"], client: ["done"] },
  },
  {
    name: "model half through its answer",
    play: ONE,
    sign: "half an answer",
    told: { bridge: ["done"], client: ["done"] },
  },
  {
    name: "between two calls of a turn",
    play: [[{ number: 1 }, { number: 2, hold: true }]],
    stopAt: { kind: "settled", when: "after", how: "freeze" },
    sign: "stopped",
    told: { room: ["done", "not done"], "rooms service": ["done", "not done"], bridge: ["done", "done"] },
  },
  {
    name: "between the calls of two turns",
    play: [[{ number: 1 }], [{ number: 2 }]],
    stopAt: { kind: "stored", nth: 2, when: "before", how: "freeze" },
    sign: "stopped",
    told: {
      "rooms service": ["done", "either"],
      bridge: ["done", "done"],
      client: ["done", "done"],
    },
  },
];
