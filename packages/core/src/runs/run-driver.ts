/** Drives every unfinished run of this process to its end, through storage that fails and bugs that strike. */
import { FINAL_RUN_STATUSES } from "@leafmesh/protocol";
import { type RunInHand, type RunRecord, StorageError, type WorkDone } from "../storage/contract.ts";
import { advanceRun } from "./advance-run.ts";
import { EngineError } from "./engine-error.ts";
import { type Interruption, RunControl } from "./run-control.ts";
import { INTERNAL_ERROR } from "./run-failures.ts";
import { CommitConflict, type RunServices } from "./run-services.ts";

/** Waits between attempts while storage fails: doubled from the first to the last. */
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 30_000;
/** Conflicts in a row after which something is wrong with the engine and not with the moment. */
const MAX_CONFLICTS = 5;

export class RunDriver {
  readonly #services: RunServices;
  readonly #controls = new Map<string, RunControl>();
  readonly #stopping = new AbortController();
  readonly #onDeadline = (control: RunControl): void => void this.drive(control);

  constructor(services: RunServices) {
    this.#services = services;
  }

  /** Takes charge of a stored, unfinished run: from now on its deadline is watched. */
  add(run: RunRecord): RunControl {
    const known = this.#controls.get(run.id);
    if (known) return known;
    const control = new RunControl(run, this.#services.clock, this.#onDeadline);
    this.#controls.set(run.id, control);
    control.watchDeadline();
    return control;
  }

  get(runId: string): RunControl | undefined {
    return this.#controls.get(runId);
  }

  /** The run in hand, or taken in hand now; `undefined` when it has ended or does not exist. */
  async take(runId: string): Promise<RunControl | undefined> {
    const known = this.#controls.get(runId);
    if (known) return known;
    const run = await this.#services.backend.run(runId);
    return run && !FINAL_RUN_STATUSES.has(run.status) ? this.add(run) : undefined;
  }

  /** The queue's worker. Never rejects. */
  async work({ runId, signal }: RunInHand): Promise<WorkDone> {
    try {
      const control = await this.take(runId);
      if (!control) return;
      if (!control.isOver && (await this.#mustWait(control))) {
        if (this.#services.backend.peers) this.#putBack(control);
        return;
      }
      const onLost = (): void => {
        control.isLost = true;
        control.interrupt("shutdown");
      };
      signal?.addEventListener("abort", onLost);
      if (signal?.aborted) onLost();
      await this.#driveOn(control);
      if (control.isParked) return control;
      signal?.removeEventListener("abort", onLost);
      if (!control.isFinished && !control.isWaiting && control.interruption === "shutdown") return "unfinished";
    } catch (error) {
      this.#services.logger.error("a run of the queue cannot be read", { runId, error });
      return "unfinished";
    }
  }

  /** Ends the run where it stands, whether or not a worker has reached it. Resolves when it has ended. */
  interrupt(control: RunControl, interruption: Exclude<Interruption, "shutdown">): Promise<RunRecord> {
    if (control.interrupt(interruption)) void this.drive(control);
    return control.finished;
  }

  /** Drives the run until it has ended, is parked or the engine stops; a second call joins the first. Never rejects. */
  drive(control: RunControl): Promise<void> {
    control.driving ??= this.#drive(control);
    return control.driving;
  }

  /** As {@link drive}, and through what began when the run was about to be parked. */
  async #driveOn(control: RunControl): Promise<void> {
    let driving: Promise<void> | undefined;
    do {
      driving = this.drive(control);
      await driving;
    } while (control.driving !== undefined && control.driving !== driving);
  }

  /** Interrupts what is under way, so that the next start continues it, and resolves when all of it has let go. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    for (const control of this.#controls.values()) control.interrupt("shutdown");
    await Promise.all([...this.#controls.values()].map((control) => control.driving));
  }

  /** Lets go of every run that is left; who waits for one is told that the mesh is stopping. */
  abandonAll(): void {
    for (const control of this.#controls.values()) this.#letGo(control);
  }

  async #drive(control: RunControl): Promise<void> {
    let attempts = 0;
    let conflicts = 0;
    control.takeWoken();
    while (!control.isFinished) {
      try {
        if (attempts++ > 0) await this.#refresh(control);
        if (!control.isFinished) await advanceRun(control, this.#services);
        if (control.isParked) {
          control.driving = undefined;
          return;
        }
        if (control.takeWoken()) continue;
        // Interrupted just as it began to wait: it is ended here and now.
        if (!control.isSuspended || control.isWaiting) break;
        if (this.#stopping.signal.aborted) break;
      } catch (error) {
        if (error instanceof StorageError) await this.#pause(control, attempts, error);
        else if (!(error instanceof CommitConflict) || ++conflicts > MAX_CONFLICTS) {
          if (!this.#fail(control, error)) return this.#letGo(control, GIVEN_UP);
        }
        if (this.#stopping.signal.aborted || control.isLost) break;
      }
    }
    this.#letGo(control, control.isLost ? LOST : STOPPING);
  }

  /** Any process may take the run when its turn has come: this one forgets it. */
  #putBack(control: RunControl): void {
    this.#controls.delete(control.run.id);
    control.isLost = true;
    control.abandon(LOST);
  }

  /**
   * Whether another run of the session waits for somebody outside: messages of a conversation are answered one after the
   * other. The run is queued again when that one has ended.
   */
  async #mustWait({ run, opensConversation }: RunControl): Promise<boolean> {
    if (run.startedAt !== undefined || opensConversation) return false;
    const open = await this.#services.backend.runs({ sessionId: run.sessionId, statuses: ["suspended", "queued"] });
    return open.some(({ id, startedAt }) => id !== run.id && startedAt !== undefined);
  }

  /** The store knows better, after an attempt that did not end as planned. */
  async #refresh(control: RunControl): Promise<void> {
    const run = await this.#services.backend.run(control.run.id);
    if (!run) throw new Error(`run ${control.run.id} is not in the store any more`);
    control.run = run;
    if (control.isFinished) control.finish(run);
  }

  async #pause(control: RunControl, attempts: number, error: StorageError): Promise<void> {
    const waitMs = Math.min(FIRST_PAUSE_MS * 2 ** Math.min(attempts - 1, 10), LONGEST_PAUSE_MS);
    this.#services.logger.error("storage failed under a run; it is tried again", {
      runId: control.run.id,
      waitMs,
      error,
    });
    const { signal } = this.#stopping;
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        timer.cancel();
        signal.removeEventListener("abort", done);
        resolve();
      };
      const timer = this.#services.clock.schedule(waitMs, done);
      signal.addEventListener("abort", done);
      void control.interrupted.then(() => {
        if (control.isLost) done();
      });
    });
  }

  /** After a bug the run is closed as failed; false when even that met a bug. */
  #fail(control: RunControl, error: unknown): boolean {
    this.#services.logger.error("a run met an error inside the mesh", { runId: control.run.id, error });
    if (control.failure) return false;
    control.failure = INTERNAL_ERROR;
    return true;
  }

  #letGo(control: RunControl, reason: Error = STOPPING): void {
    this.#controls.delete(control.run.id);
    if (control.isWaiting && reason === STOPPING) control.release();
    else if (!control.isFinished) control.abandon(reason);
    if (control.isFinished || control.isWaiting) this.#services.onReleased(control.run);
  }
}

const STOPPING = new EngineError("stopping", "The mesh is stopping; the run goes on after its start.");
const LOST = new Error("another process drives the run");
const GIVEN_UP = new Error("the run could not be closed after an error inside the mesh; the next start takes it up");
