import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { hashToken, tokensMatch } from "./tokens.ts";

describe("a token", () => {
  it("is stored as its SHA-256 in hex", () => {
    expect(hashToken("abc")).toBe("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect(hashToken("ü")).toBe(hashToken("\u00fc"));
  });

  it("matches itself and nothing else, of whatever length", () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (left, right) => {
        expect(tokensMatch(left, left)).toBe(true);
        expect(tokensMatch(left, right)).toBe(left === right);
      }),
    );
    expect(tokensMatch("", "x".repeat(100_000))).toBe(false);
    expect(tokensMatch("token", "token\0")).toBe(false);
    const token = randomBytes(16).toString("base64url");
    expect(tokensMatch(token, token.slice(0, -1))).toBe(false);
  });
});
