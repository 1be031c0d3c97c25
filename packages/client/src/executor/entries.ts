/** What an executor remembers of calls, so that it never runs one twice. */
import { type BrowserEntries, createMemoryEntries, type EntryLedger, openBrowserEntries } from "@leafmesh/ledger";
import * as z from "zod";
import type { Answer } from "./answer.ts";

/**
 * `started`: the tool may have begun, its end is not known. `answered`: `answer` is what is said about it, now and for ever,
 * and the mesh may not have it yet. `closed`: nothing is owed any more.
 */
export interface CallEntry {
  readonly id: string;
  readonly at: number;
  readonly state: "started" | "answered" | "closed";
  readonly answer?: Answer | undefined;
}

export type CallLedger = EntryLedger<CallEntry>;
export type BrowserCallLedger = BrowserEntries<CallEntry>;

/**
 * A ledger that lives as long as the program. Right for tools that change nothing, and for tests; everything else takes
 * `openBrowserCallLedger` or `openFileCallLedger`, because a program that starts again would run an open call again.
 */
export function createMemoryCallLedger(maxEntries?: number): CallLedger {
  return createMemoryEntries(maxEntries);
}

export interface BrowserCallLedgerOptions {
  /** Name of the database; one for each mesh that a page executes tools for. */
  readonly name?: string | undefined;
  /** How many calls are remembered. */
  readonly maxEntries?: number | undefined;
  /** The runtime's own unless given. */
  readonly indexedDB?: IDBFactory | undefined;
}

/** A ledger in IndexedDB, shared by tabs. Rejects when the browser keeps none, as some do in private windows. */
export function openBrowserCallLedger(options: BrowserCallLedgerOptions = {}): Promise<BrowserCallLedger> {
  const { name = "leafmesh-calls", maxEntries, indexedDB } = options;
  return openBrowserEntries({ name, store: "calls", parse: parseCallEntry, maxEntries, indexedDB });
}

const answerSchema = z.union([
  z.object({
    status: z.literal("ok"),
    result: z.json(),
    image: z.object({ mediaType: z.string(), base64: z.string() }).optional(),
  }),
  z.object({ status: z.literal("error"), code: z.string(), message: z.string() }),
]);

const entrySchema = z.union([
  z.object({ id: z.string(), at: z.number(), state: z.enum(["started", "closed"]) }),
  z.object({ id: z.string(), at: z.number(), state: z.literal("answered"), answer: answerSchema }),
]);

/** @internal An entry as it lay in a store that something else may have written to; `undefined` when it is none. */
export function parseCallEntry(value: unknown): CallEntry | undefined {
  return entrySchema.safeParse(value).data;
}
