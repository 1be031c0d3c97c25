import { existsSync, realpathSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { makePrivateFile, makePrivateFolder } from "../../security/private-files.ts";
import { StorageError } from "../contract.ts";
import { toStorageError } from "./errors.ts";

/** A store that lives and dies with the process. */
export const IN_MEMORY = ":memory:";

/** How long a statement waits for a lock that a person's own tool holds on the file; the event loop waits with it. */
const BUSY_TIMEOUT_MS = 100;

export interface OpenedDatabase {
  readonly database: DatabaseSync;
  /** Absolute, links followed; `:memory:` for a store without a file. */
  readonly file: string;
  close(): void;
}

/**
 * Opens the database for this process alone. The folder is made if it is missing. Throws {@link StorageError}: `busy`
 * when another process has it, `corrupt`, `full` or `unavailable` as the file system says.
 */
export function openDatabase(path: string, options: { readonly durable: boolean }): OpenedDatabase {
  if (path === IN_MEMORY) {
    const database = new DatabaseSync(IN_MEMORY);
    return { database, file: IN_MEMORY, close: () => database.close() };
  }
  const file = prepareFile(path);
  const lock = lockForThisProcess(file);
  try {
    const database = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS });
    try {
      configure(database, file, options.durable);
    } catch (error) {
      database.close();
      throw error;
    }
    return {
      database,
      file,
      close() {
        database.close();
        lock.close();
      },
    };
  } catch (error) {
    lock.close();
    throw toStorageError(error, file);
  }
}

function prepareFile(path: string): string {
  const file = existsSync(path) ? realpathSync(path) : resolve(path);
  try {
    makePrivateFolder(dirname(file));
    makePrivateFile(file);
    makePrivateFile(lockPath(file));
    return file;
  } catch (cause) {
    const detail = cause instanceof Error ? cause.message : String(cause);
    throw new StorageError(
      "unavailable",
      `${file} cannot be opened for reading and writing by this user; check its folder and its owner (${detail})`,
      { cause },
    );
  }
}

const lockPath = (file: string): string => `${file}.lock`;

/**
 * An exclusive lock on an empty SQLite database beside the real one. The operating system drops it with the process,
 * however that ends, and a person may still read the real database with their own tools meanwhile.
 */
function lockForThisProcess(file: string): DatabaseSync {
  const lock = new DatabaseSync(lockPath(file), { timeout: 0 });
  try {
    lock.exec("pragma journal_mode = memory; begin exclusive");
    return lock;
  } catch (cause) {
    lock.close();
    const error = toStorageError(cause, lockPath(file));
    if (!(error instanceof StorageError) || error.code !== "busy") throw error;
    throw new StorageError(
      "busy",
      `another LeafMesh process uses ${file}; stop it, or give this mesh a storage.url of its own`,
      { cause },
    );
  }
}

function configure(database: DatabaseSync, file: string, durable: boolean): void {
  const mode = database.prepare("pragma journal_mode = wal").get()?.journal_mode;
  if (mode !== "wal") {
    throw new StorageError(
      "unavailable",
      `the file system that holds ${file} does not support SQLite's write-ahead log; put it on a local disk`,
    );
  }
  database.exec(`
    pragma synchronous = ${durable ? "full" : "normal"};
    pragma fullfsync = ${durable ? "on" : "off"};
    pragma secure_delete = on;
    pragma wal_autocheckpoint = 0;
    pragma temp_store = memory;
    pragma cache_size = -16384;
    pragma trusted_schema = off`);
}
