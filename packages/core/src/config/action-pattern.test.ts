import { expect, test } from "vitest";
import { matchesAction } from "./action-pattern.ts";

test.each([
  ["read_battery", "read_battery", true],
  ["read_battery", "read_battery2", false],
  ["read_battery", "Read_battery", false],
  ["read_*", "read_battery", true],
  ["read_*", "read_", true],
  ["read_*", "reread_battery", false],
  ["*_battery", "read_battery", true],
  ["*", "", true],
  ["*", "anything at all", true],
  ["**", "x", true],
  ["r?ad", "read", true],
  ["r?ad", "rad", false],
  ["?", "", false],
  ["a*b*c", "a-b-b-c", true],
  ["a*b*c", "a-c-b", false],
  ["camera.*", "camera.take", true],
  ["camera.*", "cameraXtake", false],
  ["", "", true],
  ["", "x", false],
])("%j and %j: %j", (pattern, action, matches) => {
  expect(matchesAction(pattern, action)).toBe(matches);
});

test("many wildcards cost no more than their number times the length", () => {
  const startedAt = performance.now();
  expect(matchesAction("*a".repeat(64), "b".repeat(10_000))).toBe(false);
  expect(matchesAction(`${"*a".repeat(60)}*b`, "a".repeat(10_000))).toBe(false);
  expect(performance.now() - startedAt).toBeLessThan(1_000);
});
