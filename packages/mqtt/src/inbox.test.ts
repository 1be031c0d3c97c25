import { describe, expect, it } from "vitest";
import { createInbox } from "./inbox.ts";

describe("an inbox", () => {
  it("handles messages one at a time in the order of arrival", async () => {
    const handled: string[] = [];
    const done = Promise.withResolvers<void>();
    const inbox = createInbox<number>(10, async (delay) => {
      handled.push(`start ${delay}`);
      for (let turn = 0; turn < delay; turn++) await Promise.resolve();
      handled.push(`end ${delay}`);
      if (delay === 1) done.resolve();
    });
    for (const delay of [9, 5, 1]) inbox.push(delay);
    await done.promise;
    expect(handled).toEqual(["start 9", "end 9", "start 5", "end 5", "start 1", "end 1"]);
  });

  it("takes no more than its limit while one is in hand", () => {
    const inbox = createInbox<number>(2, () => new Promise(() => {}));
    expect([1, 2, 3, 4].map((message) => inbox.push(message))).toEqual([true, true, true, false]);
  });

  it("drops what waits when it is closed", async () => {
    const handled: number[] = [];
    const inbox = createInbox<number>(10, async (message) => {
      handled.push(message);
      inbox.close();
    });
    inbox.push(1);
    inbox.push(2);
    await Promise.resolve();
    expect(handled).toEqual([1]);
    expect(inbox.push(3)).toBe(false);
  });
});
