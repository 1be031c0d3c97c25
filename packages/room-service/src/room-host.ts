import { createHash, randomBytes } from "node:crypto";
import type { Clock, RoomStatus, Timer } from "@leafmesh/protocol";
import type { Link } from "./link.ts";
import {
  type LinkId,
  type NewRoom,
  newRoom,
  nextDeadlineMs,
  type ResumeKey,
  type RoomEffect,
  type RoomInput,
  type RoomState,
  statusOf,
  type Violation,
} from "./room/state.ts";
import type { StepRoom } from "./room/step.ts";

/** Who holds the rooms of a process. */
export interface RoomKeeper {
  roomEnded(roomId: string, status: RoomStatus): void;
}

/** Runs one room: feeds the pure rules, carries out what follows, keeps one timer for the next deadline. */
export class RoomHost {
  readonly #clock: Clock;
  readonly #step: StepRoom;
  readonly #keeper: RoomKeeper;
  readonly #links = new Map<LinkId, Link>();
  readonly #inputs: RoomInput[] = [];
  #state: RoomState;
  #lastLink = 0;
  #running = false;
  #timer: { readonly atMs: number; readonly timer: Timer } | undefined;

  constructor(room: NewRoom, clock: Clock, step: StepRoom, keeper: RoomKeeper) {
    this.#clock = clock;
    this.#step = step;
    this.#keeper = keeper;
    this.#state = newRoom(room, this.#now());
    this.#arm();
  }

  get state(): RoomState {
    return this.#state;
  }

  /** Makes a link known before it asks for a seat. It is forgotten when it is closed or reported as gone. */
  addLink(link: Link): LinkId {
    const id = ++this.#lastLink;
    this.#links.set(id, link);
    return id;
  }

  /** Safe to call from inside a link's `send`: the input waits for its turn. */
  dispatch(input: RoomInput): void {
    this.#inputs.push(input);
    if (this.#running) return;
    this.#running = true;
    try {
      for (let next = this.#inputs.shift(); next; next = this.#inputs.shift()) this.#run(next);
    } finally {
      this.#running = false;
    }
    this.#arm();
  }

  /** The link's socket is gone, or its client broke the protocol. */
  drop(link: LinkId, how: "dropped" | Violation): void {
    if (!this.#links.delete(link)) return;
    this.dispatch(how === "dropped" ? { type: "dropped", link } : { type: "violated", link, how });
  }

  #run(input: RoomInput): void {
    const { state, effects } = this.#step(this.#state, input, this.#now());
    this.#state = state;
    for (const effect of effects) this.#carryOut(effect);
  }

  #carryOut(effect: RoomEffect): void {
    if (effect.type === "ended") {
      this.#timer?.timer.cancel();
      this.#timer = undefined;
      this.#keeper.roomEnded(this.#state.id, statusOf(this.#state));
      return;
    }
    const link = this.#links.get(effect.link);
    if (!link) return;
    switch (effect.type) {
      case "send":
        link.send(effect.frame);
        return;
      case "close":
        this.#links.delete(effect.link);
        link.close(effect.code, effect.reason);
        return;
      case "pause":
        link.pause();
        return;
      case "unpause":
        link.unpause();
        return;
      default:
        effect satisfies never;
    }
  }

  #now() {
    return { monotonicMs: this.#clock.monotonicMs(), wallMs: this.#clock.nowMs() };
  }

  /** A timer that fires too early only looks again, so most steps need not touch it. */
  #arm(): void {
    const atMs = nextDeadlineMs(this.#state);
    if (atMs === undefined || (this.#timer && this.#timer.atMs <= atMs)) return;
    this.#timer?.timer.cancel();
    const timer = this.#clock.schedule(atMs - this.#clock.monotonicMs(), () => {
      this.#timer = undefined;
      this.dispatch({ type: "tick" });
    });
    this.#timer = { atMs, timer };
  }
}

/** A fresh resume key. It names its room, so that a service that lost the room can say so. */
export function newResumeKey(roomId: string): ResumeKey {
  const key = `${roomId}.${randomBytes(16).toString("base64url")}`;
  return { key, hash: hashResumeKey(key) };
}

/** Keys are kept and compared as hashes, so that comparing tells nothing about a key. */
export function hashResumeKey(key: string): string {
  return createHash("sha256").update(key).digest("base64url");
}

export function roomOfResumeKey(key: string): string {
  return key.slice(0, Math.max(0, key.lastIndexOf(".")));
}
