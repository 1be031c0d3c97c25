import { describe, expect, it } from "vitest";
import type { Tool } from "../tools/contract.ts";
import { call, done, tool } from "./testing/index.ts";
import { planCalls } from "./tool-plan.ts";

const look = tool("look", () => done("seen"));
const touch = tool("touch", () => done("felt"));
const tools = new Map<string, Tool>([look, touch].map((each) => [each.definition.name, each]));
const refusalOf = (name: string, args: string, known = tools) => {
  const [planned] = planCalls([call(name, args)], known, 0, 10);
  return planned?.kind === "refuse" ? planned.error : planned;
};

describe("planCalls", () => {
  it("executes a known tool with the parsed arguments, none at all counting as none", () => {
    const plan = planCalls([call("look", { at: "x" }), call("touch", " ")], tools, 0, 10);
    expect(plan).toMatchObject([
      { kind: "execute", position: 0, tool: look, arguments: { at: "x" } },
      { kind: "execute", position: 1, tool: touch, arguments: {} },
    ]);
  });

  it("tells the model which tools there are when it names another", () => {
    expect(refusalOf("lock", "{}")).toBe('There is no tool named "lock". Your tools: look, touch.');
    expect(refusalOf("lock", "{}", new Map())).toBe('There is no tool named "lock". You have no tools.');
    expect(refusalOf(`x"${"y".repeat(5_000)}`, "{}")).toHaveLength(
      'There is no tool named "". Your tools: look, touch.'.length + 81,
    );
  });

  it("tells the model what is wrong with its arguments", () => {
    expect(refusalOf("look", '{"at":')).toMatch(
      /^The arguments are not JSON \(.+\)\. Send one JSON object .* of look\.$/,
    );
    for (const args of ["[1]", '"text"', "7", "null"]) expect(refusalOf("look", args)).toMatch(/not a JSON object/);
    expect(refusalOf("look", `${'{"a":'.repeat(65)}1${"}".repeat(65)}`)).toMatch(/nest deeper than 64 levels/);
    expect(refusalOf("look", `${'{"a":'.repeat(64)}1${"}".repeat(64)}`)).toMatchObject({ kind: "execute" });
  });

  it("refuses what goes beyond the limit, counting what came before", () => {
    const three = [call("look"), call("look"), call("look")];
    expect(planCalls(three, tools, 2, 4).map(({ kind }) => kind)).toEqual(["execute", "execute", "refuse"]);
    expect(planCalls(three, tools, 2, 4)[2]).toMatchObject({
      error: "Not executed: one message may lead to 4 tool calls and they are used up. Answer with what you have.",
      arguments: {},
    });
  });

  it("keeps a __proto__ of the arguments an ordinary key", () => {
    const [planned] = planCalls([call("look", '{"__proto__":{"polluted":true}}')], tools, 0, 1);
    const given: Record<string, unknown> = { ...planned?.arguments };
    expect(Object.hasOwn(given, "__proto__")).toBe(true);
    expect(given.polluted).toBeUndefined();
  });
});
