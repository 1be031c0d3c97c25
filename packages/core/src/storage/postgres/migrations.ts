import type { Clock } from "@leafmesh/protocol";
import { type Compilable, type Kysely, sql } from "kysely";
import { StorageError } from "../contract.ts";
import { SCHEMA } from "./address.ts";
import type { Database } from "./database.ts";
import { firstTables } from "./first-tables.ts";
import type { Tables } from "./tables.ts";

export interface Migration {
  /** From 1, without a gap. A migration that was released is never edited. */
  readonly version: number;
  readonly name: string;
  statements(database: Kysely<Tables>): readonly Compilable[];
}

export const MIGRATIONS: readonly Migration[] = [
  { version: 1, name: "first tables", statements: firstTables },
  { version: 2, name: "notices of events", statements: eventNotices },
];

/** A notice may be about an event of a conversation instead of a frame. */
function eventNotices({ schema }: Kysely<Tables>): readonly Compilable[] {
  return [schema.alterTable("callbacks").addColumn("event_json", "text")];
}

/** Two processes that start together must not migrate together: the number is this lock's alone. */
const LOCK = 0x4c4d5348;

/** What {@link migrateDatabase} did. */
export interface Migrated {
  readonly from: number;
  readonly to: number;
}

/** Of processes that start together, one does what `use` does while the others wait, and then find it done. */
export function oneAtATime<Result>(database: Database, use: () => Promise<Result>): Promise<Result> {
  return database.connection().execute(async (connection) => {
    await sql`select pg_advisory_lock(${sql.lit(LOCK)})`.execute(connection);
    try {
      return await use();
    } finally {
      await sql`select pg_advisory_unlock(${sql.lit(LOCK)})`.execute(connection);
    }
  });
}

/**
 * Brings the schema up to date in one transaction. Call it in {@link oneAtATime}. Throws {@link StorageError} `too_new`
 * for a database of a later release.
 */
export async function migrateDatabase(
  database: Database,
  { place, clock, migrations = MIGRATIONS }: { place: string; clock: Clock; migrations?: readonly Migration[] },
): Promise<Migrated> {
  const newest = migrations.at(-1)?.version ?? 0;
  const refuseNewer = (applied: number): void => {
    if (applied <= newest) return;
    throw new StorageError(
      "too_new",
      `${place} was written by a later release (schema ${applied}, this one knows up to ${newest}); ` +
        "update LeafMesh, or point storage.url at another database",
    );
  };
  const before = await appliedVersion(database);
  refuseNewer(before);
  if (before === newest) return { from: before, to: before };

  return database.transaction().execute(async (transaction) => {
    await sql`create schema if not exists ${sql.id(SCHEMA)}`.execute(transaction);
    await transaction.schema
      .createTable("migrations")
      .ifNotExists()
      .addColumn("version", "integer", (column) => column.primaryKey())
      .addColumn("name", "text", (column) => column.notNull())
      .addColumn("applied_at", "bigint", (column) => column.notNull())
      .execute();
    const from = await appliedVersion(transaction);
    refuseNewer(from);
    for (const { version, name, statements } of migrations) {
      if (version <= from) continue;
      for (const statement of statements(transaction)) await sql.raw(statement.compile().sql).execute(transaction);
      await transaction
        .insertInto("migrations")
        .values({ version, name, applied_at: Math.round(clock.nowMs()) })
        .execute();
    }
    return { from, to: newest };
  });
}

/** 0 for an empty database. */
async function appliedVersion(database: Kysely<Tables>): Promise<number> {
  const found = await sql<{ there: boolean }>`
    select to_regclass(${`${SCHEMA}.migrations`}) is not null as there`.execute(database);
  if (!found.rows[0]?.there) return 0;
  const newest = await database
    .selectFrom("migrations")
    .select((select) => select.fn.coalesce(select.fn.max("version"), sql<number>`0`).as("version"))
    .executeTakeFirst();
  return newest?.version ?? 0;
}
