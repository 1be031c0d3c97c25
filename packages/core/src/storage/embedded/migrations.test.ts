import { DatabaseSync } from "node:sqlite";
import { systemClock } from "@leafmesh/protocol";
import { CompiledQuery } from "kysely";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  appendEvent,
  createSession,
  openStore,
  type TemporaryFolder,
  temporaryFolder,
} from "../../../testing/stores.ts";
import { builder } from "./compile.ts";
import { MIGRATIONS, type Migration, migrateDatabase } from "./migrations.ts";

let folder: TemporaryFolder;
let database: DatabaseSync;
beforeEach(() => {
  folder = temporaryFolder();
  database = new DatabaseSync(folder.file("mesh.db"));
});
afterEach(() => {
  if (database.isOpen) database.close();
  folder[Symbol.dispose]();
});

const versions = () => database.prepare("select version, name from migrations order by version").all();
const tables = () => database.prepare("select name from sqlite_schema where type = 'table'").all();

function migration(version: number, ...statements: string[]): Migration {
  return {
    version,
    name: `step ${version}`,
    statements: () => statements.map((text) => ({ compile: () => CompiledQuery.raw(text) })),
  };
}

describe("migrations", () => {
  it("are numbered from 1 without a gap", () => {
    expect(MIGRATIONS.map(({ version }) => version)).toEqual(MIGRATIONS.map((_, index) => index + 1));
  });

  it("are applied once, in order, and recorded", () => {
    const first = migration(1, "create table a (x integer) strict", "insert into a values (1)");
    const second = migration(2, "create table b (x integer) strict", "insert into b select x + 1 from a");
    migrateDatabase(database, "mesh.db", systemClock, [first]);
    migrateDatabase(database, "mesh.db", systemClock, [first, second]);
    migrateDatabase(database, "mesh.db", systemClock, [first, second]);
    expect(versions()).toEqual([
      { version: 1, name: "step 1" },
      { version: 2, name: "step 2" },
    ]);
    expect(database.prepare("select x from b").all()).toEqual([{ x: 2 }]);
  });

  it("that fail leave the database as it was before them", () => {
    const first = migration(1, "create table a (x integer) strict");
    const broken = migration(2, "create table b (x integer) strict", "insert into nowhere values (1)");
    expect(() => migrateDatabase(database, "mesh.db", systemClock, [first, broken])).toThrow("nowhere");
    expect(versions()).toEqual([{ version: 1, name: "step 1" }]);
    expect(tables()).toEqual([{ name: "migrations" }, { name: "a" }]);
    expect(database.isTransaction).toBe(false);
  });

  it("refuse a database of a later release, and leave it alone", async () => {
    {
      database.close();
      await using store = await openStore(folder.file("mesh.db"));
      await store.commit([createSession("s"), appendEvent("s", "kept")]);
    }
    database = new DatabaseSync(folder.file("mesh.db"));
    database.exec("insert into migrations values (99, 'from the future', 0)");
    database.close();
    await expect(openStore(folder.file("mesh.db"))).rejects.toMatchObject({
      name: "StorageError",
      code: "too_new",
      message: expect.stringMatching(
        /written by a later release \(schema 99, .*\); update LeafMesh, or point storage\.url/,
      ),
    });
    database = new DatabaseSync(folder.file("mesh.db"));
    expect(database.prepare("select count(*) as count from events").get()).toEqual({ count: 1 });
  });

  it("give every table strict columns", () => {
    migrateDatabase(database, "mesh.db", systemClock);
    const lax = database
      .prepare("select name from pragma_table_list where strict = 0 and name not like 'sqlite_%'")
      .all();
    expect(lax).toEqual([]);
    expect(tables().length).toBeGreaterThan(10);
    expect(builder.selectFrom("sessions").selectAll().compile().sql).toBe('select * from "sessions"');
  });
});
