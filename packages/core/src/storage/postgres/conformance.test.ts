import { postgresAvailable } from "@leafmesh/testkit/postgres";
import { testBackend } from "@leafmesh/testkit/suites";
import { afterAll, beforeAll, describe } from "vitest";
import { startTestDatabases, type TestDatabases } from "./testing/databases.ts";

describe.skipIf(!postgresAvailable())("PostgreSQL", () => {
  let databases: TestDatabases;
  beforeAll(async () => {
    databases = await startTestDatabases();
  }, 60_000);
  afterAll(() => databases?.stop());

  testBackend("PostgreSQL", () => databases.store());
});
