import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createSealer, SealError } from "./sealer.ts";

const sealer = createSealer(new Uint8Array(32).fill(7));
const CONTEXT = "push_token:ses_1:phone-7";

const codeOf = (run: () => unknown): string => {
  try {
    run();
  } catch (error) {
    if (error instanceof SealError) return error.code;
    throw error;
  }
  return "opened";
};

describe("a sealer", () => {
  it("opens what it sealed, text and bytes of any kind", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), fc.uint8Array(), fc.string(), (text, bytes, context) => {
        expect(sealer.open(sealer.seal(text, context), context)).toBe(text);
        expect([...sealer.open(sealer.seal(bytes, context), context)]).toEqual([...bytes]);
      }),
    );
  });

  it("never gives the same sealed value twice, and shows nothing of the plain one", () => {
    const plain = "token-that-must-not-show";
    const sealed = Array.from({ length: 100 }, () => sealer.seal(plain, CONTEXT));
    expect(new Set(sealed).size).toBe(100);
    for (const text of sealed) {
      expect(text).toMatch(/^[A-Za-z0-9_-]+$/);
      expect(Buffer.from(text, "base64url").includes("token-that")).toBe(false);
    }
  });

  it("has a format of its own: version, key id, nonce, ciphertext, tag", () => {
    const sealed = sealer.seal(new Uint8Array(10), CONTEXT);
    expect(sealed).toHaveLength(1 + 4 + 12 + 10 + 16);
    expect(sealed[0]).toBe(1);
    expect(sealed.slice(1, 5)).toEqual(sealer.seal(new Uint8Array(1), "other").slice(1, 5));
  });

  it("opens a value that an earlier release sealed", () => {
    const sealed = "AXA42kBtRbqW9O1VzYWXZIchFJrMHY8pOAiKdOK43gk_UMsTsI8LwNcmssT_a1O5xNtsgWZY7w";
    expect(sealer.open(sealed, CONTEXT)).toBe("a push token of an app");
  });

  it("does not open a value for another place", () => {
    const sealed = sealer.seal("token", CONTEXT);
    for (const context of ["push_token:ses_1:phone-8", "push_token:ses_2:phone-7", "", `${CONTEXT} `]) {
      expect(codeOf(() => sealer.open(sealed, context))).toBe("altered");
    }
  });

  it("notices every changed bit", () => {
    const sealed = sealer.seal(new TextEncoder().encode("token"), CONTEXT);
    for (let bit = 0; bit < sealed.length * 8; bit++) {
      const changed = sealed.slice();
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      expect(
        codeOf(() => sealer.open(changed, CONTEXT)),
        `bit ${bit}`,
      ).not.toBe("opened");
    }
  });

  it("notices every missing or additional byte", () => {
    const sealed = sealer.seal(new TextEncoder().encode("token"), CONTEXT);
    for (let length = 0; length < sealed.length; length++) {
      expect(codeOf(() => sealer.open(sealed.slice(0, length), CONTEXT))).not.toBe("opened");
    }
    expect(codeOf(() => sealer.open(new Uint8Array([...sealed, 0]), CONTEXT))).toBe("altered");
    for (const text of ["", "token", "@@@@", "x".repeat(100)]) {
      expect(codeOf(() => sealer.open(text, CONTEXT))).toBe("not_sealed");
    }
  });

  it("says that a value was sealed with another key, without a word of the value", () => {
    const sealed = createSealer(randomBytes(32)).seal("the-token", CONTEXT);
    expect(codeOf(() => sealer.open(sealed, CONTEXT))).toBe("other_key");
    expect(() => sealer.open(sealed, CONTEXT)).toThrow(
      `the sealed value "${CONTEXT}" was sealed with another secret key; start with the key that the data was written with`,
    );
  });

  it("takes a key of 32 bytes and no other", () => {
    for (const length of [0, 16, 31, 33, 64]) expect(() => createSealer(new Uint8Array(length))).toThrow(RangeError);
  });
});
