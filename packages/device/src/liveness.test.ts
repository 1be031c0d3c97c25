import { createFakeClock } from "@leafmesh/testkit";
import { describe, expect, it } from "vitest";
import { watchLiveness } from "./liveness.ts";

function setUp() {
  const clock = createFakeClock();
  const calls: string[] = [];
  const liveness = watchLiveness({
    clock,
    idleMs: 15_000,
    deadMs: 10_000,
    ping: () => calls.push("ping"),
    dead: () => calls.push("dead"),
  });
  return { clock, calls, liveness };
}

describe("watchLiveness", () => {
  it("pings after the idle time and gives up after the dead time", async () => {
    const { clock, calls } = setUp();
    await clock.advance(14_999);
    expect(calls).toEqual([]);
    await clock.advance(1);
    expect(calls).toEqual(["ping"]);
    await clock.advance(9_999);
    expect(calls).toEqual(["ping"]);
    await clock.advance(1);
    expect(calls).toEqual(["ping", "dead"]);
    expect(clock.pendingTimers).toBe(0);
  });

  it("starts over whenever something is heard", async () => {
    const { clock, calls, liveness } = setUp();
    await clock.advance(10_000);
    liveness.heard();
    await clock.advance(14_999);
    expect(calls).toEqual([]);
    await clock.advance(1);
    liveness.heard();
    await clock.advance(14_999);
    expect(calls).toEqual(["ping"]);
    await clock.advance(1);
    expect(calls).toEqual(["ping", "ping"]);
  });

  it("does nothing once stopped", async () => {
    const { clock, calls, liveness } = setUp();
    liveness.stop();
    await clock.advance(60_000);
    expect(calls).toEqual([]);
  });
});
