import { describe, expect, it } from "vitest";
import { parsePresence } from "./room-messages.ts";

describe("presence in a room", () => {
  it("is a join or a goodbye", () => {
    expect(parsePresence('{"type":"left","reason":"lost"}')).toEqual({ type: "left", reason: "lost" });
    expect(parsePresence('{"type":"joined","capabilities":[{"name":"read_battery"}]}')).toMatchObject({
      type: "joined",
    });
  });

  it.each([
    ["an envelope", '{"type":"accepted","id":"a1"}'],
    ["no JSON", "{"],
    ["a bare value", "null"],
    ["an unknown type", '{"type":"reboot"}'],
  ])("is not %s", (_case, text) => {
    expect(parsePresence(text)).toBeUndefined();
  });
});
