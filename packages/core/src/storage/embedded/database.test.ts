import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { silentLogger, systemClock } from "@leafmesh/protocol";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  appendEvent,
  createSession,
  openStore,
  startStoreChild,
  type TemporaryFolder,
  temporaryFolder,
} from "../../../testing/stores.ts";
import { StorageError } from "../contract.ts";
import { createEmbeddedBackend } from "./backend.ts";

let folder: TemporaryFolder;
beforeEach(() => {
  folder = temporaryFolder();
});
afterEach(() => folder[Symbol.dispose]());

const modeOf = (path: string): string => (statSync(path).mode & 0o777).toString(8);

describe("a store's files", () => {
  it.for([0o000, 0o022, 0o077])("are for their owner alone under umask %o", async (umask) => {
    const before = process.umask(umask);
    try {
      const path = folder.file(`deep/data-${umask}/mesh.db`);
      await using store = await openStore(path);
      await store.commit([createSession("s")]);
      const data = folder.file(`deep/data-${umask}`);
      expect(modeOf(data)).toBe("700");
      expect(modeOf(folder.file("deep"))).toBe("700");
      const files = readdirSync(data);
      expect(files.toSorted()).toEqual(["mesh.db", "mesh.db-shm", "mesh.db-wal", "mesh.db.lock"]);
      expect(files.map((file) => modeOf(join(data, file)))).toEqual(files.map(() => "600"));
    } finally {
      process.umask(before);
    }
  });

  it("lose the rights of others when they had some, and an existing folder keeps its own", async () => {
    const data = folder.file("project");
    mkdirSync(data);
    chmodSync(data, 0o755);
    writeFileSync(join(data, "mesh.db"), "");
    chmodSync(join(data, "mesh.db"), 0o644);
    await using store = await openStore(join(data, "mesh.db"));
    await store.commit([createSession("s")]);
    expect(modeOf(data)).toBe("755");
    expect(modeOf(join(data, "mesh.db"))).toBe("600");
    expect(modeOf(join(data, "mesh.db-wal"))).toBe("600");
  });

  it("are made by migrate and not before", async () => {
    const backend = createEmbeddedBackend({
      path: folder.file("mesh.db"),
      durable: false,
      clock: systemClock,
      logger: silentLogger,
    });
    expect(readdirSync(folder.path)).toEqual([]);
    await expect(backend.session("s")).rejects.toThrow("before migrate()");
    await backend.close();
    expect(readdirSync(folder.path)).toEqual([]);
  });
});

describe("a second user of the file", () => {
  it("in this process is refused, also through a link, and welcome after the first has closed", async () => {
    const path = folder.file("mesh.db");
    symlinkSync(path, folder.file("link.db"));
    const first = await openStore(path);
    await first.commit([createSession("s")]);
    for (const name of ["mesh.db", "link.db"]) {
      const refused = openStore(folder.file(name));
      await expect(refused).rejects.toBeInstanceOf(StorageError);
      await expect(refused).rejects.toMatchObject({ code: "busy", message: expect.stringContaining(path) });
    }
    expect(await first.commit([appendEvent("s", "still works")])).toMatchObject({ committed: true });
    await first.close();
    await using second = await openStore(folder.file("link.db"));
    expect(await second.lastEventSeq("s")).toBe(1);
  });

  it("in another process is refused, until the first is killed", { timeout: 30_000 }, async () => {
    const path = folder.file("mesh.db");
    const child = await startStoreChild("hold", path);
    await expect(openStore(path)).rejects.toMatchObject({
      code: "busy",
      message: expect.stringMatching(/another LeafMesh process uses .*mesh\.db; stop it/),
    });
    await child.kill();
    await using store = await openStore(path);
    expect(await store.commit([createSession("s")])).toMatchObject({ committed: true });
  });

  it("is refused although a refused one has come and gone in this process", { timeout: 30_000 }, async () => {
    const path = folder.file("mesh.db");
    await using first = await openStore(path);
    await first.commit([createSession("s")]);
    await expect(openStore(path)).rejects.toMatchObject({ code: "busy" });
    await expect(startStoreChild("hold", path)).rejects.toThrow("another LeafMesh process uses");
  });

  it("may be a person who only reads", async () => {
    const path = folder.file("mesh.db");
    await using store = await openStore(path);
    await store.commit([createSession("s")]);
    const reader = new DatabaseSync(path, { readOnly: true });
    expect(reader.prepare("select id from sessions").all()).toEqual([{ id: "s" }]);
    expect(await store.commit([appendEvent("s", "meanwhile")])).toMatchObject({ committed: true });
    reader.close();
  });

  it("that holds a write lock makes a commit fail as busy, and the next one works", async () => {
    const path = folder.file("mesh.db");
    await using store = await openStore(path);
    await store.commit([createSession("s")]);
    const person = new DatabaseSync(path);
    person.exec("begin immediate");
    await expect(store.commit([appendEvent("s", "one")])).rejects.toMatchObject({ name: "StorageError", code: "busy" });
    await expect(store.probe()).rejects.toMatchObject({ code: "busy" });
    person.exec("rollback");
    person.close();
    expect(await store.commit([appendEvent("s", "two")])).toMatchObject({ committed: true, events: [{ seq: 1 }] });
  });
});

describe("a file that is not a store", () => {
  it.for([
    ["noise", "this is not a database ".repeat(500)],
    ["a cut-off header", "SQLite format 3\0"],
  ] as const)("is refused when it is %s, naming the file and the cure", async ([, content]) => {
    const path = folder.file("mesh.db");
    writeFileSync(path, content);
    await expect(openStore(path)).rejects.toMatchObject({
      name: "StorageError",
      code: "corrupt",
      message: expect.stringMatching(
        /mesh\.db is damaged or is not a database; restore it from a backup, or move it away/,
      ),
    });
  });

  it("is refused when it is another program's, and left alone", async () => {
    const path = folder.file("mesh.db");
    const other = new DatabaseSync(path);
    other.exec("create table notes (text text)");
    other.close();
    await expect(openStore(path)).rejects.toMatchObject({
      code: "corrupt",
      message: expect.stringContaining("is a database of another program"),
    });
    const again = new DatabaseSync(path);
    expect(again.prepare("select name from sqlite_schema").all()).toEqual([{ name: "notes" }]);
    again.close();
  });

  it("is refused when damage shows only later, as an error that names the file", async () => {
    const path = folder.file("mesh.db");
    {
      await using store = await openStore(path);
      await store.commit([createSession("s"), ...Array.from({ length: 200 }, () => appendEvent("s", "x".repeat(500)))]);
    }
    const lastPages = statSync(path).size / 4096 - 8;
    spawnSync("dd", ["if=/dev/urandom", `of=${path}`, "bs=4096", `seek=${lastPages}`, "count=8", "conv=notrunc"]);
    await using store = await openStore(path);
    await expect(store.events("s")).rejects.toMatchObject({
      name: "StorageError",
      code: "corrupt",
      message: expect.stringContaining(path),
    });
  });

  it("is refused when its folder is a file", async () => {
    writeFileSync(folder.file("occupied"), "");
    await expect(openStore(folder.file("occupied/mesh.db"))).rejects.toMatchObject({
      name: "StorageError",
      code: "unavailable",
      message: expect.stringContaining("occupied/mesh.db cannot be opened"),
    });
  });
});
