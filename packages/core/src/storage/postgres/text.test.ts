import fc from "fast-check";
import { expect, it } from "vitest";
import { fromDatabaseText, toDatabaseText } from "./text.ts";

it("brings back any text, and never writes NUL", () => {
  const special = fc.string({ unit: fc.constantFrom("\0", "\x1a", "0", "a", "é") });
  fc.assert(
    fc.property(fc.oneof(special, fc.string()), (text) => {
      const written = toDatabaseText(text);
      expect(written).not.toContain("\0");
      expect(fromDatabaseText(written)).toBe(text);
    }),
  );
});

it("leaves ordinary text as it is", () => {
  expect(toDatabaseText("Grüße 0 \n")).toBe("Grüße 0 \n");
});
