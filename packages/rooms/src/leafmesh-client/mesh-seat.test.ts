import { describe, expect, it } from "vitest";
import { RoomError, type RoomEvent } from "../contract.ts";
import { MeshSeat } from "./mesh-seat.ts";

async function eventsOf(use: (seat: MeshSeat) => void): Promise<RoomEvent[]> {
  const seat = new MeshSeat(() => 15_000);
  use(seat);
  seat.finish();
  const events: RoomEvent[] = [];
  for await (const event of seat.events) events.push(event);
  return events;
}

const peer = (state: string, more: object = {}) => ({ type: "peer", seq: 1, state, ...more });
const gone = new RoomError("unavailable", "gone");

describe("presence", () => {
  it("is told once per change, whatever a service repeats", async () => {
    const events = await eventsOf((seat) => {
      const states = ["away", "joined", "joined", "away", "away", "back", "back", "joined", "left", "left", "back"];
      for (const state of states) seat.receive(peer(state));
    });
    expect(events.map(({ type }) => type)).toEqual(["joined", "away", "back", "left"]);
    expect(events[1]).toEqual({ type: "away", graceMs: 15_000 });
  });

  it("carries what the device says it can do", async () => {
    const capabilities = [{ name: "battery.read" }];
    expect(await eventsOf((seat) => seat.receive(peer("joined", { capabilities })))).toEqual([
      { type: "joined", capabilities },
    ]);
  });

  it("knows a refusal, but not from a device that is there", async () => {
    expect(await eventsOf((seat) => seat.receive(peer("refused", { reason: "not_allowed" })))).toEqual([
      { type: "refused" },
    ]);
    const late = await eventsOf((seat) => {
      seat.receive(peer("joined"));
      seat.receive(peer("refused"));
    });
    expect(late.map(({ type }) => type)).toEqual(["joined"]);
  });

  it("says that an answer may have been too large", async () => {
    const events = await eventsOf((seat) => {
      seat.receive(peer("joined"));
      seat.receive(peer("left", { reason: "too_large", handed_seq: 0 }));
    });
    expect(events.slice(1)).toEqual([
      { type: "dropped", why: expect.any(String), tooLarge: true },
      { type: "left", reason: "lost", delivered: "no" },
    ]);
  });
});

describe("what the mesh knows of its task", () => {
  const left = async (sent: boolean, more: object, frames: readonly object[] = []) => {
    const events = await eventsOf((seat) => {
      seat.receive(peer("joined"));
      if (sent) seat.sent(3);
      for (const frame of frames) seat.receive({ type: "", ...frame });
      seat.receive(peer("left", { reason: "lost", ...more }));
    });
    return events.find((event) => event.type === "left");
  };

  it.each([
    ["nothing was sent", false, { handed_seq: 9, acked_seq: 9 }, "no"],
    ["it was not handed over", true, { handed_seq: 2, acked_seq: 0 }, "no"],
    ["it was handed over", true, { handed_seq: 3, acked_seq: 2 }, "maybe"],
    ["it was acknowledged", true, { handed_seq: 3, acked_seq: 3 }, "yes"],
    ["the service does not say", true, {}, "maybe"],
  ])("when %s", async (_name, sent, more, delivered) => {
    expect(await left(sent, more)).toMatchObject({ delivered });
  });

  it("is certain once the device spoke of it, whatever the service says", async () => {
    expect(await left(true, { handed_seq: 0 }, [{ type: "accepted", id: "ask_1", seq: 1 }])).toMatchObject({
      delivered: "yes",
    });
  });

  it("at the end of a room that the device never entered is that it did not go", async () => {
    const [event] = await eventsOf((seat) => {
      seat.sent(1);
      expect(seat.deliveredSoFar()).toBe("maybe");
      seat.end(gone);
    });
    expect(event).toEqual({ type: "closed", error: gone, delivered: "no" });
  });

  it("is that it did not go when the service refused it", async () => {
    const events = await eventsOf((seat) => {
      seat.receive(peer("joined"));
      seat.sent(1);
      seat.refused("rate", undefined);
      seat.refused("unknown_task", 2);
      seat.refused("too_large", 1);
    });
    expect(events[1]).toMatchObject({ type: "closed", delivered: "no", error: { kind: "too_big", code: "too_large" } });
  });
});

describe("frames of the device", () => {
  it("are passed on without their numbers, and after the reply none", async () => {
    const events = await eventsOf((seat) => {
      seat.receive({ type: "accepted", id: "ask_1", seq: 1, extra: 1 } as { type: string });
      seat.receive({ type: "reply", id: "ask_1", seq: 2, outcome: "done", data: { a: [1] } } as { type: string });
      seat.receive({ type: "reply", id: "ask_1", seq: 3, outcome: "failed" } as { type: string });
    });
    expect(events).toEqual([
      { type: "frame", envelope: { type: "accepted", id: "ask_1" } },
      { type: "frame", envelope: { type: "reply", id: "ask_1", outcome: "done", data: { a: [1] } } },
    ]);
  });

  it.each([
    ["an outcome that is not the device's to find", { type: "reply", id: "ask_1", outcome: "unreachable" }],
    ["an id that is none", { type: "accepted", id: "no id" }],
    ["a task", { type: "task", id: "ask_1", action: "x", inputs: {}, budget_ms: 1 }],
    ["presence that is none", { type: "peer", seq: 1, state: "asleep" }],
  ])("are dropped when they hold %s", async (_name, frame) => {
    expect(await eventsOf((seat) => seat.receive(frame))).toEqual([{ type: "dropped", why: expect.any(String) }]);
  });

  it("end the room when they flood it", async () => {
    const events = await eventsOf((seat) => {
      for (let note = 0; note < 10_000; note++)
        seat.receive({ type: "progress", id: "ask_1", seq: 1 } as { type: string });
    });
    expect(events.length).toBeLessThan(1000);
    expect(events.at(-1)).toMatchObject({ type: "closed", error: { code: "flood" }, delivered: "no" });
  });
});
