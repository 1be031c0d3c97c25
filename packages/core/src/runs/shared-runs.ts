/** Runs that any of several processes may drive: each is in the hands of the process that took it from the queue. */
import { type Clock, FINAL_RUN_STATUSES, type Logger, type Timer } from "@leafmesh/protocol";
import type { Backend, Peers, RunQueue, RunRecord } from "../storage/contract.ts";
import type { RunDriver } from "./run-driver.ts";
import { endWrites, type RunEnd } from "./run-writes.ts";
import { finishedElsewhere } from "./wait-for-run.ts";

const CANCEL = "run.cancel";
/** How often a cancellation is told again: the process that drives the run may have died, and another taken over. */
const TELL_EVERY_MS = 1_000;
/** How often runs are looked for that no process holds and the queue does not know. */
const LOOK_EVERY_MS = 5_000;

/** Of the runs that wait longest, how many are looked at for a deadline that passed before their turn. */
const MOST_OVERDUE = 500;

const TIMED_OUT: RunEnd = {
  status: "timed_out",
  error: { code: "timed_out", message: "The run was not done at its deadline." },
};
const CANCELLED: RunEnd = { status: "cancelled", error: { code: "cancelled", message: "The run was cancelled." } };

export interface SharedRunsOptions {
  readonly backend: Backend;
  readonly driver: RunDriver;
  readonly clock: Clock;
  readonly logger: Logger;
  /** A run that nobody drove has ended here. */
  onEnded(run: RunRecord): void;
}

export interface SharedRuns {
  /** Puts a run that was just stored into the queue, for whichever process has room. */
  queue(run: RunRecord): Promise<void>;
  /**
   * Ends the run as cancelled wherever it is driven; `undefined` when it has ended or does not exist. Rejects with the
   * signal's reason when that comes first.
   */
  cancel(runId: string, signal: AbortSignal): Promise<RunRecord | undefined>;
  /** Takes in what dead processes left, now and from now on; answers how many runs that were now. */
  start(): Promise<number>;
  stop(): Promise<void>;
}

/** `undefined` for a backend that this process has to itself. */
export function createSharedRuns(options: SharedRunsOptions): SharedRuns | undefined {
  const { peers, queue } = options.backend;
  return peers && queue.takeUp ? new Shared(options, peers, queue.takeUp.bind(queue)) : undefined;
}

class Shared implements SharedRuns {
  readonly #options: SharedRunsOptions;
  readonly #peers: Peers;
  readonly #takeUp: NonNullable<RunQueue["takeUp"]>;
  #stopListening: (() => void) | undefined;
  #timer: Timer | undefined;
  #looking = Promise.resolve();
  #isStopped = false;

  constructor(options: SharedRunsOptions, peers: Peers, takeUp: NonNullable<RunQueue["takeUp"]>) {
    this.#options = options;
    this.#peers = peers;
    this.#takeUp = takeUp;
  }

  async queue(run: RunRecord): Promise<void> {
    const { backend, logger } = this.#options;
    try {
      await backend.queue.push({ runId: run.id, sessionId: run.sessionId });
    } catch (error) {
      await this.#endUnstarted(run, CANCELLED).catch((failure: unknown) => {
        logger.error("a run that could not be queued stays in the store, and will be answered", { error: failure });
      });
      throw error;
    }
  }

  async cancel(runId: string, signal: AbortSignal): Promise<RunRecord | undefined> {
    const { backend, driver } = this.#options;
    for (;;) {
      signal.throwIfAborted();
      const ended = await this.#cancelHere(runId);
      if (ended) return ended;
      const run = await backend.run(runId);
      if (!run || FINAL_RUN_STATUSES.has(run.status)) return undefined;
      if (run.status === "suspended") driver.add(run);
      else if (run.startedAt === undefined) {
        const unstarted = await this.#endUnstarted(run, CANCELLED);
        if (unstarted) return unstarted;
      } else {
        this.#peers.tell(CANCEL, { run: runId });
        const finished = await this.#finishedSoon(run, signal);
        if (finished) return finished;
      }
    }
  }

  async start(): Promise<number> {
    this.#stopListening = this.#peers.listen(CANCEL, ({ run }) => {
      const control = typeof run === "string" ? this.#options.driver.get(run) : undefined;
      if (control) void this.#options.driver.interrupt(control, "cancelled").catch(() => {});
    });
    const taken = await this.#takeUp();
    this.#lookLater();
    return taken;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#timer?.cancel();
    this.#stopListening?.();
    await this.#looking;
  }

  /** `undefined`: this process does not drive the run, or has lost it meanwhile. */
  async #cancelHere(runId: string): Promise<RunRecord | undefined> {
    const { driver } = this.#options;
    const control = driver.get(runId);
    if (!control) return undefined;
    try {
      const run = await driver.interrupt(control, "cancelled");
      return FINAL_RUN_STATUSES.has(run.status) ? run : undefined;
    } catch (error) {
      if (control.isLost) return undefined;
      throw error;
    }
  }

  /** One commit that only succeeds when no process has begun the run. */
  async #endUnstarted(run: RunRecord, end: RunEnd): Promise<RunRecord | undefined> {
    const { backend, clock, onEnded } = this.#options;
    const { writes, patch } = endWrites(run, clock.nowMs(), end);
    const stored = await backend.commit(writes);
    if (!stored.committed) return undefined;
    const ended = { ...run, ...patch, version: run.version + 1 };
    onEnded(ended);
    return ended;
  }

  async #finishedSoon(run: RunRecord, signal: AbortSignal): Promise<RunRecord | undefined> {
    const soon = new AbortController();
    const timer = this.#options.clock.schedule(TELL_EVERY_MS, () => soon.abort());
    try {
      return await finishedElsewhere(this.#options.backend, run, AbortSignal.any([signal, soon.signal]));
    } catch (error) {
      if (soon.signal.aborted && !signal.aborted) return undefined;
      throw error;
    } finally {
      timer.cancel();
    }
  }

  async #look(): Promise<void> {
    const { backend, clock, logger } = this.#options;
    const taken = await this.#takeUp();
    if (taken > 0) logger.info("runs that nobody held were taken up", { runs: taken });
    const now = clock.nowMs();
    for (const run of await backend.runs({ statuses: ["queued"], limit: MOST_OVERDUE })) {
      if (run.startedAt === undefined && run.deadlineAt <= now) await this.#endUnstarted(run, TIMED_OUT);
    }
  }

  #lookLater(): void {
    if (this.#isStopped) return;
    const { clock, logger } = this.#options;
    this.#timer = clock.schedule(LOOK_EVERY_MS, () => {
      this.#looking = this.#look()
        .catch((error: unknown) => logger.warn("runs that nobody holds could not be looked for", { error }))
        .then(() => this.#lookLater());
    });
  }
}
