/** Both kinds of store, for suites of what has to hold on either. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Backend } from "@leafmesh/core";
import { createEmbeddedBackend } from "@leafmesh/core/storage/embedded";
import { type Clock, silentLogger, systemClock } from "@leafmesh/protocol";
import { postgresAvailable } from "@leafmesh/testkit/postgres";
import type { BackendUnderTest } from "@leafmesh/testkit/suites";
import { afterAll, beforeAll, describe } from "vitest";
import { startTestDatabases, type TestDatabases } from "../../packages/core/src/storage/postgres/testing/databases.ts";

/** A store of its own, empty and migrated. With a clock that a test moves, the store's records have its time. */
export type OpenStore = (clock?: Clock) => Promise<BackendUnderTest>;

export type StoreKind = "embedded" | "PostgreSQL";

/** One server for all suites of a test file. */
let databases: Promise<TestDatabases> | undefined;
afterAll(async () => {
  await (await databases)?.stop();
});

/** The suite once for each kind of store; without PostgreSQL on this machine, for the embedded one alone. */
export function describeOnBothStores(name: string, suite: (open: OpenStore, kind: StoreKind) => void): void {
  describe(`${name}: embedded`, () => suite(openEmbedded, "embedded"));
  describe.skipIf(!postgresAvailable())(`${name}: PostgreSQL`, () => {
    beforeAll(async () => {
      databases ??= startTestDatabases();
      await databases;
    });
    suite(async (clock = systemClock) => {
      if (!databases) throw new Error("a store can be opened in a test only");
      return (await databases).store(sharedTime(clock));
    }, "PostgreSQL");
  });
}

async function openEmbedded(clock: Clock = systemClock): Promise<BackendUnderTest> {
  const folder = await mkdtemp(join(tmpdir(), "leafmesh-contract-"));
  const open = async (): Promise<Backend> => {
    const opened = createEmbeddedBackend({
      path: join(folder, "mesh.db"),
      durable: false,
      clock,
      logger: silentLogger,
    });
    await opened.migrate();
    return opened;
  };
  let backend = await open();
  return {
    backend,
    async reopen() {
      await backend.close();
      backend = await open();
      return backend;
    },
    async dispose() {
      await backend.close();
      await rm(folder, { recursive: true });
    },
  };
}

/** What the store writes down has the time of `clock`; its signs of life to other processes keep the machine's pace. */
function sharedTime(clock: Clock): Clock {
  return { ...systemClock, nowMs: () => clock.nowMs() };
}
