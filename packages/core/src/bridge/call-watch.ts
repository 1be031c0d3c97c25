/** Waits until a call of a client's device is settled, by its answer or, when that cannot come any more, honestly. */
import { isOpenCall } from "../calls/pending-calls.ts";
import { RunInterrupted } from "../runs/run-control.ts";
import { type CallRecord, StorageError } from "../storage/contract.ts";
import type { BridgeServices } from "./bridge-services.ts";
import { type Ending, endingSettlement, endingStory } from "./endings.ts";
import { EXECUTOR_GRACE_MS, lostAt } from "./presence.ts";

/** Looks again after this long although nothing was heard: another process may have died without a word. */
const LOOK_EVERY_MS = 5_000;
/** Before the store is tried again after it failed. */
const STORE_PAUSE_MS = 1_000;

export interface WatchedCall {
  readonly id: string;
  readonly sessionId: string;
  /** On the monotonic clock; at that moment itself an answer is still in time. */
  readonly deadlineMs: number;
  /** Wall clock: the executor's grace does not begin before. */
  readonly graceFrom: number;
  /** The run's. */
  readonly signal: AbortSignal;
}

/** Listens from the moment it is made, so that an answer that is quicker than the wait is not missed. */
export class CallWatch implements Disposable {
  readonly #services: BridgeServices;
  readonly #call: WatchedCall;
  readonly #unsubscribe: () => void;
  /** The loss that is waited for: as the store tells it, and on the monotonic clock. */
  #loss: { readonly at: number; readonly endsMs: number } | undefined;
  #heard = false;
  #wake = (): void => {};

  constructor(services: BridgeServices, call: WatchedCall) {
    this.#services = services;
    this.#call = call;
    const { id, sessionId, deadlineMs, signal } = call;
    services.deadlines.set(id, deadlineMs);
    const hear = (): void => {
      this.#heard = true;
      this.#wake();
    };
    const unsubscribe = services.backend.subscribe(sessionId, {
      onEvents(events) {
        if (events.some((event) => event.type === "device_tool_call.settled" && event.payload.call_id === id)) hear();
      },
      onTransient() {},
      onPresence: hear,
    });
    signal.addEventListener("abort", hear);
    this.#unsubscribe = () => {
      unsubscribe();
      signal.removeEventListener("abort", hear);
    };
  }

  /**
   * The settled record; `undefined` when there is none. Rejects with the signal's reason when the mesh stops: the call
   * stays open then, for the next start.
   */
  async settled(): Promise<CallRecord | undefined> {
    const { backend, calls } = this.#services;
    const { id } = this.#call;
    for (;;) {
      this.#heard = false;
      const call = await this.#stored(() => backend.call(id));
      if (!call || !isOpenCall(call)) return call;
      const lostAtMs = await this.#stored(() => this.#lostAtMs());
      const ending = this.#endingNow(lostAtMs);
      if (ending) {
        await this.#stored(() => calls.settle(call, endingSettlement(call, ending), endingStory(id, ending)));
      } else {
        await this.#next(lostAtMs);
      }
    }
  }

  [Symbol.dispose](): void {
    this.#unsubscribe();
    this.#services.deadlines.delete(this.#call.id);
  }

  #endingNow(lostAtMs: number | undefined): Ending | undefined {
    const { clock } = this.#services;
    const { signal, deadlineMs } = this.#call;
    if (signal.aborted) {
      const interruption = signal.reason instanceof RunInterrupted ? signal.reason.interruption : "cancelled";
      if (interruption === "shutdown") throw signal.reason;
      return interruption === "timed_out" ? "expired" : "cancelled";
    }
    if (clock.monotonicMs() > deadlineMs) return "expired";
    return lostAtMs !== undefined && clock.monotonicMs() > lostAtMs ? "lost" : undefined;
  }

  /** Fixed when a loss is first seen: a wall clock that jumps afterwards makes the grace neither shorter nor longer. */
  async #lostAtMs(): Promise<number | undefined> {
    const { backend, clock } = this.#services;
    const { sessionId, graceFrom } = this.#call;
    const at = lostAt(await backend.presence(sessionId), graceFrom);
    if (at !== this.#loss?.at) {
      const leftMs = at === undefined ? 0 : Math.min(Math.max(at - clock.nowMs(), 0), EXECUTOR_GRACE_MS);
      this.#loss = at === undefined ? undefined : { at, endsMs: clock.monotonicMs() + leftMs };
    }
    return this.#loss?.endsMs;
  }

  /** Until something is heard, or it is time to look again. */
  #next(lostAtMs: number | undefined): Promise<void> {
    const { clock } = this.#services;
    const toDeadlineMs = this.#call.deadlineMs - clock.monotonicMs() + 1;
    const toLossMs = lostAtMs === undefined ? LOOK_EVERY_MS : lostAtMs - clock.monotonicMs() + 1;
    return this.#pause(Math.min(toDeadlineMs, toLossMs, LOOK_EVERY_MS));
  }

  #pause(ms: number): Promise<void> {
    if (this.#heard) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = this.#services.clock.schedule(ms, resolve);
      this.#wake = () => {
        timer.cancel();
        resolve();
      };
    });
  }

  /** A store that fails is tried again until it works: whoever is told that a result arrived must be right. */
  async #stored<Value>(work: () => Promise<Value>): Promise<Value> {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof StorageError)) throw error;
        const { signal } = this.#call;
        if (signal.reason instanceof RunInterrupted && signal.reason.interruption === "shutdown") throw signal.reason;
        this.#services.logger.error("storage failed under a device tool call; it is tried again", {
          callId: this.#call.id,
          error,
        });
        this.#heard = false;
        await this.#pause(STORE_PAUSE_MS);
      }
    }
  }
}
