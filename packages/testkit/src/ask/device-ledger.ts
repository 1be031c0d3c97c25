/** What a simulated device remembers across its crashes, and the truth about what it did. */
import type { ReplyEnvelope } from "@leafmesh/protocol";

/** What the device itself knows of a task: written before acting, read back after a crash. */
export interface LedgerEntry {
  readonly id: string;
  /** The final answer, once there is one. A repeat of the task is answered with it. */
  reply: ReplyEnvelope | undefined;
}

/** What really happened. The device's own software cannot see it. */
export interface Deeds {
  /** How often the work was begun. */
  starts: number;
  /** How often the work took effect. */
  effects: number;
  /** Tasks that came and were not begun because they were known, expired, or after the end. */
  ignored: number;
}

export class DeviceLedger {
  readonly #entries = new Map<string, LedgerEntry>();
  readonly #deeds = new Map<string, Deeds>();

  entry(id: string): LedgerEntry | undefined {
    return this.#entries.get(id);
  }

  /** Durable before anything is done about the task. */
  accept(id: string): LedgerEntry {
    const entry: LedgerEntry = { id, reply: undefined };
    this.#entries.set(id, entry);
    return entry;
  }

  /** Tasks that were begun and have no answer: after a crash nobody knows how far they got. */
  unanswered(): readonly LedgerEntry[] {
    return [...this.#entries.values()].filter(({ reply }) => reply === undefined);
  }

  deeds(id: string): Deeds {
    let deeds = this.#deeds.get(id);
    if (!deeds) {
      deeds = { starts: 0, effects: 0, ignored: 0 };
      this.#deeds.set(id, deeds);
    }
    return deeds;
  }
}
