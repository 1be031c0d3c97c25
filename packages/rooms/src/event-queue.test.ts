import { describe, expect, it } from "vitest";
import { createEventQueue } from "./event-queue.ts";

async function readAll<Item>(queue: AsyncIterable<Item>): Promise<Item[]> {
  const items: Item[] = [];
  for await (const item of queue) items.push(item);
  return items;
}

describe("an event queue", () => {
  it("gives what was pushed before the reader came, in order", async () => {
    const queue = createEventQueue<number>(8);
    for (const item of [1, 2, 3]) expect(queue.push(item)).toBe(true);
    queue.end();
    expect(await readAll(queue)).toEqual([1, 2, 3]);
  });

  it("gives what is pushed while the reader waits", async () => {
    const queue = createEventQueue<number>(1);
    const reading = readAll(queue);
    for (const item of [1, 2, 3]) {
      await Promise.resolve();
      await Promise.resolve();
      await Promise.resolve();
      expect(queue.push(item)).toBe(true);
    }
    queue.end(4);
    expect(await reading).toEqual([1, 2, 3, 4]);
  });

  it("takes no more than may wait, and never into the past", async () => {
    const queue = createEventQueue<number>(2);
    expect([1, 2, 3].map((item) => queue.push(item))).toEqual([true, true, false]);
    queue.end(9);
    queue.end(10);
    expect(queue.push(4)).toBe(false);
    expect(await readAll(queue)).toEqual([1, 2, 9]);
  });

  it("lets a reader that waits go when it ends", async () => {
    const queue = createEventQueue<number>(2);
    const reading = readAll(queue);
    queue.end();
    expect(await reading).toEqual([]);
    expect(await readAll(queue)).toEqual([]);
  });
});
