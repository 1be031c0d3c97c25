import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger, systemClock } from "@leafmesh/protocol";
import { type BackendUnderTest, testBackend } from "@leafmesh/testkit/suites";
import type { Backend } from "../contract.ts";
import { createEmbeddedBackend } from "./backend.ts";

async function openBackend(path: string, durable: boolean): Promise<Backend> {
  const backend = createEmbeddedBackend({ path, durable, clock: systemClock, logger: silentLogger });
  await backend.migrate();
  return backend;
}

const inFile = (durable: boolean) => async (): Promise<BackendUnderTest> => {
  const folder = await mkdtemp(join(tmpdir(), "leafmesh-store-"));
  const path = join(folder, "mesh.db");
  let backend = await openBackend(path, durable);
  return {
    backend,
    async reopen() {
      await backend.close();
      backend = await openBackend(path, durable);
      return backend;
    },
    async dispose() {
      await backend.close();
      await rm(folder, { recursive: true });
    },
  };
};

testBackend("SQLite file", inFile(false));
testBackend("SQLite file, durable", inFile(true));
testBackend(
  "SQLite in memory",
  async () => {
    const backend = await openBackend(":memory:", false);
    return { backend, reopen: async () => backend, dispose: () => backend.close() };
  },
  { lasting: false },
);
