import { describe, expect, it } from "vitest";
import { parseFromDevice, parseFromMesh, parseRoomMember } from "./hosted-room.ts";

describe("what travels in a room", () => {
  it("is read per direction", () => {
    const task = { type: "task", id: "a1", action: "read_battery", inputs: {}, budget_ms: 1000 };
    expect(parseFromMesh(JSON.stringify(task))).toEqual(task);
    expect(parseFromMesh('{"type":"closed","reason":"settled"}')).toEqual({ type: "closed", reason: "settled" });
    expect(parseFromDevice('{"type":"accepted","id":"a1"}')).toEqual({ type: "accepted", id: "a1" });
    expect(parseRoomMember({ v: 1, capabilities: [{ name: "read_battery" }] })).toMatchObject({ v: 1 });
  });

  it("is not taken from the other direction, nor from a later version", () => {
    expect(parseFromMesh('{"type":"reply","id":"a1","outcome":"done"}')).toBeUndefined();
    expect(parseFromDevice('{"type":"cancel","id":"a1","reason":"x"}')).toBeUndefined();
    expect(parseRoomMember({ v: 2 })).toBeUndefined();
    expect(parseRoomMember("joined")).toBeUndefined();
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
    expect(parseFromDevice(text)).toBeUndefined();
    expect(parseFromMesh(text)).toBeUndefined();
  });
});
