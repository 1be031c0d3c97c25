/**
 * A record of what was begun and what came of it, so that it is never done twice: the entry is durable before the work
 * begins, and whatever is asked for again is answered from it. What an entry says is its user's matter.
 */
export interface LedgerEntry {
  readonly id: string;
  /** When the entry was made, in milliseconds since the epoch. */
  readonly at: number;
}

/**
 * A store of entries, one an id. Every method resolves only when what it did survives a crash, as far as the store can
 * promise that; it rejects when the store does not work, and then the work must not begin.
 */
export interface EntryLedger<Entry extends LedgerEntry> {
  /** Stores `entry` unless its id is known; gives back the entry that was there. The two are one step. */
  claim(entry: Entry): Promise<Entry | undefined>;
  get(id: string): Promise<Entry | undefined>;
  /** Stores `entry` in place of the one with its id. */
  put(entry: Entry): Promise<void>;
  /** Forgets entries made before `beforeMs` (milliseconds since the epoch). */
  prune(beforeMs: number): Promise<void>;
}

/** Reads an entry as it lay in a store that something else may have written to; `undefined` when it is none. */
export type ParseEntry<Entry extends LedgerEntry> = (value: unknown) => Entry | undefined;

/** How many entries a ledger remembers; above it the oldest is forgotten. */
export const DEFAULT_MAX_ENTRIES = 1000;

/** A ledger that lives as long as the program. */
export function createMemoryEntries<Entry extends LedgerEntry>(
  maxEntries: number = DEFAULT_MAX_ENTRIES,
): EntryLedger<Entry> {
  const entries = new Map<string, Entry>();
  return {
    async claim(entry) {
      const known = entries.get(entry.id);
      if (!known) remember(entries, entry, maxEntries);
      return known;
    },
    async get(id) {
      return entries.get(id);
    },
    async put(entry) {
      remember(entries, entry, maxEntries);
    },
    async prune(beforeMs) {
      for (const entry of entries.values()) if (entry.at < beforeMs) entries.delete(entry.id);
    },
  };
}

/** @internal Sets the entry and forgets the oldest one above `maxEntries`; a `Map` keeps the order of first insertion. */
export function remember<Entry extends LedgerEntry>(
  entries: Map<string, Entry>,
  entry: Entry,
  maxEntries: number,
): void {
  entries.set(entry.id, entry);
  if (entries.size <= maxEntries) return;
  const oldest = entries.keys().next();
  if (!oldest.done) entries.delete(oldest.value);
}
