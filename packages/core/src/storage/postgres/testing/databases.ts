/** Databases for tests: one server for each test file, one copy of a migrated database for each test. */
import { randomUUID } from "node:crypto";
import { type Clock, Secret, silentLogger, systemClock } from "@leafmesh/protocol";
import { type PostgresOptions, type PostgresServer, startPostgres } from "@leafmesh/testkit/postgres";
import type { BackendUnderTest } from "@leafmesh/testkit/suites";
import { createPostgresBackend, type PostgresBackend } from "../backend.ts";

const TEMPLATE = "template_of_tests";

export interface TestDatabases {
  /** Address of an empty, migrated database. */
  create(): Promise<string>;
  /** A backend as a process of its own would have it, migrated. */
  open(url: string, clock?: Clock): Promise<PostgresBackend>;
  store(clock?: Clock): Promise<BackendUnderTest>;
  readonly server: PostgresServer;
  stop(): Promise<void>;
}

export async function startTestDatabases(options: PostgresOptions = {}): Promise<TestDatabases> {
  const server = await startPostgres(options);
  const open = async (url: string, clock: Clock = systemClock): Promise<PostgresBackend> => {
    const backend = createPostgresBackend({
      url: new Secret(url),
      processId: randomUUID(),
      clock,
      logger: silentLogger,
    });
    await backend.migrate();
    return backend;
  };
  const template = await open(await server.createDatabase(TEMPLATE));
  await template.close();
  let count = 0;
  /** Databases whose test is over, emptied: making one takes longer than most tests. */
  const unused: string[] = [];

  const empty = async (url: string): Promise<void> => {
    const name = new URL(url).pathname.slice(1);
    const tables = await server.query(name, "select tablename from pg_tables where schemaname = 'leafmesh'");
    const names = tables.map(({ tablename }) => String(tablename)).filter((table) => table !== "migrations");
    const full = [...names.map((table) => `leafmesh."${table}"`), "leafmesh_jobs.job"];
    // For the few rows of a test several times as fast as `truncate`; without the checks that rows lead to rows.
    const deletes = full.map((table) => `delete from ${table}`);
    await server.query(name, ["set session_replication_role = replica", ...deletes].join("; "));
  };

  const databases: TestDatabases = {
    server,
    open,
    create: () => server.createDatabase(`test_${++count}`, TEMPLATE),
    async store(clock) {
      const url = unused.pop() ?? (await databases.create());
      let backend = await open(url, clock);
      return {
        backend,
        async reopen() {
          await backend.close();
          backend = await open(url, clock);
          return backend;
        },
        async dispose() {
          await backend.close();
          await empty(url);
          unused.push(url);
        },
      };
    },
    stop: () => server.stop(),
  };
  return databases;
}
