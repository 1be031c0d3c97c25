import { createFakeClock } from "@leafmesh/testkit";
import { beforeEach, describe, expect, it } from "vitest";
import type { RingRequest } from "../contract.ts";
import { createRingLinkHub, hashLinkCode, type RingLinkHub } from "./ring-link-hub.ts";

describe("links to rings", () => {
  let clock: ReturnType<typeof createFakeClock>;
  let hub: RingLinkHub;
  const keep = (ask = "ask_1", ttlMs = 60_000) =>
    hub.keep({ ring: { ask } as RingRequest["ring"], body: `{"ask":"${ask}"}`, ttlMs });

  beforeEach(() => {
    clock = createFakeClock();
    hub = createRingLinkHub({ clock, maxLinks: 3 });
  });

  it("have codes that nobody guesses, of characters that no phone takes for the end of an address", () => {
    const codes = Array.from({ length: 300 }, () => keep());
    for (const code of codes) expect(code).toMatch(/^[1-9A-HJ-NP-Za-km-z]{22}$/);
    expect(new Set(codes).size).toBe(300);
    expect(new Set(codes.join("")).size).toBe(58);
  });

  it("give the ring out once, however often they are looked at", () => {
    const code = keep();
    for (const _ of [1, 2]) expect(hub.look(hashLinkCode(code))).toEqual({ state: "open", ask: "ask_1" });
    expect(hub.open(hashLinkCode(code))).toEqual({
      state: "open",
      ask: "ask_1",
      ring: '{"ask":"ask_1"}',
      leftMs: 60_000,
    });
    expect(hub.open(hashLinkCode(code))).toEqual({ state: "used" });
    expect(hub.look(hashLinkCode(code))).toEqual({ state: "used", ask: "ask_1" });
  });

  it("end with the ask", async () => {
    const code = keep();
    await clock.advance(59_999);
    expect(hub.look(hashLinkCode(code)).state).toBe("open");
    await clock.advance(1);
    expect(hub.look(hashLinkCode(code)).state).toBe("over");
    expect(hub.open(hashLinkCode(code))).toEqual({ state: "over" });
  });

  it("are replaced by a later ring of the same ask, and leave other asks alone", () => {
    const [first, other, second] = [keep("ask_1"), keep("ask_2"), keep("ask_1")];
    expect([first, other, second].map((code) => hub.open(hashLinkCode(code)).state)).toEqual([
      "unknown",
      "open",
      "open",
    ]);
  });

  it("are bounded: the oldest goes first", () => {
    const codes = ["a", "b", "c", "d"].map((ask) => keep(ask));
    expect(codes.map((code) => hub.look(hashLinkCode(code)).state)).toEqual(["unknown", "open", "open", "open"]);
    expect(hub.look(hashLinkCode("")).state).toBe("unknown");
  });
});
