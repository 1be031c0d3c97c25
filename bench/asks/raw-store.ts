import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

export interface RawStore {
  /** One committed transaction. */
  store(id: string, step: string): void;
  close(): void;
}

/** A table in a file with the settings of the mesh's own store: what "store, then act" costs at the least. */
export function createRawStore(folder: string): RawStore {
  const database = new DatabaseSync(join(folder, "raw.db"));
  database.exec("pragma journal_mode = wal; pragma synchronous = normal");
  database.exec("create table steps (id text, step text, primary key (id, step)) without rowid");
  const insert = database.prepare("insert into steps values (?, ?)");
  return {
    store: (id, step) => void insert.run(id, step),
    close: () => database.close(),
  };
}
