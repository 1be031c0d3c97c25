import type { Clock, Logger, Timer } from "@leafmesh/protocol";
import type { Backend } from "../storage/contract.ts";

const SWEEP_EVERY_MS = 60 * 60 * 1000;
/** Sessions that one read brings. */
const PAGE = 100;

export interface SweepOptions {
  readonly backend: Backend;
  readonly clock: Clock;
  readonly logger: Logger;
  /** How long a session may be idle; asked at each sweep. */
  ttlMs(): number;
  /** Ends the session unless it has been active since `idleBefore`. */
  end(sessionId: string, idleBefore: number): Promise<void>;
}

/** Ends sessions that have been idle for too long, which erases their push tokens and uploads. */
export class SessionSweep {
  readonly #options: SweepOptions;
  #timer: Timer | undefined;
  #stopped = false;

  constructor(options: SweepOptions) {
    this.#options = options;
  }

  /** Sweeps now and from then on every hour. Resolves after the first sweep; never rejects. */
  async start(): Promise<void> {
    try {
      await this.#sweep();
    } catch (error) {
      this.#options.logger.error("the sweep of idle sessions failed; it is tried again in an hour", { error });
    }
    if (this.#stopped) return;
    this.#timer = this.#options.clock.schedule(SWEEP_EVERY_MS, () => void this.start());
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  async #sweep(): Promise<void> {
    const { backend, clock, logger } = this.#options;
    const before = clock.nowMs() - this.#options.ttlMs();
    let ended = 0;
    for (;;) {
      const page = await backend.idleSessions(before, PAGE);
      for (const session of page) {
        if (this.#stopped) return;
        await this.#options.end(session.id, before);
      }
      ended += page.length;
      if (page.length < PAGE) break;
    }
    if (ended > 0) logger.info("idle sessions were ended", { count: ended });
  }
}
