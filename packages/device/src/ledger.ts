/**
 * What a device remembers of asks, so that it never acts on one twice: the record is durable before the work begins,
 * and a task that comes again is answered from it.
 */
import { askIdSchema, replyEnvelopeSchema } from "@leafmesh/protocol";
import type { Answer } from "./answers.ts";

export interface LedgerRecord {
  /** The ask's id, which is the task's. */
  readonly id: string;
  /**
   * `refused`: the person did not allow the connection. `accepted`: the work may have begun, its end is not known.
   * `answered`: it ended, and `answer` is what the device says about it, now and for ever.
   */
  readonly state: "refused" | "accepted" | "answered";
  /** When the record was made, in milliseconds since the epoch. */
  readonly at: number;
  readonly answer?: Answer | undefined;
  /** The room has the answer, so nothing is owed any more. */
  readonly delivered?: boolean | undefined;
}

/**
 * A store of records, one an id. Every method resolves only when what it did survives a crash of the device, as far
 * as the store can promise that; it rejects when the store does not work, and then the device does not act.
 */
export interface Ledger {
  /** Stores `record` unless its id is known; gives back the record that was there. The two are one step. */
  claim(record: LedgerRecord): Promise<LedgerRecord | undefined>;
  get(id: string): Promise<LedgerRecord | undefined>;
  /** Stores `record` in place of the one with its id. */
  put(record: LedgerRecord): Promise<void>;
  /** Forgets records made before `beforeMs` (milliseconds since the epoch). */
  prune(beforeMs: number): Promise<void>;
}

/** How many asks a ledger remembers; above it the oldest is forgotten. A ring is long expired by then. */
export const DEFAULT_MAX_RECORDS = 1000;

/**
 * A ledger that lives as long as the program. Right for a web page that is asked only while it is open, and for tests;
 * a device that can be restarted in the middle of a task takes `openFileLedger` or `openBrowserLedger`.
 */
export function createMemoryLedger(maxRecords: number = DEFAULT_MAX_RECORDS): Ledger {
  const records = new Map<string, LedgerRecord>();
  return {
    async claim(record) {
      const known = records.get(record.id);
      if (!known) remember(records, record, maxRecords);
      return known;
    },
    async get(id) {
      return records.get(id);
    },
    async put(record) {
      remember(records, record, maxRecords);
    },
    async prune(beforeMs) {
      for (const record of records.values()) if (record.at < beforeMs) records.delete(record.id);
    },
  };
}

/** @internal Sets the record and forgets the oldest one above `maxRecords`; a `Map` keeps the order of first insertion. */
export function remember(records: Map<string, LedgerRecord>, record: LedgerRecord, maxRecords: number): void {
  records.set(record.id, record);
  if (records.size <= maxRecords) return;
  const oldest = records.keys().next();
  if (!oldest.done) records.delete(oldest.value);
}

const answerSchema = replyEnvelopeSchema.pick({ outcome: true, data: true, error: true });

/** @internal A record as it lay in a store that something else may have written to; `undefined` when it is none. */
export function parseLedgerRecord(value: unknown): LedgerRecord | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { id, state, at, answer, delivered } = value as Partial<Record<keyof LedgerRecord, unknown>>;
  const parsedId = askIdSchema.safeParse(id);
  if (!parsedId.success || typeof at !== "number") return undefined;
  if (state === "refused" || state === "accepted") return { id: parsedId.data, state, at };
  const parsedAnswer = answerSchema.safeParse(answer);
  if (state !== "answered" || !parsedAnswer.success) return undefined;
  return { id: parsedId.data, state, at, answer: parsedAnswer.data, delivered: delivered === true };
}
