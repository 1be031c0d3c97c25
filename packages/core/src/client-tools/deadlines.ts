/**
 * Ends suspended runs whose wait nobody answers: by a timer where a process knows the wait, and by looking through the
 * store at the start and, where several processes share it, from time to time.
 */
import type { Clock, Logger, Timer } from "@leafmesh/protocol";
import type { PendingCalls } from "../calls/pending-calls.ts";
import { CommitConflict } from "../runs/run-services.ts";
import type { Backend, RunRecord, WaitRecord } from "../storage/contract.ts";
import { closeSuspended, unanswered } from "./closing.ts";
import { SUSPENDING_FACES } from "./suspension.ts";

const SCAN_EVERY_MS = 10_000;
const RETRY_MS = 1_000;
/** How often in a row an end is tried that somebody else's move refused. */
const MAX_TRIES = 5;
/** The longest a timer is armed for at once; longer waits arm it again. */
const LONGEST_TIMER_MS = 3_600_000;

export interface WaitDeadlinesOptions {
  readonly backend: Backend;
  readonly calls: PendingCalls;
  readonly clock: Clock;
  readonly logger: Logger;
  /** A run has ended here. */
  onEnded(run: RunRecord): void;
}

export type WatchedWait = Pick<WaitRecord, "id" | "runId" | "deadlineAt">;

interface Watched {
  readonly wait: WatchedWait;
  /** On the monotonic clock: a wall clock that is set back must not lengthen the wait. */
  readonly deadline: number;
  timer: Timer;
}

export class WaitDeadlines {
  readonly #options: WaitDeadlinesOptions;
  readonly #watched = new Map<string, Watched>();
  readonly #ending = new Set<Promise<void>>();
  #scan: Timer | undefined;
  #stopped = false;

  constructor(options: WaitDeadlinesOptions) {
    this.#options = options;
  }

  /** Takes up every wait of the store, and ends those that are past their deadline. Rejects when storage fails. */
  async start(): Promise<void> {
    await this.#lookThrough();
    if (this.#options.backend.kind !== "embedded") this.#scanLater();
  }

  watch(wait: WatchedWait): void {
    if (this.#stopped || this.#watched.has(wait.id)) return;
    const { clock } = this.#options;
    const deadline = clock.monotonicMs() + wait.deadlineAt - clock.nowMs();
    const watched = { wait, deadline, timer: { cancel() {} } };
    this.#watched.set(wait.id, watched);
    this.#arm(watched);
  }

  unwatch(waitId: string): void {
    this.#watched.get(waitId)?.timer.cancel();
    this.#watched.delete(waitId);
  }

  /** Exactly at the deadline is in time. */
  isPast(wait: WatchedWait): boolean {
    const { clock } = this.#options;
    const watched = this.#watched.get(wait.id);
    return watched ? clock.monotonicMs() > watched.deadline : clock.nowMs() > wait.deadlineAt;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#scan?.cancel();
    for (const waitId of [...this.#watched.keys()]) this.unwatch(waitId);
    await Promise.all(this.#ending);
  }

  async #lookThrough(): Promise<void> {
    const { backend } = this.#options;
    const waits = await backend.waits({ states: ["open"], faces: SUSPENDING_FACES });
    for (const wait of waits) {
      if (this.#stopped) return;
      if (this.isPast(wait) && !this.#watched.has(wait.id)) await this.#expire(wait);
      else this.watch(wait);
    }
  }

  #scanLater(): void {
    if (this.#stopped) return;
    this.#scan = this.#options.clock.schedule(SCAN_EVERY_MS, () => {
      this.#track(
        this.#lookThrough()
          .catch((error: unknown) => this.#options.logger.error("waits could not be looked through", { error }))
          .then(() => this.#scanLater()),
      );
    });
  }

  #arm(watched: Watched): void {
    const { clock } = this.#options;
    const leftMs = watched.deadline - clock.monotonicMs() + 1;
    watched.timer = clock.schedule(Math.min(leftMs, LONGEST_TIMER_MS), () => {
      if (clock.monotonicMs() > watched.deadline) this.#track(this.#expireOrRetry(watched));
      else this.#arm(watched);
    });
  }

  async #expireOrRetry(watched: Watched): Promise<void> {
    try {
      await this.#expire(watched.wait);
      this.unwatch(watched.wait.id);
    } catch (error) {
      this.#options.logger.error("a wait could not be ended; it is tried again", { waitId: watched.wait.id, error });
      if (this.#stopped) return;
      watched.timer = this.#options.clock.schedule(RETRY_MS, () => this.#track(this.#expireOrRetry(watched)));
    }
  }

  /** Somebody who answers or cancels at the same moment wins or loses; either way the wait has one end. */
  async #expire({ id }: WatchedWait): Promise<void> {
    const { backend, clock } = this.#options;
    for (let tries = 1; ; tries++) {
      const wait = await backend.wait(id);
      const run = wait && (await backend.run(wait.runId));
      if (wait?.state !== "open" || run?.status !== "suspended") return;
      try {
        this.#options.onEnded(await closeSuspended(this.#options, run, unanswered(wait), clock.nowMs()));
        return;
      } catch (error) {
        if (!(error instanceof CommitConflict) || tries === MAX_TRIES) throw error;
      }
    }
  }

  #track(work: Promise<void>): void {
    this.#ending.add(work);
    void work.finally(() => this.#ending.delete(work));
  }
}
