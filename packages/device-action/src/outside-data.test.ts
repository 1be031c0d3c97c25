import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isWithinDepth, quote, shorten } from "./outside-data.ts";

const HIDDEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Variation_Selector}]/u;

describe("quote", { timeout: 30_000 }, () => {
  it("gives JSON that parses back and shows everything that is in it", () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: "binary" }), (value) => {
        const text = quote(value);
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
        expect(text).not.toMatch(HIDDEN);
      }),
      { numRuns: 2_000 },
    );
  });

  it.each([
    ["a NUL and an escape sequence", "\u0000\u001b[2J", '"\\u0000\\u001b[2J"'],
    ["a tag character", "a\u{E0041}b", '"a\\udb40\\udc41b"'],
    ["a text direction", "\u202eabc", '"\\u202eabc"'],
    ["a zero-width space", "a\u200bb", '"a\\u200bb"'],
    ["a line separator", "a\u2028b", '"a\\u2028b"'],
    ["half a character", "\ud800", '"\\ud800"'],
    ["a filler that shows as nothing", "\u3164", '"\\u3164"'],
  ])("escapes %s", (_name, text, quoted) => {
    expect(quote(text)).toBe(quoted);
  });

  it("leaves what people write as it is", () => {
    expect(quote("Grüße, 世界 🙂")).toBe('"Grüße, 世界 🙂"');
  });
});

describe("shorten", () => {
  it("keeps short text and marks a cut", () => {
    expect(shorten("abc", 3)).toBe("abc");
    expect(shorten("abcd", 3)).toBe("ab…");
  });

  it("does not cut a character in two, and is never longer than asked for", () => {
    expect(shorten("🙂🙂", 4)).toBe("🙂🙂");
    expect(shorten("🙂🙂🙂", 5)).toBe("🙂🙂…");
    expect(shorten("🙂🙂🙂", 4)).toBe("🙂…");
  });
});

describe("isWithinDepth", () => {
  const nested = (levels: number): unknown => JSON.parse(`${"[".repeat(levels)}${"]".repeat(levels)}`);

  it("counts levels of arrays and objects", () => {
    expect(isWithinDepth("x", 0)).toBe(true);
    expect(isWithinDepth(nested(64), 64)).toBe(true);
    expect(isWithinDepth({ a: { b: 1 } }, 1)).toBe(false);
  });

  it("does not fall over what is far too deep", () => {
    expect(isWithinDepth(nested(100_000), 64)).toBe(false);
  });
});
