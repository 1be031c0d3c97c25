import { createFakeClock } from "@leafmesh/testkit";
import { describe, expect, it } from "vitest";
import { bounded, GivenUp, pause } from "./bounded.ts";

describe("bounded", () => {
  it("gives what the work gives, and leaves no timer", async () => {
    const clock = createFakeClock();
    await expect(bounded(clock, 1_000, undefined, async () => 7)).resolves.toBe(7);
    await expect(
      bounded(clock, 1_000, undefined, () => {
        throw new Error("at once");
      }),
    ).rejects.toThrow("at once");
    expect(clock.pendingTimers).toBe(0);
  });

  it("gives up work that does not heed its signal, and hands over what it brings later", async () => {
    const clock = createFakeClock();
    const work = Promise.withResolvers<string>();
    const late: string[] = [];
    let seen: AbortSignal | undefined;
    const waiting = bounded(
      clock,
      1_000,
      undefined,
      (signal) => {
        seen = signal;
        return work.promise;
      },
      (value) => late.push(value),
    );
    const given = expect(waiting).rejects.toMatchObject({ name: "GivenUp", why: "timeout" });
    await clock.advance(999);
    expect(seen?.aborted).toBe(false);
    await clock.advance(1);
    await given;
    expect(seen?.aborted).toBe(true);
    work.resolve("room");
    await clock.advance(0);
    expect(late).toEqual(["room"]);
  });

  it("ends with the outer signal, before or during the work", async () => {
    const clock = createFakeClock();
    const outer = new AbortController();
    const waiting = bounded(clock, 1_000, outer.signal, () => new Promise<never>(() => {}));
    outer.abort();
    await expect(waiting).rejects.toMatchObject({ why: "aborted" });
    await expect(bounded(clock, 1_000, outer.signal, async () => 1)).rejects.toMatchObject({ why: "aborted" });
    expect(clock.pendingTimers).toBe(0);
  });

  it("swallows an error that comes after it gave up", async () => {
    const clock = createFakeClock();
    const work = Promise.withResolvers<never>();
    const waiting = bounded(clock, 10, undefined, () => work.promise);
    const given = expect(waiting).rejects.toBeInstanceOf(GivenUp);
    await clock.advance(10);
    await given;
    work.reject(new Error("too late to matter"));
    await clock.advance(0);
  });
});

describe("pause", () => {
  it("waits on the clock", async () => {
    const clock = createFakeClock();
    let over = false;
    const waiting = pause(clock, 500, new AbortController().signal).then(() => {
      over = true;
    });
    await clock.advance(499);
    expect(over).toBe(false);
    await clock.advance(1);
    await waiting;
  });

  it("ends with its signal, before or during the wait", async () => {
    const clock = createFakeClock();
    const controller = new AbortController();
    const waiting = pause(clock, 500, controller.signal);
    controller.abort();
    await expect(waiting).rejects.toMatchObject({ why: "aborted" });
    await expect(pause(clock, 500, controller.signal)).rejects.toMatchObject({ why: "aborted" });
    expect(clock.pendingTimers).toBe(0);
  });
});
