import { describe, expect, it } from "vitest";
import { createEventQueue } from "./event-queue.ts";

async function readAll<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const read: Item[] = [];
  for await (const item of items) read.push(item);
  return read;
}

describe("createEventQueue", () => {
  it("hands items on in order, those pushed before reading and those after", async () => {
    const queue = createEventQueue<number>(10);
    queue.push(1);
    const reading = readAll(queue);
    await Promise.resolve();
    queue.push(2);
    queue.push(3);
    queue.end();
    expect(await reading).toEqual([1, 2, 3]);
  });

  it("refuses what does not fit", () => {
    const queue = createEventQueue<number>(2);
    expect([queue.push(1), queue.push(2), queue.push(3)]).toEqual([true, true, false]);
  });

  it("gives the last item even when it is full, once, and nothing after it", async () => {
    const queue = createEventQueue<string>(1);
    queue.push("first");
    queue.end("last");
    queue.end("again");
    expect(queue.push("late")).toBe(false);
    expect(await readAll(queue)).toEqual(["first", "last"]);
  });
});
