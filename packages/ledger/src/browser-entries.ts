/** A ledger in IndexedDB: it survives a reload, is shared by tabs and a service worker, and has no 5 MB limit. */
import { DEFAULT_MAX_ENTRIES, type EntryLedger, type LedgerEntry, type ParseEntry } from "./ledger.ts";

export interface BrowserEntriesOptions<Entry extends LedgerEntry> {
  /** Name of the database. */
  readonly name: string;
  /** Name of the object store in it. */
  readonly store: string;
  readonly parse: ParseEntry<Entry>;
  /** How many entries are remembered. */
  readonly maxEntries?: number | undefined;
  /** The runtime's own unless given. */
  readonly indexedDB?: IDBFactory | undefined;
}

export interface BrowserEntries<Entry extends LedgerEntry> extends EntryLedger<Entry> {
  close(): void;
}

const BY_TIME = "at";

/** Opens the ledger. Rejects when the browser keeps no IndexedDB, as some do in private windows. */
export async function openBrowserEntries<Entry extends LedgerEntry>(
  options: BrowserEntriesOptions<Entry>,
): Promise<BrowserEntries<Entry>> {
  const { name, store: storeName, parse, maxEntries = DEFAULT_MAX_ENTRIES } = options;
  const { indexedDB = globalThis.indexedDB } = options;
  const opening = indexedDB.open(name, 1);
  opening.onupgradeneeded = () => {
    opening.result.createObjectStore(storeName, { keyPath: "id" }).createIndex(BY_TIME, BY_TIME);
  };
  const database = await result(opening);
  // Another tab that wants a newer layout must not wait for this one.
  database.onversionchange = () => database.close();

  /** One transaction: `work` may only wait for requests of `store`, or the browser commits under it. */
  const within = async <Value>(mode: IDBTransactionMode, work: (store: IDBObjectStore) => Promise<Value>) => {
    const transaction = database.transaction(storeName, mode, { durability: "strict" });
    const committed = finished(transaction);
    const [value] = await Promise.all([work(transaction.objectStore(storeName)), committed]);
    return value;
  };

  return {
    claim: (entry) =>
      within("readwrite", async (store) => {
        const known = parse(await result(store.get(entry.id)));
        if (!known) await storeEntry(store, entry, maxEntries);
        return known;
      }),
    get: (id) => within("readonly", async (store) => parse(await result(store.get(id)))),
    put: (entry) => within("readwrite", (store) => storeEntry(store, entry, maxEntries)),
    prune: (beforeMs) =>
      within("readwrite", (store) => deleteOldest(store, IDBKeyRange.upperBound(beforeMs, true), () => true)),
    close: () => database.close(),
  };
}

async function storeEntry(store: IDBObjectStore, entry: LedgerEntry, maxEntries: number): Promise<void> {
  await result(store.put(entry));
  let excess = (await result(store.count())) - maxEntries;
  if (excess > 0) await deleteOldest(store, null, () => excess-- > 0);
}

/** Deletes entries in the order of their time for as long as `more` says so. */
function deleteOldest(store: IDBObjectStore, range: IDBKeyRange | null, more: () => boolean): Promise<void> {
  const request = store.index(BY_TIME).openCursor(range);
  return new Promise((resolve, reject) => {
    request.onerror = () => reject(request.error);
    request.onsuccess = () => {
      const cursor = request.result;
      if (!cursor || !more()) {
        resolve();
        return;
      }
      cursor.delete();
      cursor.continue();
    };
  });
}

function result<Value>(request: IDBRequest<Value>): Promise<Value> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function finished(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error ?? new Error("the browser gave up the transaction"));
  });
}
