import { describe, expect, it } from "vitest";
import { createOutbox } from "./outbox.ts";

describe("createOutbox", () => {
  it("numbers frames from 1 without gaps", () => {
    const outbox = createOutbox();
    expect(JSON.parse(outbox.add({ type: "accepted", id: "ask_1" }))).toEqual({
      type: "accepted",
      id: "ask_1",
      seq: 1,
    });
    expect(JSON.parse(outbox.add({ type: "reply", id: "ask_1", outcome: "done" }))).toMatchObject({ seq: 2 });
    expect(outbox.lastSeq).toBe(2);
  });

  it("keeps what is not acknowledged, in order", () => {
    const outbox = createOutbox();
    const [first, second, third] = [1, 2, 3].map((pct) => outbox.add({ type: "progress", id: "ask_1", pct }));
    expect(outbox.unacknowledged()).toEqual([first, second, third]);
    expect(outbox.acknowledge(2)).toBe(true);
    expect(outbox.unacknowledged()).toEqual([third]);
    expect(outbox.ackedSeq).toBe(2);
  });

  it("is not set back by an older receipt", () => {
    const outbox = createOutbox();
    outbox.add({ type: "accepted", id: "ask_1" });
    outbox.acknowledge(1);
    expect(outbox.acknowledge(0)).toBe(true);
    expect(outbox.ackedSeq).toBe(1);
  });

  it("tells a receipt for a frame that was never sent", () => {
    expect(createOutbox().acknowledge(1)).toBe(false);
  });
});
