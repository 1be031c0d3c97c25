/**
 * What an adapter learns about one room, told to the room's reader: each change once, in order, bounded, and with the
 * truth about the task. Adapters of hosted providers differ in how they learn, not in what they may say.
 */
import type { Capability, Clock, DeviceEnvelope, Timer } from "@leafmesh/protocol";
import { type Delivered, RoomError, type RoomEvent } from "./contract.ts";
import { createEventQueue } from "./event-queue.ts";

/** Events that may wait for their reader. */
const MAX_WAITING_EVENTS = 256;
/** Events about messages that were dropped; what comes after is dropped in silence. */
const MAX_DROPS_REPORTED = 16;

export interface RoomFeedOptions {
  readonly clock: Clock;
  /** How long a device whose link is down may take to come back. */
  readonly graceMs: number;
}

export class RoomFeed {
  readonly #options: RoomFeedOptions;
  readonly #events = createEventQueue<RoomEvent>(MAX_WAITING_EVENTS);
  #presence: "absent" | "here" | "away" | "left" = "absent";
  #taskLeft = false;
  /** The device has said something about the task. */
  #answered = false;
  #dropsReported = 0;
  #grace: Timer | undefined;
  #over = false;

  constructor(options: RoomFeedOptions) {
    this.#options = options;
  }

  get events(): AsyncIterable<RoomEvent> {
    return this.#events;
  }

  get isOver(): boolean {
    return this.#over;
  }

  get taskLeft(): boolean {
    return this.#taskLeft;
  }

  /** Why no task may leave any more, whatever the provider would still take: it was said that none was delivered. */
  get obstacle(): string | undefined {
    if (this.#over) return "The room has ended.";
    return this.#presence === "left" ? "The device has left the room." : undefined;
  }

  get delivered(): Delivered {
    if (!this.#taskLeft) return "no";
    return this.#answered ? "yes" : "maybe";
  }

  /** To be called before the task could reach anybody. */
  taskIsLeaving(): void {
    this.#taskLeft = true;
  }

  /** The provider took it back: it certainly never left. */
  taskStayed(): void {
    this.#taskLeft = false;
  }

  /** The device is in the room, for the first time or again. */
  here(capabilities: readonly Capability[] | undefined): void {
    if (this.#presence === "left") return;
    this.#grace?.cancel();
    const before = this.#presence;
    this.#presence = "here";
    if (before === "absent") this.#emit({ type: "joined", capabilities });
    if (before === "away") this.#emit({ type: "back" });
  }

  /** The device said goodbye. */
  left(): void {
    this.#leave("left");
  }

  /** The provider sees the device no more; it may come back within the grace. */
  lost(): void {
    if (this.#presence !== "here") return;
    this.#presence = "away";
    const { clock, graceMs } = this.#options;
    this.#emit({ type: "away", graceMs });
    this.#grace = clock.schedule(graceMs, () => this.#leave("lost"));
  }

  heard(envelope: DeviceEnvelope): void {
    if (envelope.type === "refused") {
      if (this.#taskLeft) this.drop("refused after the task was sent");
      else this.#emit({ type: "refused" });
      return;
    }
    this.#answered = true;
    this.#emit({ type: "frame", envelope });
  }

  /** Whoever is in the room may be able to cause this, so it neither fills the queue nor ends the room. */
  drop(why: string, tooLarge?: boolean): void {
    if (this.#dropsReported++ >= MAX_DROPS_REPORTED) return;
    this.#events.push({ type: "dropped", why, ...(tooLarge ? { tooLarge } : {}) });
  }

  /** The room ended without the mesh closing it. */
  fail(error: RoomError): void {
    this.#end({ type: "closed", error, delivered: this.delivered });
  }

  /** The mesh closes the room: nothing more is told. */
  close(): void {
    this.#end();
  }

  #leave(reason: "left" | "lost"): void {
    if (this.#presence === "left") return;
    this.#grace?.cancel();
    this.#presence = "left";
    this.#emit({ type: "left", reason, delivered: this.delivered });
  }

  /** A device that floods the room ends it: whatever is dropped could be the answer. */
  #emit(event: RoomEvent): void {
    if (this.#over || this.#events.push(event)) return;
    this.fail(new RoomError("mismatch", "The device sends more messages than the mesh can read.", { code: "flood" }));
  }

  #end(last?: RoomEvent): void {
    this.#over = true;
    this.#grace?.cancel();
    this.#events.end(last);
  }
}
