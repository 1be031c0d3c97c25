import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { createMemoryEntries, type EntryLedger, type LedgerEntry } from "./ledger.ts";
import { type FileEntries, openFileEntries } from "./node/file-entries.ts";

interface Entry extends LedgerEntry {
  readonly note: string;
}

/** Takes what this test stores and nothing else. */
function parse(value: unknown): Entry | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { id, at, note } = value as Partial<Record<keyof Entry, unknown>>;
  return typeof id === "string" && typeof at === "number" && typeof note === "string" ? { id, at, note } : undefined;
}

const opened: FileEntries<Entry>[] = [];
const folders: string[] = [];
afterEach(async () => {
  for (const ledger of opened.splice(0)) await ledger.close();
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
});

async function newPath(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "leafmesh-entries-"));
  folders.push(folder);
  return join(folder, "entries.jsonl");
}

async function openFile(path: string, maxEntries?: number): Promise<EntryLedger<Entry>> {
  const ledger = await openFileEntries(path, { parse, maxEntries });
  opened.push(ledger);
  return ledger;
}

const entry = (id: string, at = 1, note = "n"): Entry => ({ id, at, note });

describe.each<[string, (maxEntries?: number) => Promise<EntryLedger<Entry>>]>([
  ["in memory", async (maxEntries) => createMemoryEntries(maxEntries)],
  ["in a file", async (maxEntries) => openFile(await newPath(), maxEntries)],
])("a ledger %s", (_where, open) => {
  it("gives an id to one claim of many", async () => {
    const ledger = await open();
    const claims = await Promise.all(Array.from({ length: 20 }, (_, at) => ledger.claim(entry("a", at))));
    expect(claims.filter((known) => known === undefined)).toHaveLength(1);
    expect(await ledger.get("a")).toEqual(entry("a", 0));
  });

  it("replaces, prunes and forgets the oldest above its limit", async () => {
    const ledger = await open(3);
    await ledger.put(entry("a", 1));
    await ledger.put(entry("a", 2, "later"));
    expect(await ledger.get("a")).toEqual(entry("a", 2, "later"));
    for (const [index, id] of ["b", "c", "d"].entries()) await ledger.put(entry(id, 10 + index));
    expect(await ledger.get("a")).toBeUndefined();
    await ledger.prune(12);
    expect([await ledger.get("b"), await ledger.get("c"), await ledger.get("d")]).toEqual([
      undefined,
      undefined,
      entry("d", 12),
    ]);
  });
});

it("a file is read back as its user's entries, and what is none is dropped", async () => {
  const path = await newPath();
  const first = await openFile(path);
  await first.put(entry("a", 1, "kept"));
  await first.put({ id: "b", at: 2, note: 3 } as unknown as Entry);
  await opened.pop()?.close();
  const second = await openFile(path);
  expect([await second.get("a"), await second.get("b")]).toEqual([entry("a", 1, "kept"), undefined]);
});
