import { expect, it } from "vitest";
import type { Ledger, LedgerRecord } from "../src/ledger.ts";

export const accepted: LedgerRecord = { id: "ask_1", state: "accepted", at: 1000 };
export const answered: LedgerRecord = {
  id: "ask_1",
  state: "answered",
  at: 2000,
  answer: { outcome: "done", data: { level: 71 } },
};

/** What every ledger promises. `open` gives an empty one that remembers `maxRecords` asks. */
export function ledgerSuite(open: (maxRecords?: number) => Promise<Ledger>): void {
  it("knows nothing at first", async () => {
    expect(await (await open()).get("ask_1")).toBeUndefined();
  });

  it("takes a claim once and gives back what was there", async () => {
    const ledger = await open();
    expect(await ledger.claim(accepted)).toBeUndefined();
    expect(await ledger.claim({ ...accepted, at: 5000 })).toMatchObject(accepted);
    expect(await ledger.get("ask_1")).toMatchObject(accepted);
  });

  it("lets one of many claims through", async () => {
    const ledger = await open();
    const claims = await Promise.all(Array.from({ length: 20 }, (_, at) => ledger.claim({ ...accepted, at })));
    expect(claims.filter((known) => known === undefined)).toHaveLength(1);
  });

  it("replaces a record", async () => {
    const ledger = await open();
    await ledger.claim(accepted);
    await ledger.put(answered);
    expect(await ledger.get("ask_1")).toMatchObject(answered);
    await ledger.put({ ...answered, delivered: true });
    expect(await ledger.get("ask_1")).toMatchObject({ ...answered, delivered: true });
  });

  it("forgets what is older than asked for", async () => {
    const ledger = await open();
    await ledger.put({ ...accepted, id: "old", at: 999 });
    await ledger.put({ ...accepted, id: "edge", at: 1000 });
    await ledger.prune(1000);
    expect(await ledger.get("old")).toBeUndefined();
    expect(await ledger.get("edge")).toBeDefined();
  });

  it("forgets the oldest above its limit", async () => {
    const ledger = await open(3);
    for (const [index, id] of ["a", "b", "c", "d"].entries()) await ledger.put({ ...accepted, id, at: index });
    expect(await ledger.get("a")).toBeUndefined();
    for (const id of ["b", "c", "d"]) expect(await ledger.get(id)).toBeDefined();
  });
}
