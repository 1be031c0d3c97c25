import type { Clock, Timer } from "@leafmesh/protocol";

export type Deadline = "join" | "reply" | "grace";

/**
 * The deadlines of one ask. Measured on the monotonic clock. When one passes, what the device has sent already is looked
 * at first: after a stall of the process timers come before sockets, and an answer that waits in a socket is in time.
 */
export class AskTimers {
  readonly #clock: Clock;
  readonly #passed: (which: Deadline) => void;
  /** The join deadline, then the reply deadline. */
  #main: Timer | undefined;
  #grace: Timer | undefined;

  constructor(clock: Clock, passed: (which: Deadline) => void) {
    this.#clock = clock;
    this.#passed = passed;
  }

  /** Replaces the deadline that was armed before; `grace` runs beside the others. */
  arm(which: Deadline, afterMs: number): void {
    if (which === "grace") {
      this.#grace?.cancel();
      this.#grace = this.#clock.schedule(afterMs, () => {
        this.#grace = this.#clock.schedule(0, () => this.#passed(which));
      });
    } else {
      this.#main?.cancel();
      this.#main = this.#clock.schedule(afterMs, () => {
        this.#main = this.#clock.schedule(0, () => this.#passed(which));
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
