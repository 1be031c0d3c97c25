import { describe, expect, it } from "vitest";
import { bindDeviceTools, parseDeclaration } from "./declarations.ts";

const good = { tool_id: "device_a", description: "A", parameters: {} };
const problemsOf = (value: unknown) => {
  const parsed = parseDeclaration(value);
  return parsed.ok ? [] : parsed.problems.map(({ field, message }) => `${field}: ${message}`);
};

describe("an entry of device_tools", () => {
  it.each(["device_a", `device_${"x".repeat(48)}`, "device_9_", "device__"])("may be named %s", (tool_id) => {
    expect(parseDeclaration([{ ...good, tool_id }])).toMatchObject({ ok: true });
  });

  it.each([
    "device_",
    "device_A",
    "device_a-b",
    "device_a b",
    `device_${"x".repeat(49)}`,
    "send_sms",
    "xdevice_a",
    "device_a\n",
    "device_ä",
    "",
    7,
    null,
  ])("may not be named %j", (tool_id) => {
    expect(problemsOf([{ ...good, tool_id }])).toMatchObject([
      expect.stringMatching(/^context\.device_tools\.0\.tool_id: /),
    ]);
  });

  it("may not take the name of the mesh's own tool", () => {
    expect(problemsOf([{ ...good, tool_id: "device_action" }])).toEqual([
      "context.device_tools.0.tool_id: device_action is a tool of the mesh itself",
    ]);
  });

  it.each([["  \n"], [""], [undefined], [5]])("is not described by %j", (description) => {
    expect(problemsOf([{ ...good, description }])).toHaveLength(1);
  });

  it("has an object of parameters, whose type may be left out but is object", () => {
    expect(problemsOf([{ ...good, parameters: { type: "object" } }])).toEqual([]);
    expect(problemsOf([{ ...good, parameters: { type: "string" } }])).toEqual([
      'context.device_tools.0.parameters.type: must be "object" when it is there',
    ]);
    for (const parameters of [null, [], "x", undefined]) expect(problemsOf([{ ...good, parameters }])).toHaveLength(1);
  });

  it("keeps its schema with no change at all", () => {
    const parameters = {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      properties: { b: { enum: [1, null, "x"] }, a: { $ref: "#/$defs/z" } },
      $defs: { z: { type: ["string", "null"], default: "" } },
      additionalProperties: false,
      "x-ours": { deep: [[{}]] },
    };
    const parsed = parseDeclaration([{ ...good, parameters }]);
    expect(JSON.stringify(parsed.ok && parsed.tools[0]?.parameters)).toBe(JSON.stringify(parameters));
  });

  it("with a fourth key is malformed", () => {
    expect(problemsOf([{ ...good, strict: true }])).toEqual(["context.device_tools.0.strict: unknown field"]);
  });
});

describe("a declaration", () => {
  it("that is not an array is refused", () => {
    for (const value of [null, {}, "x", 5]) {
      expect(problemsOf(value)).toEqual(["context.device_tools: must be an array"]);
    }
  });

  it("with one tool_id twice is refused, and says duplicate", () => {
    expect(problemsOf([good, { ...good, description: "again" }])).toEqual([
      "context.device_tools.1.tool_id: duplicate: device_a is declared twice",
    ]);
  });

  it("names its limits: 64 tools, 16 KiB a schema, 256 KiB in all", () => {
    const many = (count: number, filler = "") =>
      Array.from({ length: count }, (_, index) => ({ ...good, tool_id: `device_${index}`, description: `A${filler}` }));
    expect(problemsOf(many(64))).toEqual([]);
    expect(problemsOf(many(65))).toEqual(["context.device_tools: has 65 tools; at most 64 may be declared"]);
    expect(problemsOf(many(20, "x".repeat(15_000)))).toEqual([
      "context.device_tools: is larger than 262144 bytes of JSON",
    ]);
    expect(problemsOf([{ ...good, parameters: { title: "x".repeat(17_000) } }])).toEqual([
      "context.device_tools.0.parameters: is larger than 16384 bytes of JSON",
    ]);
  });
});

describe("the tools of a run", () => {
  const stored = { device_tools: [good] };
  it("are those of the message when its context has the key, and the stored ones when it has not", () => {
    const other = { ...good, tool_id: "device_b" };
    expect(bindDeviceTools({ device_tools: [other] }, stored)).toEqual({ status: "bound", tools: [other] });
    expect(bindDeviceTools({ locale: "de" }, stored)).toEqual({ status: "bound", tools: [good] });
    expect(bindDeviceTools(undefined, stored)).toEqual({ status: "bound", tools: [good] });
    expect(bindDeviceTools({ device_tools: [] }, stored)).toEqual({ status: "bound", tools: undefined });
    expect(bindDeviceTools(undefined, {})).toEqual({ status: "bound", tools: undefined });
    expect(bindDeviceTools(undefined, undefined)).toEqual({ status: "bound", tools: undefined });
  });

  it("are refused when wrong in the message, and dropped when wrong in the store", () => {
    const wrong = { device_tools: [good, { ...good, tool_id: "x" }] };
    expect(bindDeviceTools(wrong, stored)).toMatchObject({ status: "refused" });
    expect(bindDeviceTools(undefined, wrong)).toMatchObject({ status: "dropped" });
    expect(bindDeviceTools({ device_tools: null }, stored)).toMatchObject({ status: "refused" });
    expect(bindDeviceTools(undefined, { device_tools: "none" })).toMatchObject({ status: "dropped" });
  });
});
