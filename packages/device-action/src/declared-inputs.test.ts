import { describe, expect, it } from "vitest";
import { findInputProblems } from "./declared-inputs.ts";

const LEVEL = {
  type: "object",
  properties: { level: { type: "integer", minimum: 0, maximum: 100 }, mode: { enum: ["ring", "media"] } },
  required: ["level"],
  additionalProperties: false,
};

describe("inputs against what a device declared", () => {
  it.each([
    [LEVEL, { level: 3 }],
    [LEVEL, { level: 3, mode: "ring" }],
    [{}, { anything: [1, 2] }],
    [{ type: "object", properties: { to: { type: "string", format: "email" } } }, { to: "not an address" }],
  ])("lets pass what fits: %o %o", async (schema, inputs) => {
    expect(await findInputProblems(schema, inputs)).toBeUndefined();
  });

  it.each([
    [LEVEL, {}, "required"],
    [LEVEL, { level: "3" }, "#/level"],
    [LEVEL, { level: 101 }, "#/level"],
    [LEVEL, { level: 1, louder: true }, "#/louder"],
    [LEVEL, { level: 1, mode: "alarm" }, "#/mode"],
    [{ oneOf: [{ required: ["a"] }, { required: ["b"] }] }, { a: 1, b: 2 }, "oneOf"],
    [{ type: "object", properties: { a: false } }, { a: 1 }, "#/a"],
    [
      { type: "object", properties: { list: { type: "array", items: { type: "string" } } } },
      { list: ["a", 1] },
      "#/list/1",
    ],
  ])("says what does not fit: %o %o", async (schema, inputs, place) => {
    const problems = await findInputProblems(schema, inputs);
    expect(problems).toContain(place.startsWith("#") ? place : "problem");
    expect(JSON.parse(problems ?? "")).toBeInstanceOf(Array);
  });

  it("checks the rest of a schema that has regular expressions", async () => {
    const schema = { type: "object", properties: { n: { type: "string", pattern: "^(a+)+$", maxLength: 5 } } };
    expect(await findInputProblems(schema, { n: "!" })).toBeUndefined();
    expect(await findInputProblems(schema, { n: "aaaaaa" })).toContain("#/n");
  });

  it.each([
    ["a reference", { $ref: "https://example.com/schema.json" }],
    ["a local reference", { $defs: { a: {} }, properties: { a: { $ref: "#/$defs/a" } } }],
    ["names by regular expression", { patternProperties: { "^a": { type: "number" } }, additionalProperties: false }],
    ["a regular expression that is negated", { properties: { a: { not: { pattern: "x" } } } }],
    ["a keyword of the wrong type", { properties: { a: 5 } }],
    ["a value that no draft allows", { required: 5 }],
  ])("leaves a schema with %s to the device", async (_name, schema) => {
    expect(await findInputProblems(schema, { a: "b" })).toBeUndefined();
  });

  it("is not held up by what was made to hold it up", async () => {
    const laughs = Object.fromEntries(
      Array.from({ length: 30 }, (_, n) => [
        `a${n}`,
        { anyOf: [{ $ref: `#/$defs/a${n + 1}` }, { $ref: `#/$defs/a${n + 1}` }] },
      ]),
    );
    const startedAt = performance.now();
    await findInputProblems({ $defs: laughs, $ref: "#/$defs/a0" }, { a: "b" });
    await findInputProblems({ properties: { a: { pattern: "^(a+)+$" } } }, { a: `${"a".repeat(40)}!` });
    await findInputProblems(JSON.parse(`${'{"not":'.repeat(5_000)}{}${"}".repeat(5_000)}`), {});
    await findInputProblems(
      { properties: { a: { uniqueItems: true } } },
      { a: Array.from({ length: 100_000 }, (_, n) => n) },
    );
    expect(performance.now() - startedAt).toBeLessThan(2_000);
  });

  it("takes names from outside as they are", async () => {
    const schema = JSON.parse(
      '{"type":"object","properties":{"__proto__":{"type":"number"}},"additionalProperties":false}',
    );
    expect(await findInputProblems(schema, JSON.parse('{"__proto__":1}'))).toBeUndefined();
    expect(({} as Record<string, unknown>).type).toBeUndefined();
  });
});
