/**
 * What a device remembers of asks, so that it never acts on one twice: the record is durable before the work begins,
 * and a task that comes again is answered from it.
 */
import { createMemoryEntries, type EntryLedger } from "@leafmesh/ledger";
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

/** A store of records, one an ask. When it rejects, the device does not act. */
export type Ledger = EntryLedger<LedgerRecord>;

/**
 * A ledger that lives as long as the program. Right for a web page that is asked only while it is open, and for tests;
 * a device that can be restarted in the middle of a task takes `openFileLedger` or `openBrowserLedger`. `maxRecords` is
 * how many asks it remembers; above it the oldest is forgotten, whose ring is long expired by then.
 */
export function createMemoryLedger(maxRecords?: number): Ledger {
  return createMemoryEntries(maxRecords);
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
