import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { AnswerRefused, createAnswerAssembly } from "./answer-assembly.ts";
import type { ModelAnswer } from "./contract.ts";

const limits = { maxAnswerBytes: 10_000, maxToolCalls: 128 };

/** The answer of a stream whose first choice has these deltas. */
function assemble(...deltas: readonly object[]): ModelAnswer {
  const assembly = createAnswerAssembly(limits);
  for (const delta of deltas) assembly.add({ choices: [{ index: 0, delta }] });
  return assembly.finish();
}

const calls = (...toolCalls: readonly object[]) => ({ tool_calls: toolCalls });

describe("tool calls", () => {
  it("are put together from their pieces", () => {
    const answer = assemble(
      calls({ index: 0, id: "a", type: "function", function: { name: "read", arguments: "" } }),
      calls({ index: 1, id: "b", function: { name: "wri", arguments: '{"x"' } }),
      calls({ index: 0, function: { arguments: "{}" } }, { index: 1, function: { name: "te", arguments: ":1}" } }),
    );
    expect(answer.toolCalls).toEqual([
      { id: "a", name: "read", arguments: "{}" },
      { id: "b", name: "write", arguments: '{"x":1}' },
    ]);
    expect(answer.finishReason).toBe("tool_calls");
  });

  it("are in index order, whatever order they came in", () => {
    expect(
      assemble(
        calls({ index: 2, id: "c", function: { name: "third" } }),
        calls({ index: 0, id: "a", function: { name: "first" } }),
      ).toolCalls.map((call) => call.name),
    ).toEqual(["first", "third"]);
  });

  it("get an id when the server sends none", () => {
    expect(
      assemble(
        calls({ index: 0, function: { name: "one" } }, { index: 1, id: "", function: { name: "two" } }),
        calls({ index: 2, id: "call_1", function: { name: "three" } }),
      ).toolCalls.map((call) => call.id),
    ).toEqual(["call_0", "call_2", "call_1"]);
  });

  it("get ids of their own when two share one", () => {
    expect(
      assemble(
        calls({ index: 0, id: "a", function: { name: "one" } }, { index: 1, id: "a", function: { name: "two" } }),
      ).toolCalls,
    ).toEqual([
      { id: "a", name: "one", arguments: "{}" },
      { id: "call_0", name: "two", arguments: "{}" },
    ]);
  });

  it("are told apart by their id when every one of them is number 0", () => {
    expect(
      assemble(
        calls({ index: 0, id: "a", function: { name: "read", arguments: "{}" } }),
        calls({ index: 0, id: "b", function: { name: "read", arguments: '{"x":' } }),
        calls({ index: 0, function: { arguments: "1}" } }),
      ).toolCalls,
    ).toEqual([
      { id: "a", name: "read", arguments: "{}" },
      { id: "b", name: "read", arguments: '{"x":1}' },
    ]);
  });

  it("are told apart by their id when they have no index", () => {
    expect(
      assemble(
        calls({ id: "a", function: { name: "read", arguments: '{"x":' } }),
        calls({ function: { arguments: "1}" } }),
        calls({ id: "b", function: { name: "write", arguments: "{" } }),
        calls({ id: "b", function: { arguments: "}" } }),
      ).toolCalls,
    ).toEqual([
      { id: "a", name: "read", arguments: '{"x":1}' },
      { id: "b", name: "write", arguments: "{}" },
    ]);
  });

  it("keep their name when the server repeats it with every piece", () => {
    expect(
      assemble(
        calls({ index: 0, id: "a", function: { name: "read", arguments: "{" } }),
        calls({ index: 0, id: "a", function: { name: "read", arguments: "}" } }),
      ).toolCalls,
    ).toEqual([{ id: "a", name: "read", arguments: "{}" }]);
  });

  it("may carry their arguments as an object, or none", () => {
    expect(
      assemble(
        calls({ index: 0, id: "a", function: { name: "read", arguments: { x: 1 } } }),
        calls({ index: 1, id: "b", function: { name: "read", arguments: null } }),
      ).toolCalls.map((call) => call.arguments),
    ).toEqual(['{"x":1}', "{}"]);
  });

  it("keep arguments that are not JSON, or hold a key twice, for the one who runs the tool", () => {
    expect(
      assemble(
        calls({ index: 0, id: "a", function: { name: "read", arguments: '{"x":1,"x":2}' } }),
        calls({ index: 1, id: "b", function: { name: "read", arguments: "__proto__" } }),
      ).toolCalls.map((call) => call.arguments),
    ).toEqual(['{"x":1,"x":2}', "__proto__"]);
  });

  it.each([
    ["a huge index", calls({ index: 4e9, id: "a", function: { name: "x" } }), "the index 4000000000"],
    ["an index at the limit", calls({ index: 128, id: "a", function: { name: "x" } }), "the index 128"],
    ["a negative index", calls({ index: -1, id: "a", function: { name: "x" } }), "the index -1"],
    ["half an index", calls({ index: 0.5, id: "a", function: { name: "x" } }), "the index 0.5"],
    ["an index that is text", calls({ index: "length", id: "a", function: { name: "x" } }), "the index string"],
    ["no list", { tool_calls: { 0: {} } }, "tool_calls that are no list"],
    ["no object", { tool_calls: ["x"] }, "a tool call that is no object"],
    ["no name", calls({ index: 0, id: "a", function: { arguments: "{}" } }), "a tool call without a name"],
    [
      "an endless name",
      calls({ index: 0, id: "a", function: { name: "x".repeat(300) } }),
      "a tool name that is too long",
    ],
    ["arguments of another type", calls({ index: 0, id: "a", function: { name: "x", arguments: 7 } }), "neither text"],
    [
      "10,000 at once",
      {
        tool_calls: Array.from({ length: 10_000 }, (_, index) => ({ index, id: `${index}`, function: { name: "x" } })),
      },
      "more than 128 tool calls",
    ],
  ])("with %s are refused", (_what, delta, says) => {
    expect(() => assemble(delta)).toThrow(AnswerRefused);
    expect(() => assemble(delta)).toThrow(says);
  });

  it("are refused when there are too many, one by one and without an index", () => {
    const deltas = Array.from({ length: 129 }, (_, each) => calls({ id: `${each}`, function: { name: "x" } }));
    expect(() => assemble(...deltas)).toThrow("more than 128 tool calls");
    expect(assemble(...deltas.slice(1)).toolCalls).toHaveLength(128);
  });

  it("are refused when their arguments are too large, or too deep to be written", () => {
    const piece = calls({ index: 0, id: "a", function: { name: "x", arguments: "y".repeat(600) } });
    expect(() => assemble(...Array(17).fill(piece))).toThrow("larger than 10000 bytes");
    const deep: unknown = JSON.parse(`${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`);
    expect(() => assemble(calls({ index: 0, id: "a", function: { name: "x", arguments: deep } }))).toThrow(
      "too deeply",
    );
  });
});

describe("content", () => {
  it("is text, text parts, or a refusal", () => {
    expect(assemble({ content: "a" }, { content: null }, { content: "b" }).content).toBe("ab");
    expect(assemble({ content: [{ type: "text", text: "a" }, { type: "thinking" }, "b"] }).content).toBe("a");
    expect(assemble({ refusal: "I cannot." }).content).toBe("I cannot.");
    expect(assemble({ role: "assistant" }).content).toBeNull();
  });

  it("is refused when it is of another type or too large", () => {
    expect(() => assemble({ content: 7 })).toThrow("neither text nor a list");
    expect(() => assemble({ content: "ü".repeat(5001) })).toThrow("larger than 10000 bytes");
    expect(assemble({ content: "ü".repeat(5000) }).content).toHaveLength(5000);
  });

  it("is that of the first choice alone", () => {
    const assembly = createAnswerAssembly(limits);
    expect(assembly.add({ choices: [{ index: 1, delta: { content: "no" } }] })).toBe("");
    expect(assembly.add({ choices: [{ delta: { content: "yes" } }] })).toBe("yes");
    expect(assembly.finish().content).toBe("yes");
  });
});

describe("the end", () => {
  it.each([
    ["stop", {}, "stop"],
    ["length", {}, "length"],
    ["content_filter", {}, "content_filter"],
    ["function_call", {}, "other"],
    ["eos", {}, "other"],
    ["stop", calls({ index: 0, id: "a", function: { name: "x" } }), "tool_calls"],
    ["length", calls({ index: 0, id: "a", function: { name: "x" } }), "length"],
    ["tool_calls", {}, "stop"],
    [null, {}, "stop"],
  ])("%s with %j is %s", (finish_reason, delta, expected) => {
    const assembly = createAnswerAssembly(limits);
    assembly.add({ choices: [{ index: 0, delta: {}, finish_reason: null }] });
    expect(assembly.finished).toBe(false);
    assembly.add({ choices: [{ index: 0, delta, finish_reason }] });
    expect(assembly.finished).toBe(finish_reason !== null);
    expect(assembly.finish().finishReason).toBe(expected);
  });

  it("brings the usage when it is one", () => {
    const usageOf = (usage: unknown) => {
      const assembly = createAnswerAssembly(limits);
      assembly.add({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }], usage: null });
      assembly.add({ choices: [], usage });
      return assembly.finish().usage;
    };
    expect(usageOf({ prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 })).toEqual({
      inputTokens: 3,
      outputTokens: 4,
    });
    expect(usageOf({ prompt_tokens: -3, completion_tokens: 4 })).toBeUndefined();
    expect(usageOf({ prompt_tokens: "3", completion_tokens: 4 })).toBeUndefined();
    expect(usageOf("many")).toBeUndefined();
  });

  it("without any choice is no answer", () => {
    const assembly = createAnswerAssembly(limits);
    assembly.add({ id: "x", choices: [] });
    expect(() => assembly.finish()).toThrow("holds no choices");
  });
});

it("answers or refuses, whatever is thrown at it", () => {
  const odd = fc.oneof(fc.jsonValue(), fc.constantFrom("__proto__", "constructor", -1, 4e9, 1e308, null));
  const piece = fc.record({ index: odd, id: odd, function: fc.record({ name: odd, arguments: odd }) });
  const delta = fc.record({ content: odd, tool_calls: fc.oneof(fc.array(piece), odd) }, { requiredKeys: [] });
  const choice = fc.record({
    index: odd,
    delta: fc.oneof(delta, odd),
    message: fc.oneof(delta, odd),
    finish_reason: odd,
  });
  const chunk = fc.record({ choices: fc.oneof(fc.array(choice), odd), usage: odd }, { requiredKeys: [] });
  fc.assert(
    fc.property(fc.array(fc.oneof(chunk, odd)), (chunks) => {
      const assembly = createAnswerAssembly(limits);
      try {
        for (const each of chunks) assembly.add(each);
        const answer = assembly.finish();
        expect(new Set(answer.toolCalls.map((call) => call.id)).size).toBe(answer.toolCalls.length);
        for (const call of answer.toolCalls) expect(call.name).not.toBe("");
      } catch (error) {
        expect(error).toBeInstanceOf(AnswerRefused);
      }
    }),
    { numRuns: 500 },
  );
});
