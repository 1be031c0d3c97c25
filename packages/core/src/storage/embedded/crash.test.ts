/** What a store keeps when its process, the end of its log or the space on its disk is taken away. Prints the numbers. */
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { silentLogger } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  appendEvent,
  createSession,
  integrityOf,
  openStore,
  startStoreChild,
  type TemporaryFolder,
  temporaryFolder,
} from "../../../testing/stores.ts";
import { type Backend, StorageError } from "../contract.ts";

let folder: TemporaryFolder;
beforeEach(() => {
  folder = temporaryFolder();
});
afterEach(() => folder[Symbol.dispose]());

const oneTo = (last: number): number[] => Array.from({ length: last }, (_, index) => index + 1);

/** Each commit of the child holds one event and one message: they must agree, and their numbers have no gap. */
async function lengthOfWhole(store: Backend, sessionId: string): Promise<number> {
  const events = await store.events(sessionId);
  const messages = await store.messages(sessionId);
  expect(events.map((event) => event.seq)).toEqual(oneTo(events.length));
  expect(messages.map((message) => message.position)).toEqual(oneTo(events.length));
  expect(messages.map(({ message }) => message.content)).toEqual(
    events.map((event) => (event.type === "warning" ? event.payload.message : "")),
  );
  return events.length;
}

describe("a process that is killed while it writes", () => {
  it("loses nothing that was acknowledged, in 20 rounds", { timeout: 180_000 }, async () => {
    let acknowledged = 0;
    const openMs: number[] = [];
    for (let round = 0; round < 20; round++) {
      // Four rounds in five crash on what an earlier crash left.
      const path = folder.file(`mesh-${Math.floor(round / 5)}.db`);
      const child = await startStoreChild("write", path, round % 2 === 1);
      const lastSeen = new Map<string, number>();
      const note = (line: string): void => {
        const [, sessionId, seq] = /^(session-\d) (\d+)$/.exec(line) ?? [];
        if (!sessionId) return;
        lastSeen.set(sessionId, Number(seq));
        acknowledged += 1;
      };
      for (let wanted = 1 + Math.floor(Math.random() * 400); wanted > 0; wanted--) {
        note((await child.lines.next()).value ?? "");
      }
      await child.kill();
      for (let line = await child.lines.next(); !line.done; line = await child.lines.next()) note(line.value);
      expect(lastSeen.size).toBeGreaterThan(0);

      const started = performance.now();
      await using store = await openStore(path);
      openMs.push(performance.now() - started);
      for (const [sessionId, seq] of lastSeen) {
        expect(await lengthOfWhole(store, sessionId)).toBeGreaterThanOrEqual(seq);
      }
      expect(await store.commit([createSession(`after-${round}`)])).toMatchObject({ committed: true });
      expect(integrityOf(path)).toBe("ok");
    }
    const median = openMs.toSorted((left, right) => left - right)[10]?.toFixed(1);
    console.log(`20 kills: ${acknowledged} commits acknowledged, none lost; median time to open ${median} ms`);
  });
});

/** A store with `count` acknowledged events that are in its log only, as a copy of its files. */
async function storeWithLog(count: number): Promise<{ database: string; log: string }> {
  const path = folder.file("original/mesh.db");
  // A clock that stands still: nothing is copied from the log into the database.
  await using store = await openStore(path, { durable: true, clock: createFakeClock() });
  await store.commit([createSession("s")]);
  for (let index = 1; index <= count; index++)
    await store.commit([appendEvent("s", `${index} ${"x".repeat(index * 9)}`)]);
  const copy = { database: folder.file("copy.db"), log: folder.file("copy.db-wal") };
  spawnSync("cp", [path, copy.database]);
  spawnSync("cp", [`${path}-wal`, copy.log]);
  return copy;
}

describe("a log whose end is torn", () => {
  it("opens with the events up to the tear, at every 512 bytes of the last 64 KiB", { timeout: 120_000 }, async () => {
    const original = await storeWithLog(60);
    const size = readFileSync(original.log).length;
    expect(size).toBeGreaterThan(128 * 1024);
    const found: number[] = [];
    for (let cut = size; cut >= size - 64 * 1024; cut -= 512) {
      const path = folder.file(`cut-${cut}/mesh.db`);
      mkdirSync(folder.file(`cut-${cut}`));
      copyFileSync(original.database, path);
      copyFileSync(original.log, `${path}-wal`);
      truncateSync(`${path}-wal`, cut);
      await using store = await openStore(path);
      const events = await store.events("s");
      expect(events.map((event) => event.seq)).toEqual(oneTo(events.length));
      expect(await store.commit([appendEvent("s", "next")])).toMatchObject({ events: [{ seq: events.length + 1 }] });
      expect(integrityOf(path)).toBe("ok");
      found.push(events.length);
      rmSync(folder.file(`cut-${cut}`), { recursive: true });
    }
    expect(found[0]).toBe(60);
    expect(found).toEqual(found.toSorted((left, right) => right - left));
    console.log(`${found.length} torn copies: all open, with 60 down to ${found.at(-1)} of 60 events`);
  });

  it("opens when bytes in it were changed", { timeout: 60_000 }, async () => {
    const original = await storeWithLog(30);
    const log = readFileSync(original.log);
    for (let flip = 0; flip < 24; flip++) {
      const path = folder.file(`flipped-${flip}.db`);
      const changed = Buffer.from(log);
      const at = Math.floor(Math.random() * log.length);
      changed[at] = ~(changed[at] ?? 0) & 0xff;
      copyFileSync(original.database, path);
      writeFileSync(`${path}-wal`, changed);
      await using store = await openStore(path);
      const events = await store.events("s");
      expect(events.map((event) => event.seq)).toEqual(oneTo(events.length));
      expect(integrityOf(path)).toBe("ok");
    }
  });
});

function runTool(command: string, ...given: string[]): { readonly ok: boolean; readonly said: string } {
  const { status, stderr } = spawnSync(command, given, { encoding: "utf8" });
  return { ok: status === 0, said: (stderr ?? "not found").trim() };
}

/** Mounts a small file system for the test; what is in the way, when that cannot be done here. */
function mountSmallDisk(at: string): string | undefined {
  if (process.platform !== "linux") return "a tmpfs is a thing of Linux";
  mkdirSync(at, { recursive: true });
  const mounted = runTool("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", at);
  return mounted.ok ? undefined : `mounting a tmpfs is not allowed here: ${mounted.said}`;
}

function reasonWithoutDisk(): string | undefined {
  using probe = temporaryFolder();
  const disk = probe.file("disk");
  const reason = mountSmallDisk(disk);
  if (reason === undefined) runTool("umount", disk);
  return reason;
}

const noDisk = reasonWithoutDisk();

describe.skipIf(noDisk !== undefined && !process.env.CI)(
  `a disk that is full${noDisk ? ` (left out: ${noDisk})` : ""}`,
  () => {
    it.for([false, true])(
      "refuses commits, keeps what it has, and goes on by itself (durable: %s)",
      async (durable) => {
        const disk = folder.file("disk");
        expect(mountSmallDisk(disk)).toBeUndefined();
        try {
          writeFileSync(`${disk}/ballast`, Buffer.alloc(2 * 1024 * 1024));
          const path = `${disk}/data/mesh.db`;
          await using store = await openStore(path, { durable, clock: createFakeClock(), logger: silentLogger });
          await store.commit([createSession("s")]);
          let acknowledged = 0;
          let failure: unknown;
          while (failure === undefined && acknowledged < 10_000) {
            const result = await store.commit([appendEvent("s", "x".repeat(1_000))]).catch((error: unknown) => {
              failure = error;
            });
            if (result?.committed) acknowledged += 1;
          }
          expect(failure).toBeInstanceOf(StorageError);
          expect(failure).toMatchObject({
            code: "full",
            message: expect.stringContaining(`the disk that holds ${path} is full`),
          });
          const together = await Promise.allSettled(
            ["x", "y", "z"].map((letter) => store.commit([appendEvent("s", letter.repeat(100_000))])),
          );
          for (const refused of together)
            expect(refused).toMatchObject({ status: "rejected", reason: { code: "full" } });
          expect((await store.events("s")).map((event) => event.seq)).toEqual(oneTo(acknowledged));

          rmSync(`${disk}/ballast`);
          await expect(store.probe()).resolves.toBeUndefined();
          for (let index = 1; index <= 100; index++) {
            const result = await store.commit([appendEvent("s", "y".repeat(1_000))]);
            expect(result).toMatchObject({ committed: true, events: [{ seq: acknowledged + index }] });
          }
          expect(integrityOf(path)).toBe("ok");
          console.log(`disk full after ${acknowledged} commits: none lost, 100 more once there was space`);
        } finally {
          runTool("umount", "-l", disk);
        }
      },
    );

    it("is noticed before work is taken on", async () => {
      const disk = folder.file("disk");
      expect(mountSmallDisk(disk)).toBeUndefined();
      try {
        await using store = await openStore(`${disk}/mesh.db`, { clock: createFakeClock() });
        await expect(store.probe()).resolves.toBeUndefined();
        spawnSync("dd", ["if=/dev/zero", `of=${disk}/ballast`, "bs=4096"]);
        await expect(store.probe()).rejects.toMatchObject({ name: "StorageError", code: "full" });
        rmSync(`${disk}/ballast`);
        await expect(store.probe()).resolves.toBeUndefined();
      } finally {
        runTool("umount", "-l", disk);
      }
    });
  },
);
