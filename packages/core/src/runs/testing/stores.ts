import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { FakeClock } from "@leafmesh/testkit";
import type { Backend } from "../../storage/contract.ts";
import { createEmbeddedBackend } from "../../storage/embedded/index.ts";
import { createRunQueue } from "../../storage/embedded/run-queue.ts";
import { recordingLogger } from "./logger.ts";

export async function memoryBackend(clock: FakeClock): Promise<Backend> {
  return openBackend(":memory:", clock);
}

async function openBackend(path: string, clock: FakeClock): Promise<Backend> {
  const backend = createEmbeddedBackend({ path, durable: false, clock, logger: recordingLogger() });
  await backend.migrate();
  return backend;
}

/** A store in a file, which outlives the processes that a test plays. */
export interface Disk extends AsyncDisposable {
  /** Opens the file, closing what had it open before. */
  open(): Promise<Backend>;
}

export async function createDisk(clock: FakeClock): Promise<Disk> {
  const folder = await mkdtemp(join(tmpdir(), "leafmesh-engine-"));
  let opened: Backend | undefined;
  return {
    async open() {
      await opened?.close();
      opened = await openBackend(join(folder, "mesh.db"), clock);
      return opened;
    },
    async [Symbol.asyncDispose]() {
      await opened?.close();
      await rm(folder, { recursive: true });
    },
  };
}

/** Where a process dies. */
export interface Death {
  /** The process dies at this commit, from 1; of a later process the count starts again. */
  readonly atCommit: number;
  /** Whether that commit is on the disk: either way nobody learns what became of it. */
  readonly stored: boolean;
}

/**
 * The store as a process sees it that dies at a commit: from then on nothing that it asks of the store comes back. Has a
 * queue of its own, which is gone with the process.
 */
export function mortalBackend(
  backend: Backend,
  death: Death,
): { readonly backend: Backend; readonly died: Promise<void> } {
  const died = Promise.withResolvers<void>();
  let commits = 0;
  let dead = false;
  const forever = new Promise<never>(() => {});
  const alive = <Value>(read: () => Promise<Value>): Promise<Value> => (dead ? forever : read());
  return {
    died: died.promise,
    backend: {
      ...backend,
      queue: createRunQueue(recordingLogger()),
      async commit(writes) {
        if (dead) return forever;
        if (++commits < death.atCommit) return backend.commit(writes);
        dead = true;
        if (death.stored) await backend.commit(writes);
        died.resolve();
        return forever;
      },
      session: (id) => alive(() => backend.session(id)),
      devices: (id) => alive(() => backend.devices(id)),
      messages: (id, query) => alive(() => backend.messages(id, query)),
      run: (id) => alive(() => backend.run(id)),
      runs: (query) => alive(() => backend.runs(query)),
      wait: (id) => alive(() => backend.wait(id)),
      call: (id) => alive(() => backend.call(id)),
      calls: (query) => alive(() => backend.calls(query)),
    },
  };
}
