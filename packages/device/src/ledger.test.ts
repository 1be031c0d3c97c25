import { describe, expect, it } from "vitest";
import { accepted, answered, ledgerSuite } from "../testing/ledger-suite.ts";
import { createMemoryLedger, parseLedgerRecord } from "./ledger.ts";

describe("createMemoryLedger", () => {
  ledgerSuite(async (maxRecords) => createMemoryLedger(maxRecords));
});

describe("parseLedgerRecord", () => {
  it("takes what a ledger stored", () => {
    expect(parseLedgerRecord(accepted)).toEqual(accepted);
    expect(parseLedgerRecord(answered)).toEqual({ ...answered, delivered: false });
    expect(parseLedgerRecord({ ...answered, delivered: true })).toMatchObject({ delivered: true });
    expect(parseLedgerRecord({ ...accepted, state: "refused" })).toMatchObject({ state: "refused" });
  });

  it.each([
    ["nothing", undefined],
    ["a text", "accepted"],
    ["another state", { ...accepted, state: "done" }],
    ["no id", { ...accepted, id: undefined }],
    ["no time", { ...accepted, at: "now" }],
    ["an answer without its answer", { ...answered, answer: undefined }],
    ["an outcome that devices do not give", { ...answered, answer: { outcome: "unreachable" } }],
  ])("does not take %s", (_what, value) => expect(parseLedgerRecord(value)).toBeUndefined());
});
