import { describe, expect, it } from "vitest";
import { DeviceQueue } from "./device-queue.ts";

function waiter(name: string, turns: string[]) {
  return { turnCame: () => void turns.push(name) };
}

describe("a queue for each device", () => {
  it("gives turns in order, one at a time, and one for each key at once", () => {
    const queue = new DeviceQueue();
    const turns: string[] = [];
    const [first, second, third, other] = ["first", "second", "third", "other"].map((name) => waiter(name, turns));
    if (!first || !second || !third || !other) throw new Error("unreachable");
    queue.enter("a", first);
    queue.enter("a", second);
    queue.enter("a", third);
    queue.enter("b", other);
    expect(turns).toEqual(["first", "other"]);
    queue.leave("a", first);
    expect(turns).toEqual(["first", "other", "second"]);
    queue.leave("a", second);
    queue.leave("a", third);
    expect(turns).toEqual(["first", "other", "second", "third"]);
  });

  it("keeps the place of one that is not ready yet, and gives it away when that one leaves", () => {
    const queue = new DeviceQueue();
    const turns: string[] = [];
    const slow = waiter("slow", turns);
    const gone = waiter("gone", turns);
    const last = waiter("last", turns);
    for (const each of [slow, gone, last]) queue.keepPlace("a", each);
    queue.enter("a", last);
    expect(turns).toEqual([]);
    queue.enter("a", slow);
    expect(turns).toEqual(["slow"]);
    queue.leave("a", slow);
    expect(turns).toEqual(["slow"]);
    queue.leave("a", gone);
    expect(turns).toEqual(["slow", "last"]);
  });

  it("passes over one that gave up while it waited", () => {
    const queue = new DeviceQueue();
    const turns: string[] = [];
    const first = waiter("first", turns);
    const impatient = waiter("impatient", turns);
    const third = waiter("third", turns);
    for (const each of [first, impatient, third]) queue.enter("a", each);
    queue.leave("a", impatient);
    queue.leave("a", impatient);
    queue.leave("a", first);
    expect(turns).toEqual(["first", "third"]);
  });

  it("is empty again when all have left", () => {
    const queue = new DeviceQueue();
    const turns: string[] = [];
    const first = waiter("first", turns);
    queue.leave("a", first);
    queue.enter("a", first);
    queue.leave("a", first);
    queue.enter("a", waiter("again", turns));
    expect(turns).toEqual(["first", "again"]);
  });
});
