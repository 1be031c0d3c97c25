/**
 * What the device sends over Pusher: in order, not more than ten in a second, and again until the mesh has said that it
 * heard it. Pusher says nothing of a client event, and drops what comes too fast.
 */
import type { Clock, Timer } from "@leafmesh/protocol";

/** Pusher takes ten. https://pusher.com/docs/channels/using_channels/events/#rate-limit-your-events */
const MOST_IN_A_WINDOW = 9;
const WINDOW_MS = 1_050;
/** Without a word from the mesh for so long, it is said again. */
const AGAIN_AFTER_MS = 3_000;

export interface PusherOutboxOptions {
  readonly clock: Clock;
  /** Whether it is on its way. */
  put(number: number, message: object): boolean;
}

export class PusherOutbox {
  readonly #options: PusherOutboxOptions;
  readonly #unheard = new Map<number, object>();
  #due: number[] = [];
  #sentAtMs: number[] = [];
  #isOpen = false;
  #pace: Timer | undefined;
  #again: Timer | undefined;

  constructor(options: PusherOutboxOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#unheard.size;
  }

  add(number: number, message: object): void {
    this.#unheard.set(number, message);
    this.#due.push(number);
    this.#flush();
  }

  heard(number: number): void {
    this.#unheard.delete(number);
  }

  /** The device is in the channel, for the first time or again: everything that was not heard of is due. */
  open(): void {
    this.#isOpen = true;
    this.#due = [...this.#unheard.keys()];
    this.#flush();
  }

  pause(): void {
    this.#isOpen = false;
    this.#pace?.cancel();
    this.#pace = undefined;
    this.#again?.cancel();
  }

  #flush(): void {
    if (!this.#isOpen || this.#pace) return;
    const { clock, put } = this.#options;
    for (let number = this.#due[0]; number !== undefined; number = this.#due[0]) {
      const waitMs = this.#waitMs();
      if (waitMs > 0) {
        this.#pace = clock.schedule(waitMs, () => {
          this.#pace = undefined;
          this.#flush();
        });
        return;
      }
      const message = this.#unheard.get(number);
      if (message && !put(number, message)) return;
      this.#due.shift();
      if (message) this.#sentAtMs.push(clock.monotonicMs());
    }
    this.#again?.cancel();
    if (this.#unheard.size > 0) this.#again = clock.schedule(AGAIN_AFTER_MS, () => this.open());
  }

  #waitMs(): number {
    const nowMs = this.#options.clock.monotonicMs();
    this.#sentAtMs = this.#sentAtMs.filter((atMs) => nowMs - atMs < WINDOW_MS);
    const oldest = this.#sentAtMs[0];
    return oldest === undefined || this.#sentAtMs.length < MOST_IN_A_WINDOW ? 0 : oldest + WINDOW_MS - nowMs;
  }
}
