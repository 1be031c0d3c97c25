/** A ledger in IndexedDB: it survives a reload, is shared by tabs and a service worker, and has no 5 MB limit. */
import { DEFAULT_MAX_RECORDS, type Ledger, type LedgerRecord, parseLedgerRecord } from "./ledger.ts";

export interface BrowserLedgerOptions {
  /** Name of the database; one for each device id that a page plays. */
  readonly name?: string;
  /** How many asks are remembered. */
  readonly maxRecords?: number;
  /** The runtime's own unless given. */
  readonly indexedDB?: IDBFactory;
}

export interface BrowserLedger extends Ledger {
  close(): void;
}

const STORE = "asks";
const BY_TIME = "at";

/** Opens the ledger. Rejects when the browser keeps no IndexedDB, as some do in private windows. */
export async function openBrowserLedger(options: BrowserLedgerOptions = {}): Promise<BrowserLedger> {
  const { name = "leafmesh-asks", maxRecords = DEFAULT_MAX_RECORDS, indexedDB = globalThis.indexedDB } = options;
  const opening = indexedDB.open(name, 1);
  opening.onupgradeneeded = () => {
    opening.result.createObjectStore(STORE, { keyPath: "id" }).createIndex(BY_TIME, BY_TIME);
  };
  const database = await result(opening);
  // Another tab that wants a newer layout must not wait for this one.
  database.onversionchange = () => database.close();

  /** One transaction: `work` may only wait for requests of `store`, or the browser commits under it. */
  const within = async <Value>(mode: IDBTransactionMode, work: (store: IDBObjectStore) => Promise<Value>) => {
    const transaction = database.transaction(STORE, mode, { durability: "strict" });
    const committed = finished(transaction);
    const [value] = await Promise.all([work(transaction.objectStore(STORE)), committed]);
    return value;
  };

  return {
    claim: (record) =>
      within("readwrite", async (store) => {
        const known = parseLedgerRecord(await result(store.get(record.id)));
        if (!known) await storeRecord(store, record, maxRecords);
        return known;
      }),
    get: (id) => within("readonly", async (store) => parseLedgerRecord(await result(store.get(id)))),
    put: (record) => within("readwrite", (store) => storeRecord(store, record, maxRecords)),
    prune: (beforeMs) =>
      within("readwrite", (store) => deleteOldest(store, IDBKeyRange.upperBound(beforeMs, true), () => true)),
    close: () => database.close(),
  };
}

async function storeRecord(store: IDBObjectStore, record: LedgerRecord, maxRecords: number): Promise<void> {
  await result(store.put(record));
  let excess = (await result(store.count())) - maxRecords;
  if (excess > 0) await deleteOldest(store, null, () => excess-- > 0);
}

/** Deletes records in the order of their time for as long as `more` says so. */
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
