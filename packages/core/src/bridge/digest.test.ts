import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { digestOf } from "./digest.ts";

describe("a digest", () => {
  it("is the same for every order of keys, at every depth", () => {
    expect(digestOf({ a: 1, b: [{ d: 3, c: 2 }] })).toBe(digestOf({ b: [{ c: 2, d: 3 }], a: 1 }));
    expect(digestOf([1, 2])).not.toBe(digestOf([2, 1]));
    expect(digestOf({ a: null })).not.toBe(digestOf({}));
    expect(digestOf(JSON.parse('{"__proto__":1}'))).not.toBe(digestOf({}));
  });

  it("exists for everything that JSON can hold", () => {
    expect(digestOf(JSON.parse('{"half":"\\ud800","huge":1e400}'))).toMatch(/^[0-9a-f]{64}$/);
    fc.assert(
      fc.property(fc.json({ stringUnit: "binary" }), (text) => {
        expect(digestOf(JSON.parse(text))).toBe(digestOf(JSON.parse(text)));
      }),
    );
  });
});
