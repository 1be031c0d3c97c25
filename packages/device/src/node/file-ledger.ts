/** A ledger in one file, for devices that run on Node: it survives a kill at any moment. */
import { type FileEntries, openFileEntries } from "@leafmesh/ledger/node";
import type { Logger } from "@leafmesh/protocol";
import { type LedgerRecord, parseLedgerRecord } from "../ledger.ts";

export interface FileLedgerOptions {
  /** How many asks are remembered. */
  readonly maxRecords?: number | undefined;
  readonly logger?: Logger | undefined;
}

export type FileLedger = FileEntries<LedgerRecord>;

/**
 * Opens or creates the ledger at `path`, readable by its owner alone. Each record is one line of JSON, written and synced
 * before the promise resolves; a line that a crash cut short is dropped, since nothing was done on its strength. One
 * process at a time: two would not see each other's records.
 */
export function openFileLedger(path: string, options: FileLedgerOptions = {}): Promise<FileLedger> {
  const { maxRecords, logger } = options;
  return openFileEntries(path, { parse: parseLedgerRecord, maxEntries: maxRecords, logger });
}
