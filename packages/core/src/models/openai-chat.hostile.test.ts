import { type Fault, startOpenAIServer } from "@leafmesh/testkit";
import { expect, it } from "vitest";
import { ask, chatRequest, createTestModel } from "./test-support.ts";

const chunk = (delta: object): string => `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`;
const toolCall = (index: number, text: string) => ({
  tool_calls: [{ index, id: `${index}`, function: { name: "x", arguments: text } }],
});

function* forever(text: string): Generator<string> {
  for (;;) yield text;
}

function* everMoreCalls(): Generator<string> {
  for (let id = 0; ; id++) yield chunk({ tool_calls: [{ id: `${id}`, function: { name: "x" } }] });
}

const KIBIBYTE = 1024;
const MEBIBYTE = 1024 * KIBIBYTE;
const mostMemoryMb = 200;
const limits = { maxAnswerBytes: MEBIBYTE, maxToolCalls: 128 };

it.each<[string, Iterable<string>, string]>([
  ["text without end", forever(chunk({ content: "x".repeat(64 * KIBIBYTE) })), "is larger than 1048576 bytes"],
  ["arguments without end", forever(chunk(toolCall(0, "x".repeat(64 * KIBIBYTE)))), "is larger than 1048576 bytes"],
  ["tool calls without end", everMoreCalls(), "more than 128 tool calls"],
  ["a line without end", forever("data: ".concat("x".repeat(64 * KIBIBYTE))), "larger than 1048576 bytes"],
  ["a line of data lines without end", forever("data: x\n".repeat(8 * KIBIBYTE)), "more than 10000 lines"],
  ["comments without end", forever(`: ${"x".repeat(64 * KIBIBYTE)}\n\n`), "streamed more than 16777216 bytes"],
  ["empty chunks without end", forever(chunk({}).repeat(1024)), "streamed more than 16777216 bytes"],
  ["one body without end", forever(`{${" ".repeat(64 * KIBIBYTE)}`), "sent more than 1048576 bytes"],
  ["an index that would make a sparse array", [chunk(toolCall(4e9, "{}"))], "the index 4000000000"],
  ["10,000 calls", Array.from({ length: 10_000 }, (_, index) => chunk(toolCall(index, "{}"))), "the index 128"],
  ["JSON that is too deep", [`data: ${"[".repeat(200_000)}${"]".repeat(200_000)}\n\n`], "a chunk that is no object"],
  ["a prototype", ['data: {"__proto__":{"choices":[]}}\n\ndata: [DONE]\n\n'], "no choices"],
])("%s is refused with a typed error, and the socket closed", async (_what, chunks, says) => {
  const fault: Fault = { kind: "raw", chunks };
  const server = await startOpenAIServer({ faults: [fault] });
  const model = createTestModel(server.baseUrl, { limits });
  try {
    const before = process.memoryUsage().rss;
    const error = await ask(model).catch((cause: unknown) => cause);
    expect(error).toMatchObject({ name: "ModelError", kind: "bad_answer" });
    expect(error).toHaveProperty("message", expect.stringContaining(says));
    expect((process.memoryUsage().rss - before) / MEBIBYTE).toBeLessThan(mostMemoryMb);
    await server.requests[0]?.over;
    expect(await ask(model)).toMatchObject({ finishReason: "stop" });
  } finally {
    await model.close();
    await server.close();
  }
});

it("5 MB of arguments and odd calls are handed on as they are, for the one who runs the tools", async () => {
  const large = JSON.stringify({ text: "x".repeat(5 * MEBIBYTE) });
  const server = await startOpenAIServer({
    script: [
      {
        toolCalls: [
          { id: "same", name: "no_such_tool", arguments: "" },
          { id: "same", name: "x", arguments: '{"a":1,"a":2}' },
          { id: "third", name: "x", arguments: "not JSON" },
          { id: "fourth", name: "x", arguments: large },
        ],
      },
    ],
    faults: [{ kind: "whole" }],
  });
  const model = createTestModel(server.baseUrl);
  try {
    expect((await ask(model, chatRequest())).toolCalls).toEqual([
      { id: "same", name: "no_such_tool", arguments: "{}" },
      { id: "call_0", name: "x", arguments: '{"a":1,"a":2}' },
      { id: "third", name: "x", arguments: "not JSON" },
      { id: "fourth", name: "x", arguments: large },
    ]);
  } finally {
    await model.close();
    await server.close();
  }
});

it("headers without end are refused", async () => {
  const headers = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`x-${index}`, "y".repeat(KIBIBYTE)]));
  const server = await startOpenAIServer({ faults: [{ kind: "status", status: 200, headers }] });
  const model = createTestModel(server.baseUrl);
  try {
    await expect(ask(model)).rejects.toMatchObject({
      kind: "bad_answer",
      message: expect.stringContaining("sent headers that are too large"),
    });
  } finally {
    await model.close();
    await server.close();
  }
});
