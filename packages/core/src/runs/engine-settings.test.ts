import { describe, expect, it } from "vitest";
import type { ImagePart } from "../models/contract.ts";
import type { ToolResult } from "../tools/contract.ts";
import {
  call,
  calls,
  converse,
  done,
  FunctionModel,
  harness,
  says,
  scripted,
  testAgent,
  testMesh,
  tool,
} from "./testing/index.ts";

const _never = () => new Promise<ToolResult>(() => {});
const _image = (name: string): ImagePart => ({ type: "image", mediaType: "image/png", base64: btoa(name) });

describe("an agent's settings", () => {
  it("reach the model; required holds for the first answer", async () => {
    const model = scripted(calls(call("look")), says("ok"));
    const agent = testAgent({ toolChoice: "required", temperature: 0.3, maxTokens: 50, allowParallelToolCalls: false });
    const { engine } = await harness({ model, mesh: testMesh([agent]), tools: [tool("look", () => done("seen"))] });
    await engine.start();
    await converse(engine, "go");
    expect(model.requests).toMatchObject([
      { toolChoice: "required", temperature: 0.3, maxTokens: 50, parallelToolCalls: false },
      { toolChoice: "auto" },
    ]);
  });

  it("without parallel calls has one executed after the other, in asked order", async () => {
    const order: string[] = [];
    const slow = tool("slow", async ({ invocation }) => {
      order.push(`start ${invocation.position}`);
      await new Promise((resolve) => setImmediate(resolve));
      order.push(`end ${invocation.position}`);
      return done("x");
    });
    const run = async (allowParallelToolCalls: boolean) => {
      order.length = 0;
      const model = scripted(calls(call("slow", {}, "1"), call("slow", {}, "2")), says("ok"));
      const { engine } = await harness({
        model,
        tools: [slow],
        mesh: testMesh([testAgent({ allowParallelToolCalls })]),
      });
      await engine.start();
      await converse(engine, "go");
      return [...order];
    };
    expect(await run(false)).toEqual(["start 0", "end 0", "start 1", "end 1"]);
    expect(await run(true)).toEqual(["start 0", "start 1", "end 0", "end 1"]);
  });

  it("limits the messages shown, never the ones of the message at hand", async () => {
    const model = new FunctionModel((_request, { number }) =>
      number === 4 || number === 5 ? calls(call("look", {}, "a"), call("look", {}, "b")) : says(`answer ${number}`),
    );
    const mesh = testMesh([testAgent({ historyLimit: 4 })]);
    const { engine } = await harness({ model, mesh, tools: [tool("look", () => done("seen"))] });
    await engine.start();
    const { sessionId } = await converse(engine, "1");
    await converse(engine, "2", sessionId);
    await converse(engine, "3", sessionId);
    await converse(engine, "4", sessionId);
    const texts = model.requests.map(({ messages }) => messages.map(({ role, content }) => content ?? role));
    expect(texts[2]).toEqual(["Help.", "2", "answer 2", "3"]);
    expect(texts[5]).toEqual(["Help.", "3", "answer 3", "4", "assistant", "seen", "seen", "assistant", "seen", "seen"]);
  });
});
