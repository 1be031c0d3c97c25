import type { Clock, Timer } from "@leafmesh/protocol";

export type Deadline = "join" | "reply" | "grace";

export interface DeadlineWatcher {
  deadlinePassed(which: Deadline): void;
}

/**
 * The deadlines of one ask. Measured on the monotonic clock. When one passes, what the device has sent already is looked
 * at first: after a stall of the process timers come before sockets, and an answer that waits in a socket is in time.
 */
export class AskTimers {
  readonly #clock: Clock;
  readonly #watcher: DeadlineWatcher;
  /** The join deadline, then the reply deadline. */
  #main: Timer | undefined;
  #grace: Timer | undefined;

  constructor(clock: Clock, watcher: DeadlineWatcher) {
    this.#clock = clock;
    this.#watcher = watcher;
  }

  /** Replaces the deadline that was armed before; `grace` runs beside the others. */
  arm(which: Deadline, afterMs: number): void {
    if (which === "grace") {
      this.#grace?.cancel();
      this.#grace = this.#clock.schedule(afterMs, () => {
        this.#grace = this.#clock.schedule(0, () => this.#watcher.deadlinePassed(which));
      });
    } else {
      this.#main?.cancel();
      this.#main = this.#clock.schedule(afterMs, () => {
        this.#main = this.#clock.schedule(0, () => this.#watcher.deadlinePassed(which));
      });
    }
  }

  disarmGrace(): void {
    this.#grace?.cancel();
    this.#grace = undefined;
  }

  disarmAll(): void {
    this.disarmGrace();
    this.#main?.cancel();
    this.#main = undefined;
  }
}
