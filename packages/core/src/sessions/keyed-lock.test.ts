import { describe, expect, it } from "vitest";
import { KeyedLock } from "./keyed-lock.ts";

describe("KeyedLock", () => {
  it("runs work of one key in order of arrival, one at a time, and other keys beside it", async () => {
    const lock = new KeyedLock();
    const order: string[] = [];
    const gate = Promise.withResolvers<void>();
    const first = lock.run("a", async () => {
      await gate.promise;
      order.push("a1");
      return 1;
    });
    const second = lock.run("a", async () => {
      order.push("a2");
      return 2;
    });
    await lock.run("b", async () => order.push("b"));
    gate.resolve();
    expect(await Promise.all([first, second])).toEqual([1, 2]);
    expect(order).toEqual(["b", "a1", "a2"]);
  });

  it("goes on after work that failed, and gives its failure to the caller alone", async () => {
    const lock = new KeyedLock();
    const failed = lock.run("a", () => Promise.reject(new Error("no")));
    const next = lock.run("a", async () => "yes");
    await expect(failed).rejects.toThrow("no");
    expect(await next).toBe("yes");
  });
});
