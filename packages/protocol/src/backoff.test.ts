import { describe, expect, it } from "vitest";
import { createBackoff } from "./backoff.ts";

describe("createBackoff", () => {
  it("doubles up to the longest wait", () => {
    const backoff = createBackoff({ firstMs: 100, longestMs: 1000, random: () => 1 });
    expect(Array.from({ length: 6 }, () => backoff.nextMs())).toEqual([100, 200, 400, 800, 1000, 1000]);
  });

  it("spreads waits over the upper half", () => {
    const earliest = createBackoff({ firstMs: 100, longestMs: 1000, random: () => 0 });
    expect(earliest.nextMs()).toBe(50);
  });

  it("starts over after a try that worked", () => {
    const backoff = createBackoff({ firstMs: 100, longestMs: 1000, random: () => 1 });
    backoff.nextMs();
    backoff.nextMs();
    backoff.reset();
    expect(backoff.nextMs()).toBe(100);
  });

  it("stays finite after any number of tries", () => {
    const backoff = createBackoff({ firstMs: 100, longestMs: 5000, random: () => 1 });
    for (let tries = 0; tries < 2000; tries++) backoff.nextMs();
    expect(backoff.nextMs()).toBe(5000);
  });
});
