/** The stored side of one ask: its moves in the order they were asked for, the outcome last. */
import type { Alongside, Moved, NewCall, OpenCall, PendingCalls, Settlement } from "@leafmesh/core/calls";
import { type AskResult, askResultSchema, type Clock, type Logger } from "@leafmesh/protocol";

/** What became of a move: made, failed with the store, or overtaken by an outcome that somebody else stored. */
export type Stored =
  | { readonly status: "stored" }
  | { readonly status: "failed" }
  /** The session has ended, or nothing is stored of this ask. */
  | { readonly status: "gone" }
  | { readonly status: "settled"; readonly result: AskResult };

type Patch = Parameters<PendingCalls["advance"]>[1];

/** Pauses before the outcome is stored again after the store failed. */
const SETTLE_PAUSES_MS = [100, 500, 1_000] as const;

/** Never rejects: what the store cannot do is said in the result and in the log. */
export class AskRecord {
  readonly #calls: PendingCalls;
  readonly #clock: Clock;
  readonly #logger: Logger;
  #call: OpenCall | undefined;
  #ending = false;
  #tail: Promise<unknown> = Promise.resolve();

  constructor({ calls, clock, logger }: { calls: PendingCalls; clock: Clock; logger: Logger }) {
    this.#calls = calls;
    this.#clock = clock;
    this.#logger = logger;
  }

  create(call: NewCall, alongside: Alongside): Promise<Stored> {
    return this.#next(async () => {
      const stored = await this.#move(() => this.#calls.open(call, alongside));
      // A store that failed may have stored it all the same. A version that no record has finds that out later.
      if (stored.status === "failed") this.#call = { id: call.id, waitId: "", sessionId: call.sessionId, version: 0 };
      return stored;
    });
  }

  /** Left out once the outcome is about to be stored. */
  advance(patch: Patch, alongside: Alongside): Promise<Stored> {
    return this.#next(async () => {
      const call = this.#call;
      if (!call || this.#ending) return { status: "gone" };
      return this.#move(() => this.#calls.advance(call, patch, alongside));
    });
  }

  /** For people: a failure costs a line of the timeline and is logged. */
  note(alongside: Alongside): void {
    void this.#next(async () => {
      if (!this.#call) return;
      try {
        await this.#calls.note(this.#call, alongside);
      } catch (error) {
        this.#logger.warn("an event of an ask could not be stored", { ask: this.#call.id, error });
      }
    });
  }

  /** Stores the outcome, or learns the one that somebody else stored. What comes back is the outcome that stands. */
  settle(settlement: Settlement, alongside: Alongside): Promise<AskResult> {
    this.#ending = true;
    return this.#next(async () => {
      for (const pauseMs of [...SETTLE_PAUSES_MS, undefined]) {
        const call = this.#call;
        if (!call) break;
        const stored = await this.#move(() => this.#calls.settle(call, settlement, alongside));
        if (stored.status === "settled") return stored.result;
        if (stored.status !== "failed" || pauseMs === undefined) break;
        await new Promise<void>((resolve) => void this.#clock.schedule(pauseMs, resolve));
      }
      return settlement.result;
    });
  }

  /** Id of the record that says what became of the ask, if it has one. */
  get callId(): string | undefined {
    return this.#call?.id;
  }

  /** Resolves once everything that was asked for so far is stored or given up. */
  async idle(): Promise<void> {
    await this.#tail;
  }

  async #move(work: () => Promise<Moved>): Promise<Stored> {
    try {
      const moved = await work();
      switch (moved.status) {
        case "moved":
          this.#call = moved.call;
          return { status: "stored" };
        case "settled":
          return { status: "settled", result: storedResult(moved.call.result) };
        case "gone":
          return { status: "gone" };
        default:
          return moved satisfies never;
      }
    } catch (error) {
      this.#logger.error("an ask could not be stored", { ask: this.#call?.id, error });
      return { status: "failed" };
    }
  }

  #next<Value>(work: () => Promise<Value>): Promise<Value> {
    const done = this.#tail.then(work);
    this.#tail = done.catch((error: unknown) => {
      this.#logger.error("storing an ask failed in a way it should not", { error });
    });
    return done;
  }
}

/** The result in a settled record. One that cannot be read says what is certain of any ask: nothing. */
export function storedResult(result: unknown): AskResult {
  const parsed = askResultSchema.safeParse(result);
  if (parsed.success) return parsed.data;
  return {
    outcome: "failed",
    success: false,
    error: "The stored outcome of this request cannot be read. It may have happened: check before repeating.",
    may_have_happened: true,
  };
}
