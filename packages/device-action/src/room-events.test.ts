import type { ReplyEnvelope } from "@leafmesh/protocol";
import { RoomError } from "@leafmesh/rooms/contract";
import { describe, expect, it } from "vitest";
import { MAX_REPLY_CHARACTERS } from "./outside-data.ts";
import { envelopeEvent, toAskEvent } from "./room-events.ts";

const reply = (more: Partial<ReplyEnvelope> = {}): ReplyEnvelope => ({
  type: "reply",
  id: "ask_1",
  outcome: "done",
  ...more,
});

describe("what a room says", () => {
  it("is passed on as it concerns the ask", () => {
    const capabilities = [{ name: "read_battery" }];
    expect(toAskEvent({ type: "joined", capabilities }, "ask_1")).toEqual({ type: "joined", capabilities });
    expect(toAskEvent({ type: "refused" }, "ask_1")).toEqual({ type: "connection_refused" });
    expect(toAskEvent({ type: "away", graceMs: 5 }, "ask_1")).toEqual({ type: "away", graceMs: 5 });
    expect(toAskEvent({ type: "back" }, "ask_1")).toEqual({ type: "back" });
    expect(toAskEvent({ type: "left", reason: "lost", delivered: "no" }, "ask_1")).toEqual({
      type: "left",
      delivered: "no",
    });
    const error = new RoomError("plan_limit", "over");
    expect(toAskEvent({ type: "closed", error, delivered: "maybe" }, "ask_1")).toEqual({
      type: "room_closed",
      kind: "plan_limit",
      delivered: "maybe",
    });
  });

  it("about a dropped message matters when that may have been the answer", () => {
    expect(toAskEvent({ type: "dropped", why: "not an envelope" }, "ask_1")).toBeUndefined();
    expect(toAskEvent({ type: "dropped", why: "90 000 bytes", tooLarge: true }, "ask_1")).toEqual({
      type: "oversized",
    });
  });
});

describe("what a device says", () => {
  it("is of this ask, or nothing", () => {
    expect(envelopeEvent({ type: "accepted", id: "ask_1" }, "ask_1")).toEqual({ type: "accepted" });
    expect(envelopeEvent({ type: "accepted", id: "ask_2" }, "ask_1")).toBeUndefined();
    expect(envelopeEvent(reply({ id: "ask_2" }), "ask_1")).toBeUndefined();
    expect(envelopeEvent({ type: "progress", id: "ask_1", pct: 5 }, "ask_1")).toEqual({ type: "progress", pct: 5 });
    expect(envelopeEvent({ type: "refused", reason: "not_allowed" }, "ask_1")).toEqual({ type: "connection_refused" });
  });

  it.each([
    ["no data", undefined, true],
    ["data as large as allowed", "x".repeat(MAX_REPLY_CHARACTERS - 2), true],
    ["data larger than that", "x".repeat(MAX_REPLY_CHARACTERS - 1), false],
    ["data nested too deep", JSON.parse(`${"[".repeat(100)}${"]".repeat(100)}`), false],
    ["data nested absurdly deep", JSON.parse(`${"[".repeat(20_000)}${"]".repeat(20_000)}`), false],
  ])("fits, or does not: %s", (_name, data, fits) => {
    expect(envelopeEvent(reply(data === undefined ? {} : { data }), "ask_1")).toMatchObject({ type: "reply", fits });
  });
});
