import { type Clock, FINAL_RUN_STATUSES, type RunError, type Timer } from "@leafmesh/protocol";
import type { Parked, RunRecord } from "../storage/contract.ts";
import type { CallWatcher, ToolResult, WaitingCall } from "../tools/contract.ts";
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

/** A call of the run that its tool waits for. */
export interface HeldCall {
  readonly call: WaitingCall;
  /** On the monotonic clock. */
  readonly startedAtMs: number;
}

/** What is known of a call of the run that is not stored yet. */
export interface KnownCall {
  readonly key: string;
  readonly result: ToolResult | undefined;
  readonly held: HeldCall | undefined;
}

const NONE: readonly KnownCall[] = [];

/** One unfinished run as this process drives it. Outlives attempts: what was settled once stays settled. */
export class RunControl implements CallWatcher, Parked {
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

  readonly #clock: Clock;
  readonly #deadlineAt: number;
  readonly #onDeadline: (control: RunControl) => void;
  /** Made when somebody asks for them, so that a run that only waits holds none. */
  #abort: AbortController | undefined;
  #outcome: PromiseWithResolvers<RunRecord> | undefined;
  #interrupted: PromiseWithResolvers<undefined> | undefined;
  /** How the run ended for this process. */
  #left: { readonly run: RunRecord } | { readonly reason: Error } | undefined;
  #interruption: Interruption | undefined;
  #timer: Timer | undefined;
  #parking: "none" | "parked" | "woken" = "none";
  #onAwake: (() => void) | undefined;
  /** Few, so they are searched. */
  #calls: readonly KnownCall[] = NONE;

  /** The deadline is measured on the monotonic clock from here on. */
  constructor(run: RunRecord, clock: Clock, onDeadline: (control: RunControl) => void) {
    this.run = run;
    this.#clock = clock;
    this.#onDeadline = onDeadline;
    this.#deadlineAt = clock.monotonicMs() + run.deadlineAt - clock.nowMs();
  }

  /** The final record, or that of a run that waits and is not in hand any more. Rejects when the engine stops before. */
  get finished(): Promise<RunRecord> {
    if (!this.#outcome) {
      this.#outcome = Promise.withResolvers();
      this.#outcome.promise.catch(() => {});
      this.#tellOutcome();
    }
    return this.#outcome.promise;
  }

  /** Fires when the run is interrupted. `reason` is a {@link RunInterrupted}. */
  get signal(): AbortSignal {
    if (!this.#abort) {
      this.#abort = new AbortController();
      if (this.#interruption) this.#abort.abort(new RunInterrupted(this.#interruption));
    }
    return this.#abort.signal;
  }

  /** Resolves when the run is interrupted. */
  get interrupted(): Promise<undefined> {
    this.#interrupted ??= Promise.withResolvers();
    if (this.#interruption) this.#interrupted.resolve(undefined);
    return this.#interrupted.promise;
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
   * Interrupts the run at its deadline, and says so if that is yet to come: a run that is past it already
   * is closed when its turn comes.
   */
  watchDeadline(): void {
    const leftMs = this.#deadlineAt - this.#clock.monotonicMs();
    if (leftMs <= 0) {
      this.interrupt("timed_out");
      return;
    }
    this.#timer = this.#clock.schedule(leftMs, () => {
      // A timer has a longest delay, so it may fire before its time.
      if (this.#clock.monotonicMs() < this.#deadlineAt) this.watchDeadline();
      else if (this.interrupt("timed_out")) this.#onDeadline(this);
    });
  }

  /** The first interruption counts; false for a later one. */
  interrupt(interruption: Interruption): boolean {
    if (this.#interruption) return false;
    this.#interruption = interruption;
    const reason = new RunInterrupted(interruption);
    this.#abort?.abort(reason);
    this.#interrupted?.resolve(undefined);
    for (const { held } of this.#calls) held?.call.interrupt(reason);
    this.#wake();
    return true;
  }

  /** The call by {@link callKey}: its result until that is stored, or what holds it while it only waits. */
  knownCall(key: string): KnownCall | undefined {
    return this.#calls.find((call) => call.key === key);
  }

  settle(key: string, result: ToolResult): void {
    this.forget(key);
    this.#calls = [...this.#calls, { key, result, held: undefined }];
  }

  /** The call's result is stored. */
  forget(key: string): void {
    this.#calls = this.#calls.filter((call) => call.key !== key);
  }

  /** Keeps a call that has begun until its result is there. */
  hold(key: string, held: HeldCall): void {
    this.#calls = [...this.#calls, { key, held, result: undefined }];
    if (this.#interruption) held.call.interrupt(new RunInterrupted(this.#interruption));
  }

  /**
   * From now on the run needs nobody until all its calls have ended. False when it is to go on at once: it was
   * interrupted, or its calls cannot stand for the rest of it.
   */
  park(): boolean {
    if (this.#interruption || this.failure) return false;
    this.#parking = "parked";
    // Nobody can be listening: what the run had under way has ended, or is one of its calls.
    this.#abort = undefined;
    this.#interrupted = undefined;
    for (const { held } of this.#calls) if (held && !held.call.isEnded) held.call.watch(this);
    this.callEnded();
    return true;
  }

  get isParked(): boolean {
    return this.#parking === "parked";
  }

  onAwake(wake: () => void): void {
    if (this.isParked) this.#onAwake = wake;
    else wake();
  }

  /** True once after a parked run woke up. */
  takeWoken(): boolean {
    const woken = this.#parking === "woken";
    if (woken) this.#parking = "none";
    return woken;
  }

  callEnded(): void {
    if (this.#calls.some(({ held }) => held && !held.call.isEnded)) return;
    this.#wake();
  }

  #wake(): void {
    if (!this.isParked) return;
    this.#parking = "woken";
    const wake = this.#onAwake;
    this.#onAwake = undefined;
    wake?.();
  }

  /** The run has ended as `run` says. */
  finish(run: RunRecord): void {
    this.run = run;
    this.#leave({ run });
  }

  /** The run waits for somebody outside, and whoever continues it takes it in hand anew. */
  release(): void {
    this.#leave({ run: this.run });
  }

  /** This process gives the run up unfinished. */
  abandon(reason: Error): void {
    this.#leave({ reason });
  }

  #leave(left: { readonly run: RunRecord } | { readonly reason: Error }): void {
    this.#left ??= left;
    this.#tellOutcome();
    this.#wake();
    this.#release();
  }

  #tellOutcome(): void {
    if (!this.#left || !this.#outcome) return;
    if ("run" in this.#left) this.#outcome.resolve(this.#left.run);
    else this.#outcome.reject(this.#left.reason);
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
