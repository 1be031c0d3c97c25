import { describe, expect, it } from "vitest";
import { isJsonDeeperThan } from "./json-depth.ts";

const LEVELS = 64;

describe("isJsonDeeperThan", () => {
  it("counts arrays and objects, and nothing inside strings", () => {
    const levels = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`.padEnd(LEVELS * 3);
    expect(isJsonDeeperThan(levels(LEVELS), LEVELS)).toBe(false);
    expect(isJsonDeeperThan(levels(LEVELS + 1), LEVELS)).toBe(true);
    expect(isJsonDeeperThan(JSON.stringify({ text: `${"[{".repeat(100)}\\"` }), LEVELS)).toBe(false);
    expect(isJsonDeeperThan(JSON.stringify(Array.from({ length: 100 }, () => [{}])), LEVELS)).toBe(false);
  });

  it("takes time in proportion to the text", () => {
    const timeOf = (length: number) => {
      const text = '"\\'.repeat(length);
      const start = performance.now();
      for (let run = 0; run < 20; run++) isJsonDeeperThan(text, LEVELS);
      return performance.now() - start;
    };
    timeOf(50_000);
    expect(timeOf(400_000)).toBeLessThan(timeOf(100_000) * 16 + 20);
  });
});
