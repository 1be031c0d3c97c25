import type { DatabaseSync } from "node:sqlite";
import type { Clock } from "@leafmesh/protocol";
import type { Compilable } from "kysely";
import { StorageError } from "../contract.ts";
import { builder } from "./compile.ts";
import { firstTables } from "./first-tables.ts";
import { outsideCallsTables } from "./outside-calls-tables.ts";
import { sessionLogTables } from "./session-log-tables.ts";

/** Schema version 4: a notice may be about an event of a conversation instead of a frame. */
function eventNotices(): readonly Compilable[] {
  return [builder.schema.alterTable("callbacks").addColumn("event_json", "text")];
}

/** Marks a SQLite file as LeafMesh's own: "LMSH". https://sqlite.org/pragma.html#pragma_application_id */
const APPLICATION_ID = 0x4c4d5348;

export interface Migration {
  /** From 1, without a gap. A migration that was released is never edited. */
  readonly version: number;
  readonly name: string;
  statements(): readonly Compilable[];
}

export const MIGRATIONS: readonly Migration[] = [
  { version: 1, name: "first tables", statements: firstTables },
  { version: 2, name: "calls that clients execute", statements: outsideCallsTables },
  { version: 3, name: "one row for each commit to a session", statements: sessionLogTables },
  { version: 4, name: "notices of events", statements: eventNotices },
];

/**
 * Brings the schema up to date, each migration in a transaction of its own with the row that records it. Throws
 * {@link StorageError}: `too_new` for a database of a later release, `corrupt` for somebody else's file.
 */
export function migrateDatabase(
  database: DatabaseSync,
  file: string,
  clock: Clock,
  migrations: readonly Migration[] = MIGRATIONS,
): void {
  claim(database, file);
  const applied = appliedVersion(database);
  const newest = migrations.at(-1)?.version ?? 0;
  if (applied > newest) {
    throw new StorageError(
      "too_new",
      `${file} was written by a later release (schema ${applied}, this one knows up to ${newest}); ` +
        "update LeafMesh, or point storage.url at another file",
    );
  }
  for (const migration of migrations) {
    if (migration.version > applied) apply(database, migration, clock.nowMs());
  }
}

function claim(database: DatabaseSync, file: string): void {
  const owner = database.prepare("pragma application_id").get()?.application_id;
  if (owner === APPLICATION_ID) return;
  const tables = database.prepare("select count(*) as count from sqlite_schema").get()?.count;
  if (owner !== 0 || tables !== 0) {
    throw new StorageError(
      "corrupt",
      `${file} is a database of another program; point storage.url at a file that LeafMesh may fill`,
    );
  }
  database.exec(`begin immediate;
    create table migrations (version integer primary key, name text not null, applied_at integer not null) strict;
    pragma application_id = ${APPLICATION_ID};
    commit`);
}

function appliedVersion(database: DatabaseSync): number {
  const row = database.prepare("select coalesce(max(version), 0) as version from migrations").get();
  return Number(row?.version ?? 0);
}

function apply(database: DatabaseSync, migration: Migration, now: number): void {
  database.exec("begin immediate");
  try {
    for (const statement of migration.statements()) database.exec(statement.compile().sql);
    database
      .prepare("insert into migrations (version, name, applied_at) values (?, ?, ?)")
      .run(migration.version, migration.name, now);
    database.exec("commit");
  } catch (error) {
    if (database.isTransaction) database.exec("rollback");
    throw error;
  }
}
