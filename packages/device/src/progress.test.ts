import { createFakeClock } from "@leafmesh/testkit";
import { describe, expect, it } from "vitest";
import { createProgressReporter, type Progress } from "./progress.ts";

function setUp() {
  const clock = createFakeClock();
  const sent: Progress[] = [];
  return { clock, sent, reporter: createProgressReporter(clock, (progress) => sent.push(progress)) };
}

describe("createProgressReporter", () => {
  it("sends the first report at once", () => {
    const { sent, reporter } = setUp();
    reporter.report("opening the camera", 10);
    expect(sent).toEqual([{ note: "opening the camera", pct: 10 }]);
  });

  it("sends the newest of many, four times a second", async () => {
    const { clock, sent, reporter } = setUp();
    for (let pct = 0; pct <= 100; pct++) reporter.report(undefined, pct);
    expect(sent).toEqual([{ pct: 0 }]);
    await clock.advance(250);
    expect(sent).toEqual([{ pct: 0 }, { pct: 100 }]);
    await clock.advance(10_000);
    expect(sent).toHaveLength(2);
    reporter.report("again");
    expect(sent.at(-1)).toEqual({ note: "again" });
  });

  it("sends nothing after it was stopped, not even what waited", async () => {
    const { clock, sent, reporter } = setUp();
    reporter.report("one");
    reporter.report("two");
    reporter.stop();
    reporter.report("three");
    await clock.advance(1000);
    expect(sent).toEqual([{ note: "one" }]);
    expect(clock.pendingTimers).toBe(0);
  });

  it("keeps within what the protocol takes", () => {
    const { sent, reporter } = setUp();
    reporter.report("x".repeat(900), 1000);
    expect(sent).toEqual([{ note: "x".repeat(500), pct: 100 }]);
  });

  it("leaves out a percentage that is none", () => {
    const { sent, reporter } = setUp();
    reporter.report("half", Number.NaN);
    expect(sent).toEqual([{ note: "half" }]);
  });
});
