import type { ToolResultInput } from "@leafmesh/protocol";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { findMismatches, resultsDigest, textForModel, toClientResult } from "./results.ts";

const result = (
  tool_call_id: string,
  content: ToolResultInput["content"] = "x",
  is_error = false,
): ToolResultInput => ({
  tool_call_id,
  content,
  is_error,
});

describe("two answers", () => {
  it("are the same in any order, and as a text or one block with it", () => {
    const results = fc.uniqueArray(fc.tuple(fc.string(), fc.string(), fc.boolean()), { selector: ([id]) => id });
    fc.assert(
      fc.property(results, fc.boolean(), (entries, asBlocks) => {
        const one = entries.map(([id, text, isError]) => result(id, text, isError));
        const other = entries.map(([id, text, isError]) =>
          result(id, asBlocks ? [{ type: "text", text }] : text, isError),
        );
        expect(resultsDigest(other.toReversed())).toBe(resultsDigest(one));
      }),
    );
  });

  it.each([
    ["another text", result("a", "y")],
    ["another id", result("b", "x")],
    ["a failure", result("a", "x", true)],
    [
      "two blocks",
      result("a", [
        { type: "text", text: "x" },
        { type: "text", text: "" },
      ]),
    ],
  ])("differ by %s", (_, other) => {
    expect(resultsDigest([other])).not.toBe(resultsDigest([result("a")]));
  });

  it("differ when one says something twice", () => {
    expect(resultsDigest([result("a"), result("a")])).not.toBe(resultsDigest([result("a")]));
  });
});

describe("mismatches", () => {
  const pending = [{ providerCallId: "a" }, { providerCallId: "b" }];

  it("are none exactly when every pending call is named once and nothing else", () => {
    const ids = fc.array(fc.constantFrom("a", "b", "c"), { maxLength: 4 });
    fc.assert(
      fc.property(ids, (given) => {
        const errors = findMismatches(
          given.map((id) => result(id)),
          pending,
        );
        expect(errors.length === 0).toBe(given.toSorted().join() === "a,b");
      }),
    );
  });
});

describe("what the model reads", () => {
  it.each([
    ["done", false, "done"],
    ["gone", true, "error: gone"],
    ["error: gone", true, "error: gone"],
    ["\n  ERROR gone", true, "\n  ERROR gone"],
    ["an error", true, "error: an error"],
    ["", true, "error: "],
  ])("of %j (failed: %s) is %j", (text, isError, read) => {
    expect(textForModel({ text, isError }, 1_000)).toBe(read);
  });

  it("is cut at the operator's limit, and says so", () => {
    const stored = toClientResult(result("a", "x".repeat(500)));
    expect(textForModel(stored, 200)).toMatch(/^x+\n\[Cut: the result has 500 characters.\]$/);
    expect(textForModel(stored, 200)).toHaveLength(200);
  });
});
