/** What an executor on Node remembers, in one file. */
import { type FileEntries, openFileEntries } from "@leafmesh/ledger/node";
import type { Logger } from "@leafmesh/protocol";
import { type CallEntry, parseCallEntry } from "../executor/entries.ts";

export interface FileCallLedgerOptions {
  /** How many calls are remembered. */
  readonly maxEntries?: number | undefined;
  readonly logger?: Logger | undefined;
}

export type FileCallLedger = FileEntries<CallEntry>;

/**
 * Opens or creates the ledger at `path`, readable by its owner alone. An entry is written and synced before its call is run.
 * One process at a time: two would not see each other's entries.
 */
export function openFileCallLedger(path: string, options: FileCallLedgerOptions = {}): Promise<FileCallLedger> {
  const { maxEntries, logger } = options;
  return openFileEntries(path, { parse: parseCallEntry, maxEntries, logger });
}
