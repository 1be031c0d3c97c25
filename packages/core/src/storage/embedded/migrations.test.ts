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
import type { Write } from "../contract.ts";
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
    expect(database.prepare("select count(*) as count from session_log").get()).toEqual({ count: 1 });
  });

  it("bring the events and messages of an older database along", async () => {
    migrateDatabase(database, "mesh.db", systemClock, MIGRATIONS.slice(0, 2));
    database.exec(`
      insert into sessions (id, mesh_name, entry_point, created_at, last_active_at, context_json)
        values ('s', 'm', 'e', 1, 1, '{}'), ('t', 'm', 'e', 1, 1, '{}');
      insert into events values ('s', 1, 5, 'session.created', '{"entry_point":"e"}'),
        ('s', 2, 7, 'message.received', '{"run_id":"r","content":"ü"}');
      insert into messages values ('s', 1, 'r', 0, null, '{"role":"user","content":"ü"}', 7),
        ('s', 2, 'r', 1, 'a', '{"role":"assistant","content":null,"toolCalls":[]}', 8),
        ('t', 1, 'q', 0, null, '{"role":"user","content":"no events"}', 9)`);
    database.close();

    await using store = await openStore(folder.file("mesh.db"));
    expect(await store.events("s")).toEqual([
      { type: "session.created", payload: { entry_point: "e" }, seq: 1, session_id: "s", ts: 0.005 },
      { type: "message.received", payload: { run_id: "r", content: "ü" }, seq: 2, session_id: "s", ts: 0.007 },
    ]);
    const common = { sessionId: "s", runId: "r" };
    const messages = [
      { ...common, position: 1, turn: 0, message: { role: "user", content: "ü" }, createdAt: 7 },
      {
        ...common,
        position: 2,
        turn: 1,
        agent: "a",
        message: { role: "assistant", content: null, toolCalls: [] },
        createdAt: 8,
      },
    ];
    expect(await store.messages("s")).toEqual(messages);
    expect(await store.messages("t")).toHaveLength(1);

    const say = (sessionId: string): Write => ({
      kind: "message.append",
      message: { sessionId, runId: "r", turn: 0, message: { role: "user", content: "new" }, createdAt: 10 },
    });
    await store.commit([say("s"), appendEvent("s", "new"), say("t")]);
    expect((await store.messages("s")).map(({ position }) => position)).toEqual([1, 2, 3]);
    expect((await store.events("s", { after: 2 })).map(({ seq }) => seq)).toEqual([3]);
    expect((await store.messages("t", { limit: 1 })).map(({ position }) => position)).toEqual([2]);
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
