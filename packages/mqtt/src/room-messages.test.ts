import { describe, expect, it } from "vitest";
import { parseDown, parsePresence, parseUp } from "./room-messages.ts";

describe("what travels in a room", () => {
  it("is read per topic", () => {
    const task = { type: "task", id: "a1", action: "read_battery", inputs: {}, budget_ms: 1000 };
    expect(parseDown(JSON.stringify(task))).toEqual(task);
    expect(parseDown('{"type":"closed","reason":"settled"}')).toEqual({ type: "closed", reason: "settled" });
    expect(parseUp('{"type":"accepted","id":"a1"}')).toEqual({ type: "accepted", id: "a1" });
    expect(parsePresence('{"type":"left","reason":"lost"}')).toEqual({ type: "left", reason: "lost" });
    expect(parsePresence('{"type":"joined","capabilities":[{"name":"read_battery"}]}')).toMatchObject({
      type: "joined",
    });
  });

  it("does not take a message of the other direction", () => {
    expect(parseDown('{"type":"reply","id":"a1","outcome":"done"}')).toBeUndefined();
    expect(parseUp('{"type":"cancel","id":"a1","reason":"x"}')).toBeUndefined();
    expect(parsePresence('{"type":"accepted","id":"a1"}')).toBeUndefined();
  });

  it.each([
    ["no JSON", "{"],
    ["a bare value", "null"],
    ["an unknown type", '{"type":"reboot"}'],
    ["a missing field", '{"type":"reply","id":"a1"}'],
    [
      "nesting without end",
      `{"type":"reply","id":"a1","outcome":"done","data":${"[".repeat(30_000)}${"]".repeat(30_000)}}`,
    ],
  ])("drops %s", (_case, text) => {
    expect(parseUp(text)).toBeUndefined();
    expect(parseDown(text)).toBeUndefined();
    expect(parsePresence(text)).toBeUndefined();
  });
});
