export { type BrowserEntries, type BrowserEntriesOptions, openBrowserEntries } from "./browser-entries.ts";
export {
  createMemoryEntries,
  DEFAULT_MAX_ENTRIES,
  type EntryLedger,
  type LedgerEntry,
  type ParseEntry,
} from "./ledger.ts";
