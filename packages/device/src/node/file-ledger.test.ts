import { appendFile, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { accepted, answered, ledgerSuite } from "../../testing/ledger-suite.ts";
import { type FileLedger, openFileLedger } from "./file-ledger.ts";

const opened: FileLedger[] = [];
const folders: string[] = [];

async function newPath(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "leafmesh-ledger-"));
  folders.push(folder);
  return join(folder, "ledger.jsonl");
}

async function open(path: string, maxRecords?: number): Promise<FileLedger> {
  const ledger = await openFileLedger(path, { maxRecords });
  opened.push(ledger);
  return ledger;
}

afterEach(async () => {
  for (const ledger of opened.splice(0)) await ledger.close();
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
});

describe("openFileLedger", () => {
  ledgerSuite(async (maxRecords) => open(await newPath(), maxRecords));

  it("remembers what another process wrote", async () => {
    const path = await newPath();
    const first = await open(path);
    await first.claim(accepted);
    await first.put(answered);
    await first.put({ ...accepted, id: "ask_2" });
    await first.close();
    const second = await open(path);
    expect(await second.get("ask_1")).toMatchObject(answered);
    expect(await second.claim({ ...accepted, id: "ask_2", at: 9 })).toMatchObject({ id: "ask_2", at: 1000 });
  });

  it("has the record in the file when the promise resolves", async () => {
    const path = await newPath();
    const ledger = await open(path);
    await ledger.claim(accepted);
    expect(await readFile(path, "utf8")).toBe(`${JSON.stringify(accepted)}\n`);
  });

  it("drops a line that a crash cut short, and goes on cleanly", async () => {
    const path = await newPath();
    const first = await open(path);
    await first.claim(accepted);
    await first.close();
    await appendFile(path, '{"id":"ask_2","state":"acce');
    const second = await open(path);
    expect(await second.get("ask_1")).toMatchObject(accepted);
    expect(await second.get("ask_2")).toBeUndefined();
    await second.claim({ ...accepted, id: "ask_3" });
    await second.close();
    const third = await open(path);
    expect(await third.get("ask_3")).toBeDefined();
  });

  it("keeps the good lines around a damaged one, and says so", async () => {
    const path = await newPath();
    await writeFile(path, `${JSON.stringify(accepted)}\n\0\0\0\n${JSON.stringify({ ...accepted, id: "ask_2" })}\n`);
    const warnings: unknown[] = [];
    const logger = { debug() {}, info() {}, error() {}, warn: (_: string, fields?: object) => warnings.push(fields) };
    const ledger = await openFileLedger(path, { logger });
    opened.push(ledger);
    expect(await ledger.get("ask_1")).toBeDefined();
    expect(await ledger.get("ask_2")).toBeDefined();
    expect(warnings).toEqual([{ path, line: 2 }]);
  });

  it("does not grow with what was replaced", async () => {
    const path = await newPath();
    const ledger = await open(path);
    for (let turn = 0; turn < 600; turn++) await ledger.put({ ...accepted, at: turn });
    const lines = (await readFile(path, "utf8")).trimEnd().split("\n");
    expect(lines.length).toBeLessThan(300);
    expect(JSON.parse(lines.at(-1) ?? "")).toMatchObject({ at: 599 });
  });

  it("is the owner's alone and leaves no other file behind", async () => {
    const path = await newPath();
    const ledger = await open(path);
    await ledger.claim(accepted);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(await readdir(join(path, ".."))).toEqual(["ledger.jsonl"]);
  });

  it("makes the folder that is missing", async () => {
    const ledger = await open(join(await newPath(), "..", "deep", "er", "ledger.jsonl"));
    await ledger.claim(accepted);
    expect(await ledger.get("ask_1")).toBeDefined();
  });

  it("takes nothing after it was closed", async () => {
    const path = await newPath();
    const ledger = await open(path);
    await ledger.close();
    await ledger.close();
    await expect(ledger.claim(accepted)).rejects.toThrow("is closed");
  });
});
