import { describe, expect, it } from "vitest";
import { parseFrame } from "./frames.ts";

const parse = (frame: unknown) => parseFrame(JSON.stringify(frame));

describe("parseFrame", () => {
  it.each([
    ["hello", { type: "hello", v: 1, token: "t" }, "hello"],
    ["ack", { type: "ack", seq: 0 }, "seat"],
    ["leave", { type: "leave" }, "seat"],
    ["cancel", { type: "cancel", seq: 1, id: "a", reason: "r" }, "seat"],
    ["ping", { type: "ping", n: 1 }, "control"],
    ["pong", { type: "pong" }, "control"],
  ])("knows %s", (_name, frame, kind) => {
    expect(parse(frame)).toEqual({ kind, frame });
  });

  it("keeps what it does not know inside a frame", () => {
    const frame = { type: "reply", seq: 3, id: "a", outcome: "done", data: { deep: [1, { x: null }] }, extra: true };
    expect(parse(frame)).toEqual({ kind: "seat", frame });
  });

  it("ignores extensions and refuses unknown types", () => {
    expect(parse({ type: "x-trace", anything: 1 })).toEqual({ kind: "extension" });
    expect(parse({ type: "welcome" })).toMatchObject({ kind: "malformed" });
    expect(parse({ type: "constructor" })).toMatchObject({ kind: "malformed" });
  });

  it.each([
    ["text", "nonsense"],
    ["an array", "[]"],
    ["null", "null"],
    ["no type", '{"seq":1}'],
    ["a sequence of 0", '{"type":"accepted","seq":0,"id":"a"}'],
    ["a fraction", '{"type":"accepted","seq":1.5,"id":"a"}'],
    ["an id with a space", '{"type":"accepted","seq":1,"id":"a b"}'],
    ["inputs that are no object", '{"type":"task","seq":1,"id":"a","action":"x","inputs":[],"budget_ms":1}'],
    ["an outcome that only the mesh can find", '{"type":"reply","seq":1,"id":"a","outcome":"unreachable"}'],
    ["deep nesting", `{"type":"reply","seq":1,"id":"a","outcome":"done","data":${"[".repeat(30_000)}`],
  ])("refuses %s", (_name, text) => {
    expect(parseFrame(text)).toMatchObject({ kind: "malformed" });
  });

  it("does not let a frame change the prototype of anything", () => {
    const parsed = parseFrame('{"type":"reply","seq":1,"id":"a","outcome":"done","__proto__":{"polluted":1}}');
    expect(parsed.kind).toBe("seat");
    expect(Reflect.get({}, "polluted")).toBeUndefined();
  });
});
