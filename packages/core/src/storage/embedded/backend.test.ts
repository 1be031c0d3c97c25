import { spawnSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import type { LogFields, Logger, StoredEvent } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  appendEvent,
  createSession,
  openStore,
  type TemporaryFolder,
  temporaryFolder,
} from "../../../testing/stores.ts";

let folder: TemporaryFolder;
beforeEach(() => {
  folder = temporaryFolder();
});
afterEach(() => folder[Symbol.dispose]());

function recordingLogger() {
  const lines: { readonly level: string; readonly message: string; readonly fields: LogFields | undefined }[] = [];
  const log = (level: string) => (message: string, fields?: LogFields) => void lines.push({ level, message, fields });
  const logger: Logger = { debug: log("debug"), info: log("info"), warn: log("warn"), error: log("error") };
  return { lines, logger };
}

describe("a session's executor", () => {
  it("that was there when its process died counts as having left at the next start", async () => {
    const clock = createFakeClock();
    const path = folder.file("mesh.db");
    {
      await using store = await openStore(path, { clock });
      await store.commit([createSession("s")]);
      await store.attachStream("s", { executor: true });
    }
    await clock.advance(3_600_000);
    const startedAt = clock.nowMs();
    await using store = await openStore(path, { clock });
    await clock.advance(1_000);
    expect(await store.presence("s")).toEqual({
      streams: 0,
      executors: 0,
      executorDeclared: true,
      executorLeftAt: startedAt,
    });
  });
});

describe("commits of one turn of the event loop", () => {
  it("leave each other alone when one of them cannot be written at all", async () => {
    await using store = await openStore(":memory:");
    await store.commit([createSession("s")]);
    const circular: { self?: unknown } = {};
    circular.self = circular;
    const results = await Promise.allSettled([
      store.commit([appendEvent("s", "one")]),
      store.commit([appendEvent("s", "undone"), createSession("t", circular)]),
      store.commit([appendEvent("s", "two"), createSession("u")]),
    ]);
    expect(results).toMatchObject([
      { status: "fulfilled", value: { committed: true, events: [{ seq: 1 }] } },
      { status: "rejected", reason: { name: "TypeError" } },
      { status: "fulfilled", value: { committed: true, events: [{ seq: 2 }] } },
    ]);
    expect((await store.events("s")).map((event) => event.payload)).toMatchObject([
      { message: "one" },
      { message: "two" },
    ]);
    expect(await store.session("t")).toBeUndefined();
  });

  it("are undone alone, too, when they are alone", async () => {
    await using store = await openStore(":memory:");
    await store.commit([createSession("s")]);
    await expect(store.commit([appendEvent("s", "undone"), createSession("t", { big: 1n })])).rejects.toThrow(
      TypeError,
    );
    expect(await store.commit([appendEvent("s", "one")])).toMatchObject({ committed: true, events: [{ seq: 1 }] });
  });

  it("may be more than one transaction takes, and keep their order", async () => {
    await using store = await openStore(folder.file("mesh.db"), { durable: true });
    await store.commit([createSession("s")]);
    const heard: StoredEvent[] = [];
    store.subscribe("s", { onEvents: (events) => void heard.push(...events), onTransient() {} });
    const results = await Promise.all(
      Array.from({ length: 1_000 }, (_, index) => store.commit([appendEvent("s", `${index}`)])),
    );
    const seqs = results.flatMap((result) => (result.committed ? result.events.map((event) => event.seq) : []));
    expect(seqs).toEqual(Array.from({ length: 1_000 }, (_, index) => index + 1));
    expect(heard.map((event) => event.seq)).toEqual(seqs);
  });

  it("are stored when a listener hears of them, and when they resolve", async () => {
    await using store = await openStore(folder.file("mesh.db"));
    await store.commit([createSession("s")]);
    const reader = new DatabaseSync(folder.file("mesh.db"), { readOnly: true });
    const stored = () => reader.prepare("select coalesce(max(last_seq), 0) as count from session_log").get()?.count;
    const counts: unknown[] = [];
    store.subscribe("s", { onEvents: () => void counts.push(stored()), onTransient() {} });
    await store.commit([appendEvent("s", "one")]);
    counts.push(stored());
    await store.commit([appendEvent("s", "two"), appendEvent("s", "three")]);
    counts.push(stored());
    reader.close();
    expect(counts).toEqual([1, 1, 3, 3]);
  });
});

describe("a listener that throws", () => {
  it("is logged with its session, and the cause", async () => {
    const { lines, logger } = recordingLogger();
    await using store = await openStore(":memory:", { logger });
    await store.commit([createSession("s")]);
    const error = new Error("broken");
    store.subscribe("s", {
      onEvents() {
        throw error;
      },
      onTransient() {},
    });
    await store.commit([appendEvent("s", "one")]);
    expect(lines).toEqual([
      { level: "error", message: "a listener to a session's events threw", fields: { session_id: "s", error } },
    ]);
  });
});

describe("times", () => {
  it("are kept in whole milliseconds, whatever clock they were reckoned from", async () => {
    await using store = await openStore(":memory:");
    await store.commit([createSession("s")]);
    const result = await store.commit([
      {
        kind: "event.append",
        sessionId: "s",
        at: 1_500.4,
        event: { type: "warning", payload: { code: "c", message: "m" } },
      },
      { kind: "session.touch", sessionId: "s", at: 1_900_000_000_000.7 },
    ]);
    expect(result).toEqual({ committed: true, events: await store.events("s") });
    expect(result).toMatchObject({ events: [{ ts: 1.5 }] });
    expect(await store.session("s")).toMatchObject({ lastActiveAt: 1_900_000_000_001 });
  });
});

describe("closing", () => {
  it("waits for the work in hand, which may still commit", async () => {
    const store = await openStore(folder.file("mesh.db"));
    await store.commit([createSession("s")]);
    let finish = () => {};
    const begun = new Promise<void>((resolve) => {
      void store.queue.start({
        concurrency: 1,
        async work() {
          resolve();
          await new Promise<void>((done) => {
            finish = done;
          });
          await store.commit([appendEvent("s", "last words")]);
        },
      });
    });
    await store.queue.push({ runId: "r", sessionId: "s" });
    await begun;
    const closing = store.close();
    finish();
    await closing;
    await using again = await openStore(folder.file("mesh.db"));
    expect(await again.lastEventSeq("s")).toBe(1);
  });

  it("leaves one file with everything in it, and no timer", async () => {
    const clock = createFakeClock();
    const store = await openStore(folder.file("mesh.db"), { clock });
    await store.commit([createSession("s"), appendEvent("s", "one")]);
    await store.close();
    expect(clock.pendingTimers).toBe(0);
    expect(existsSync(folder.file("mesh.db-wal"))).toBe(false);
    const database = new DatabaseSync(folder.file("mesh.db"), { readOnly: true });
    expect(database.prepare("select count(*) as count from session_log").get()).toEqual({ count: 1 });
    database.close();
  });
});

describe("the write-ahead log", () => {
  /** What is in the database without its log. */
  const eventsInDatabaseAlone = (): unknown => {
    spawnSync("cp", [folder.file("mesh.db"), folder.file("alone.db")]);
    const alone = new DatabaseSync(folder.file("alone.db"));
    try {
      return alone.prepare("select count(*) as count from session_log").get()?.count;
    } catch {
      return "no such table";
    } finally {
      alone.close();
    }
  };

  it("is copied into the database once no commit has come for a while, and then all is quiet", async () => {
    const clock = createFakeClock();
    await using store = await openStore(folder.file("mesh.db"), { clock });
    await store.commit([createSession("s")]);
    for (let index = 0; index < 4; index++) {
      await store.commit([appendEvent("s", `${index}`)]);
      await clock.advance(200);
    }
    expect(eventsInDatabaseAlone()).toBe("no such table");
    await clock.advance(1_000);
    expect(eventsInDatabaseAlone()).toBe(4);
    expect(clock.pendingTimers).toBe(0);
    await store.commit([appendEvent("s", "more")]);
    await clock.advance(1_000);
    expect(eventsInDatabaseAlone()).toBe(5);
  });

  it("is not copied by a commit, however large, but after it", { timeout: 30_000 }, async () => {
    await using store = await openStore(folder.file("mesh.db"), { clock: createFakeClock() });
    await store.commit([createSession("s"), appendEvent("s", "x".repeat(8_000_000))]);
    expect(eventsInDatabaseAlone()).toBe("no such table");
  });

  it("stays small although commits never pause", { timeout: 30_000 }, async () => {
    await using store = await openStore(folder.file("mesh.db"), { clock: createFakeClock() });
    await store.commit([createSession("s")]);
    for (let index = 0; index < 6_000; index++) await store.commit([appendEvent("s", "x".repeat(1_000))]);
    expect(statSync(folder.file("mesh.db-wal")).size).toBeLessThan(40 * 1024 * 1024);
    expect(await store.lastEventSeq("s")).toBe(6_000);
  });

  it("is cut off after an erasure as soon as no reader needs it any more", async () => {
    const clock = createFakeClock();
    await using store = await openStore(folder.file("mesh.db"), { clock });
    await store.commit([createSession("s")]);
    const devices = [{ sessionId: "s", id: "phone", sealedPushToken: "sealed-token-to-be-erased" }];
    await store.commit([{ kind: "devices.replace", sessionId: "s", devices }]);
    const reader = new DatabaseSync(folder.file("mesh.db"), { readOnly: true });
    reader.exec("begin");
    reader.prepare("select count(*) from sessions").get();
    await store.commit([{ kind: "session.end", sessionId: "s", at: 1 }]);
    await clock.advance(1_000);
    const isInAnyFile = () =>
      spawnSync("grep", ["-r", "-q", "-a", "-F", "sealed-token-to-be-erased", folder.path]).status === 0;
    expect(isInAnyFile()).toBe(true);
    reader.exec("rollback");
    reader.close();
    await clock.advance(1_000);
    expect(isInAnyFile()).toBe(false);
    expect(clock.pendingTimers).toBe(0);
  });
});
