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

/** What was asked for and is not being stored yet. */
interface Waiting {
  /**
   * `create`, `settle`: the two ends. `step`: the ask goes on only when it is stored, so an outcome that comes first
   * takes its place. `fact`: it happened already and is stored with whatever comes next; so is a `note`, for people.
   */
  readonly kind: "create" | "step" | "fact" | "note" | "settle";
  readonly patch: Patch;
  readonly alongside: Alongside;
  readonly call?: NewCall;
  readonly settlement?: Settlement;
  resolve(stored: Stored): void;
  reject(error: unknown): void;
}

/**
 * One commit at a time. What nobody waits for (that the device joined, that it took the task) does not get a commit of
 * its own when the step that follows from it is asked for in the same turn of the event loop.
 *
 * Never rejects: what the store cannot do is said in the result and in the log.
 */
export class AskRecord {
  readonly #calls: PendingCalls;
  readonly #clock: Clock;
  readonly #logger: Logger;
  #waiting: Waiting[] = [];
  #soon: NodeJS.Immediate | undefined;
  #isStoring = false;
  #stored: Promise<void> = Promise.resolve();
  #call: OpenCall | undefined;
  #ending = false;

  constructor({ calls, clock, logger }: { calls: PendingCalls; clock: Clock; logger: Logger }) {
    this.#calls = calls;
    this.#clock = clock;
    this.#logger = logger;
  }

  create(call: NewCall, alongside: Alongside): Promise<Stored> {
    return this.#now({ kind: "create", patch: {}, alongside, call });
  }

  /** For what must be stored before the ask goes on. Left out once the outcome is about to be stored. */
  advance(patch: Patch, alongside: Alongside): Promise<Stored> {
    if (this.#ending) return Promise.resolve({ status: "gone" });
    return this.#now({ kind: "step", patch, alongside });
  }

  /** For what happened already. */
  fact(patch: Patch, alongside: Alongside): Promise<Stored> {
    return this.#later({ kind: "fact", patch, alongside });
  }

  /** For people: a failure costs a line of the timeline and is logged. */
  note(alongside: Alongside): void {
    this.#later({ kind: "note", patch: {}, alongside }).catch((error: unknown) => {
      this.#logger.error("storing an ask failed in a way it should not", { ask: this.#call?.id, error });
    });
  }

  /** Stores the outcome, or learns the one that somebody else stored. What comes back is the outcome that stands. */
  async settle(settlement: Settlement, alongside: Alongside): Promise<AskResult> {
    this.#ending = true;
    const stored = await this.#now({ kind: "settle", patch: {}, alongside, settlement });
    return stored.status === "settled" ? stored.result : settlement.result;
  }

  /** Id of the record that says what became of the ask, if it has one. */
  get callId(): string | undefined {
    return this.#call?.id;
  }

  /** Resolves once everything that was asked for so far is stored or given up. */
  async idle(): Promise<void> {
    this.#begin();
    await this.#stored;
  }

  #now(asked: Omit<Waiting, "resolve" | "reject">): Promise<Stored> {
    const stored = this.#add(asked);
    this.#begin();
    return stored;
  }

  #later(asked: Omit<Waiting, "resolve" | "reject">): Promise<Stored> {
    const stored = this.#add(asked);
    this.#soon ??= setImmediate(() => this.#begin());
    return stored;
  }

  #add(asked: Omit<Waiting, "resolve" | "reject">): Promise<Stored> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ ...asked, resolve, reject });
    });
  }

  #begin(): void {
    if (this.#soon) clearImmediate(this.#soon);
    this.#soon = undefined;
    if (this.#isStoring) return;
    this.#isStoring = true;
    this.#stored = Promise.resolve().then(() => this.#storeAll());
  }

  async #storeAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const together = this.#take();
      try {
        const stored = await this.#store(together);
        for (const { resolve } of together) resolve(stored);
      } catch (error) {
        for (const { reject } of together) reject(error);
      }
    }
    this.#isStoring = false;
  }

  /** What is stored in one commit: the call by itself, or all that waits up to the outcome. */
  #take(): readonly Waiting[] {
    const end = this.#waiting.findIndex(({ kind }) => kind === "create" || kind === "settle");
    const taken = this.#waiting.splice(0, end < 0 ? this.#waiting.length : end + 1);
    if (taken.at(-1)?.kind !== "settle") return taken;
    for (const { kind, resolve } of taken) if (kind === "step") resolve({ status: "gone" });
    return taken.filter(({ kind }) => kind !== "step");
  }

  async #store(together: readonly Waiting[]): Promise<Stored> {
    const last = together.at(-1);
    const alongside = joined(together.map((each) => each.alongside));
    if (last?.call) return this.#create(last.call, alongside);
    const call = this.#call;
    if (!call) return { status: "gone" };
    const hasMove = together.some(({ kind }) => kind !== "note");
    if (!hasMove) return this.#note(call, alongside);
    const stored = last?.settlement
      ? await this.#settle(last.settlement, alongside)
      : await this.#move(() => this.#calls.advance(call, mergedPatch(together), alongside));
    // Somebody else's outcome does not make untrue what happened here.
    const notes = together.filter(({ kind }) => kind === "note");
    if (stored.status === "settled" && notes.length > 0) {
      await this.#note(call, joined(notes.map((note) => note.alongside)));
    }
    return stored;
  }

  async #create(call: NewCall, alongside: Alongside): Promise<Stored> {
    const stored = await this.#move(() => this.#calls.open(call, alongside));
    // A store that failed may have stored it all the same. A version that no record has finds that out later.
    if (stored.status === "failed") this.#call = { id: call.id, waitId: "", sessionId: call.sessionId, version: 0 };
    return stored;
  }

  async #settle(settlement: Settlement, alongside: Alongside): Promise<Stored> {
    for (const pauseMs of [...SETTLE_PAUSES_MS, undefined]) {
      const call = this.#call;
      if (!call) break;
      const stored = await this.#move(() => this.#calls.settle(call, settlement, alongside));
      if (stored.status !== "failed") return stored;
      if (pauseMs !== undefined) await new Promise<void>((resolve) => void this.#clock.schedule(pauseMs, resolve));
    }
    return { status: "failed" };
  }

  async #note(call: OpenCall, alongside: Alongside): Promise<Stored> {
    try {
      await this.#calls.note(call, alongside);
      return { status: "stored" };
    } catch (error) {
      this.#logger.warn("an event of an ask could not be stored", { ask: call.id, error });
      return { status: "failed" };
    }
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
}

function mergedPatch(together: readonly Waiting[]): Patch {
  return Object.assign({}, ...together.map(({ patch }) => patch));
}

function joined(all: readonly Alongside[]): Alongside {
  return {
    events: all.flatMap(({ events = [] }) => events),
    offers: all.flatMap(({ offers = [] }) => offers),
    writes: all.flatMap(({ writes = [] }) => writes),
  };
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
