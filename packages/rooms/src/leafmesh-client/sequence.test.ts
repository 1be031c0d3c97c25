import { describe, expect, it } from "vitest";
import { Sequence } from "./sequence.ts";

describe("Sequence", () => {
  it("numbers what goes out and keeps it until it is stored", () => {
    const sequence = new Sequence();
    expect(sequence.add({ type: "task" })).toEqual({ type: "task", seq: 1 });
    sequence.add({ type: "cancel" });
    sequence.add({ type: "cancel" });
    sequence.stored(1);
    expect(sequence.unstored(1).map(({ seq }) => seq)).toEqual([2, 3]);
    expect(sequence.unstored(3)).toEqual([]);
    sequence.stored(1);
    expect(sequence.add({ type: "cancel" }).seq).toBe(4);
  });

  it("takes each number once and notices a gap", () => {
    const sequence = new Sequence();
    expect([1, 2, 2, 1, 4, 3].map((seq) => sequence.take(seq))).toEqual([
      "new",
      "new",
      "repeat",
      "repeat",
      "gap",
      "new",
    ]);
    expect(sequence.received).toBe(3);
  });

  it("counts from 1 what comes to a seat that was taken anew, and goes on with what goes out", () => {
    const sequence = new Sequence();
    sequence.take(1);
    sequence.add({ type: "task" });
    sequence.startAnew(1);
    expect(sequence.take(1)).toBe("new");
    expect(sequence.add({ type: "cancel" }).seq).toBe(2);
    const restarted = new Sequence();
    restarted.startAnew(5);
    expect(restarted.add({ type: "cancel" }).seq).toBe(6);
  });
});
