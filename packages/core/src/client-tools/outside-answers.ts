/** The side of the engine that lets go of runs and takes them up again: waits, their deadlines, answers, notices. */

import type { GuardedFetch } from "@leafmesh/guarded-fetch";
import type { Clock, Logger, NewId } from "@leafmesh/protocol";
import { createEventNotices, type EventNotices } from "../callbacks/event-notices.ts";
import { CallbackOutbox } from "../callbacks/outbox.ts";
import type { PendingCalls } from "../calls/pending-calls.ts";
import type { CallbackSettings } from "../config/mesh.ts";
import type { Sealer } from "../security/sealer.ts";
import type { Backend, RunRecord } from "../storage/contract.ts";
import { WaitDeadlines, type WatchedWait } from "./deadlines.ts";
import { type Answer, type Resumed, takeAnswer } from "./resume.ts";

export interface OutsideAnswersOptions {
  readonly backend: Backend;
  readonly calls: PendingCalls;
  readonly sealer: Sealer;
  readonly fetch: GuardedFetch;
  readonly clock: Clock;
  readonly newId: NewId;
  readonly random: () => number;
  readonly logger: Logger;
  /** Of the mesh in force. */
  callbackSettings(): CallbackSettings | undefined;
}

export class OutsideAnswers {
  readonly #options: OutsideAnswersOptions;
  readonly #deadlines: WaitDeadlines;
  readonly #outbox: CallbackOutbox;
  readonly #queueing = new Set<Promise<void>>();
  /** Runs under way that leave a notice of an event. */
  readonly #noticed = new Set<string>();
  readonly notices: EventNotices;

  constructor(options: OutsideAnswersOptions) {
    this.#options = options;
    this.#outbox = new CallbackOutbox({ ...options, settings: options.callbackSettings });
    this.notices = createEventNotices({
      ...options,
      settings: options.callbackSettings,
      onWritten: (runId) => this.#noticed.add(runId),
    });
    this.#deadlines = new WaitDeadlines({ ...options, onEnded: (run) => this.released(run) });
  }

  /** Ends waits that ran out while no process was there, and sends the notices that were left. */
  async start(): Promise<void> {
    await this.#deadlines.start();
    await this.#outbox.start();
  }

  async stop(): Promise<void> {
    await Promise.all([this.#deadlines.stop(), this.#outbox.stop(), ...this.#queueing]);
  }

  suspended(wait: WatchedWait): void {
    this.#deadlines.watch(wait);
  }

  /** What waited behind the run may go on now, and there may be a notice of it. */
  released(run: RunRecord): void {
    const isNoticed = this.#noticed.delete(run.id);
    if (run.options || isNoticed) this.#outbox.wake();
    if (!run.options) return;
    if (run.status === "suspended") return;
    const queueing = this.#queueWaiting(run.sessionId)
      .catch((error: unknown) => {
        const { logger } = this.#options;
        logger.error("runs that waited behind another could not be queued; the next start does it", { error });
      })
      .finally(() => this.#queueing.delete(queueing));
    this.#queueing.add(queueing);
  }

  /**
   * Takes the answer that a suspended run waits for. A run that was answered is in the queue when this resolves, also if
   * an earlier attempt stored the answer and did not come to that. `undefined`: there is no such run.
   */
  async resume(runId: string, answer: Answer, answeredBy: string | undefined): Promise<Resumed | undefined> {
    const { backend } = this.#options;
    const isPast = (wait: WatchedWait): boolean => this.#deadlines.isPast(wait);
    const taken = await takeAnswer({ ...this.#options, isPast }, runId, answer, answeredBy);
    if (taken?.status === "accepted") {
      this.#deadlines.unwatch(taken.waitId);
      this.#outbox.wake();
    }
    if (taken && taken.status !== "refused" && taken.run.status === "queued") {
      await backend.queue.push({ runId, sessionId: taken.run.sessionId });
    }
    return taken;
  }

  async #queueWaiting(sessionId: string): Promise<void> {
    const { backend } = this.#options;
    for (const run of await backend.runs({ sessionId, statuses: ["queued"] })) {
      await backend.queue.push({ runId: run.id, sessionId });
    }
  }
}
