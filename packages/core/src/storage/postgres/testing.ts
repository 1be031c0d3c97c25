/** Databases for tests: one server for each test file, one copy of a migrated database for each test. */
import { randomUUID } from "node:crypto";
import { Secret, silentLogger, systemClock } from "@leafmesh/protocol";
import { type PostgresServer, startPostgres } from "@leafmesh/testkit/postgres";
import type { BackendUnderTest } from "@leafmesh/testkit/suites";
import { createPostgresBackend, type PostgresBackend } from "./backend.ts";

const TEMPLATE = "template_of_tests";

export interface TestDatabases {
  /** Address of an empty, migrated database. */
  create(): Promise<{ readonly url: string; readonly name: string }>;
  /** A backend as a process of its own would have it, migrated. */
  open(url: string): Promise<PostgresBackend>;
  store(): Promise<BackendUnderTest>;
  readonly server: PostgresServer;
  stop(): Promise<void>;
}

export async function startTestDatabases(): Promise<TestDatabases> {
  const server = await startPostgres();
  const open = async (url: string): Promise<PostgresBackend> => {
    const backend = createPostgresBackend({
      url: new Secret(url),
      processId: randomUUID(),
      clock: systemClock,
      logger: silentLogger,
    });
    await backend.migrate();
    return backend;
  };
  const template = await open(await server.createDatabase(TEMPLATE));
  await template.close();
  let count = 0;

  const databases: TestDatabases = {
    server,
    open,
    async create() {
      const name = `test_${++count}`;
      return { name, url: await server.createDatabase(name, TEMPLATE) };
    },
    async store() {
      const { name, url } = await databases.create();
      let backend = await open(url);
      return {
        backend,
        async reopen() {
          await backend.close();
          backend = await open(url);
          return backend;
        },
        async dispose() {
          await backend.close();
          await server.dropDatabase(name);
        },
      };
    },
    stop: () => server.stop(),
  };
  return databases;
}
