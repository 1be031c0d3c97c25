import { type Clock, FINAL_RUN_STATUSES, type RunError, type Timer } from "@leafmesh/protocol";
import type { RunRecord } from "../storage/contract.ts";
import type { ToolResult } from "../tools/contract.ts";
import type { MeshLease } from "./mesh-leases.ts";

/** Why a run is stopped from outside its own course. */
export type Interruption = "cancelled" | "timed_out" | "shutdown";

/**
 * The `reason` of a run's abort signal. `cancelled` and `timed_out` end the run; after `shutdown` the next start
 * continues it, so a tool settles only what would not survive the process.
 */
export class RunInterrupted extends Error {
  override readonly name = "RunInterrupted";
  readonly interruption: Interruption;

  constructor(interruption: Interruption) {
    super(`the run was interrupted: ${interruption}`);
    this.interruption = interruption;
  }
}

/** One unfinished run as this process drives it. Outlives attempts: what was settled once stays settled. */
export class RunControl {
  /** As last stored, as far as this process knows. */
  run: RunRecord;
  /** The attempt under way. */
  driving: Promise<void> | undefined;
  /** The run cannot go on, for this reason: its open calls are closed and it ends as failed. */
  failure: RunError | undefined;
  /** Mesh and models, held from the first attempt to the end: a reload does not change a run under way. */
  lease: MeshLease | undefined;
  /** Whether `run.started` is stored by this process. */
  announced = false;
  /** Nothing was said before this run, so there is nothing to read. */
  opensConversation = false;
  /** It was stored as running, with its message in the history, when its session was opened just now. */
  begunWithSession = false;
  /** Calls up to this turn may have been executed by a process that is gone. */
  inheritedTurn = 0;
  /** Some calls of this turn were answered from outside, and nothing else of it has been executed by an earlier process. */
  answeredTurn: number | undefined;
  /** Another process drives the run by now. */
  isLost = false;
  /** Results of calls by {@link callKey}, until they are stored. */
  readonly settled = new Map<string, ToolResult>();
  /** The final record, or that of a run that waits and is not in hand any more. Rejects when the engine stops before. */
  readonly finished: Promise<RunRecord>;
  /** Fires when the run is interrupted. `reason` is a {@link RunInterrupted}. */
  readonly signal: AbortSignal;
  /** Resolves when the run is interrupted. */
  readonly interrupted: Promise<undefined>;

  readonly #clock: Clock;
  readonly #abort = new AbortController();
  readonly #deadlineAt: number;
  readonly #outcome = Promise.withResolvers<RunRecord>();
  readonly #interrupted = Promise.withResolvers<undefined>();
  #interruption: Interruption | undefined;
  #timer: Timer | undefined;

  /** The deadline is measured on the monotonic clock from here on. */
  constructor(run: RunRecord, clock: Clock) {
    this.run = run;
    this.signal = this.#abort.signal;
    this.finished = this.#outcome.promise;
    this.finished.catch(() => {});
    this.interrupted = this.#interrupted.promise;
    this.#clock = clock;
    this.#deadlineAt = clock.monotonicMs() + run.deadlineAt - clock.nowMs();
  }

  get isFinished(): boolean {
    return FINAL_RUN_STATUSES.has(this.run.status);
  }

  get isSuspended(): boolean {
    return this.run.status === "suspended";
  }

  /** The run waits for somebody outside, so nothing is left to do here unless it is to end. */
  get isWaiting(): boolean {
    return this.isSuspended && !this.isOver && !this.failure;
  }

  get interruption(): Interruption | undefined {
    return this.#interruption;
  }

  /** Whether the run is to end here. After a shutdown it is not: it is left as it is. */
  get isOver(): boolean {
    return this.#interruption === "cancelled" || this.#interruption === "timed_out";
  }

  /** The run's deadline on today's wall clock, in milliseconds. */
  get deadlineAtMs(): number {
    return this.#clock.nowMs() + this.#deadlineAt - this.#clock.monotonicMs();
  }

  /**
   * Interrupts the run at its deadline, and calls `onDeadline` if that is yet to come: a run that is past it already
   * is closed when its turn comes.
   */
  watchDeadline(onDeadline: () => void): void {
    const leftMs = this.#deadlineAt - this.#clock.monotonicMs();
    if (leftMs <= 0) {
      this.interrupt("timed_out");
      return;
    }
    this.#timer = this.#clock.schedule(leftMs, () => {
      // A timer has a longest delay, so it may fire before its time.
      if (this.#clock.monotonicMs() < this.#deadlineAt) this.watchDeadline(onDeadline);
      else if (this.interrupt("timed_out")) onDeadline();
    });
  }

  /** The first interruption counts; false for a later one. */
  interrupt(interruption: Interruption): boolean {
    if (this.#interruption) return false;
    this.#interruption = interruption;
    this.#abort.abort(new RunInterrupted(interruption));
    this.#interrupted.resolve(undefined);
    return true;
  }

  /** The run has ended as `run` says. */
  finish(run: RunRecord): void {
    this.run = run;
    this.#outcome.resolve(run);
    this.#release();
  }

  /** The run waits for somebody outside, and whoever continues it takes it in hand anew. */
  release(): void {
    this.#outcome.resolve(this.run);
    this.#release();
  }

  /** This process gives the run up unfinished. */
  abandon(reason: Error): void {
    this.#outcome.reject(reason);
    this.#release();
  }

  #release(): void {
    this.#timer?.cancel();
    this.lease?.release();
    this.lease = undefined;
  }
}

export function callKey(turn: number, position: number): string {
  return `${turn}:${position}`;
}
