/** A ledger in IndexedDB: it survives a reload, is shared by tabs and a service worker, and has no 5 MB limit. */
import { type BrowserEntries, openBrowserEntries } from "@leafmesh/ledger";
import { type LedgerRecord, parseLedgerRecord } from "./ledger.ts";

export interface BrowserLedgerOptions {
  /** Name of the database; one for each device id that a page plays. */
  readonly name?: string;
  /** How many asks are remembered. */
  readonly maxRecords?: number;
  /** The runtime's own unless given. */
  readonly indexedDB?: IDBFactory;
}

export type BrowserLedger = BrowserEntries<LedgerRecord>;

/** Opens the ledger. Rejects when the browser keeps no IndexedDB, as some do in private windows. */
export function openBrowserLedger(options: BrowserLedgerOptions = {}): Promise<BrowserLedger> {
  const { name = "leafmesh-asks", maxRecords, indexedDB } = options;
  return openBrowserEntries({ name, store: "asks", parse: parseLedgerRecord, maxEntries: maxRecords, indexedDB });
}
