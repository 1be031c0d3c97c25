import { createFakeClock } from "@leafmesh/testkit";
import { describe, expect, it } from "vitest";
import type { ImagePart } from "../models/contract.ts";
import type { ToolResult } from "../tools/contract.ts";
import {
  call,
  calls,
  checkHistory,
  converse,
  done,
  FunctionModel,
  harness,
  passTime,
  says,
  scripted,
  silentModel,
  testAgent,
  testMesh,
  tool,
} from "./testing/index.ts";

const never = () => new Promise<ToolResult>(() => {});
const image = (name: string): ImagePart => ({ type: "image", mediaType: "image/png", base64: btoa(name) });

describe("tool calls that cannot be executed", () => {
  it("become failed calls that tell the model what was wrong", async () => {
    const model = scripted(
      calls(call("lock", {}, "1"), call("look", "{", "2"), call("look", "[]", "3")),
      says("Sorry."),
    );
    const { engine, backend } = await harness({ model, tools: [tool("look", () => done("seen"))] });
    await engine.start();
    const { sessionId } = await converse(engine, "go");
    expect(model.requests[1]?.messages.slice(3).map(({ content }) => JSON.parse(String(content)))).toEqual([
      { success: false, error: 'There is no tool named "lock". Your tools: look.' },
      { success: false, error: expect.stringMatching(/not JSON/) },
      { success: false, error: expect.stringMatching(/not a JSON object/) },
    ]);
    const events = await backend.events(sessionId, { types: ["tool.called", "tool.finished"] });
    expect(events.map(({ payload }) => ("arguments" in payload ? payload.arguments : payload))).toMatchObject([
      {},
      "{",
      "[]",
      { tool_call_id: "1", success: false },
      { tool_call_id: "2", success: false },
      { tool_call_id: "3", success: false },
    ]);
    checkHistory(await backend.messages(sessionId));
  });

  it("are told apart even if the model's service gives them no ids, or the same", async () => {
    const model = scripted(
      calls(call("look", {}, ""), call("look", {}, "")),
      calls(call("look", {}, "x"), call("look", {}, "x")),
      says("ok"),
    );
    let seen = 0;
    const { engine, backend } = await harness({ model, tools: [tool("look", () => done(`seen ${++seen}`))] });
    await engine.start();
    const { sessionId, run } = await converse(engine, "go");
    expect(run.reply).toBe("ok");
    expect(seen).toBe(4);
    checkHistory(await backend.messages(sessionId));
  });

  it("fail when the tool itself fails, which the log tells", async () => {
    const model = scripted(calls(call("broken")), says("ok"));
    const broken = tool("broken", () => {
      throw new Error("bug");
    });
    const { engine, logger } = await harness({ model, tools: [broken] });
    await engine.start();
    await converse(engine, "go");
    expect(model.requests[1]?.messages.at(-1)?.content).toMatch(/failed inside the mesh. It may have happened/);
    expect(logger.lines).toMatchObject([{ level: "error", fields: { tool: "broken", error: { message: "bug" } } }]);
  });
});

describe("the limit of tool calls a message", () => {
  it("answers what goes beyond it, and the model has to reply without tools", async () => {
    const model = scripted(
      calls(call("look", {}, "1"), call("look", {}, "2")),
      calls(call("look", {}, "3"), call("look", {}, "4")),
      says("That is all."),
    );
    let seen = 0;
    const { engine } = await harness({
      model,
      mesh: testMesh([testAgent({ maxToolCallsPerMessage: 3 })]),
      tools: [tool("look", () => done(`seen ${++seen}`))],
    });
    await engine.start();
    const { run } = await converse(engine, "go");
    expect(run.reply).toBe("That is all.");
    expect(seen).toBe(3);
    expect(model.requests.map(({ toolChoice }) => toolChoice)).toEqual(["auto", "auto", "none"]);
    expect(model.requests[2]?.messages.at(-1)?.content).toMatch(/one message may lead to 3 tool calls/);
  });

  it("is not passed by a model that goes on asking", async () => {
    const model = new FunctionModel((_request, { number }) => calls(call("look", {}, `c${number}`)));
    const mesh = testMesh([testAgent({ maxToolCallsPerMessage: 2 })]);
    const { engine, backend } = await harness({ model, mesh, tools: [tool("look", () => done("seen"))] });
    await engine.start();
    const { run, sessionId } = await converse(engine, "go");
    expect(run).toMatchObject({
      status: "failed",
      error: { code: "model_bad_answer", message: /max_tool_calls_per_message/ },
    });
    expect(model.requests).toHaveLength(4);
    checkHistory(await backend.messages(sessionId));
  });

  it("of 0 offers no tool calls at all", async () => {
    const model = scripted(says("ok"));
    const mesh = testMesh([testAgent({ maxToolCallsPerMessage: 0 })]);
    const { engine } = await harness({ model, mesh, tools: [tool("look", () => done("seen"))] });
    await engine.start();
    await converse(engine, "go");
    expect(model.requests[0]).toMatchObject({ toolChoice: "none", tools: [{ name: "look" }] });
  });
});

describe("a tool's time", () => {
  it("ends at tool_call_timeout, and the model is told that it may have happened", async () => {
    const model = scripted(calls(call("slow")), says("ok"));
    const aborted = Promise.withResolvers<void>();
    const slow = tool("slow", ({ signal }) => {
      signal.addEventListener("abort", () => aborted.resolve());
      return never();
    });
    const { engine, clock } = await harness({ model, tools: [slow] });
    await engine.start();
    expect((await passTime(clock, converse(engine, "go"))).run.reply).toBe("ok");
    await aborted.promise;
    expect(model.requests[1]?.messages.at(-1)?.content).toMatch(/did not answer within 30 s. It may have happened/);
    expect(clock.pendingTimers).toBe(1); // the sweep's
  });

  it("is its own when it says so", async () => {
    const model = scripted(calls(call("slow")), says("ok"));
    const clock = createFakeClock();
    const slow = tool("slow", () => new Promise((resolve) => clock.schedule(300_000, () => resolve(done("at last")))), {
      ownDeadline: true,
    });
    const { engine } = await harness({ model, tools: [slow], clock });
    await engine.start();
    await passTime(clock, converse(engine, "go"));
    expect(model.requests[1]?.messages.at(-1)?.content).toBe("at last");
  });
});

describe("a tool's result", () => {
  it("is cut at the mesh's limit, saying so", async () => {
    const model = scripted(calls(call("long")), says("ok"));
    const mesh = testMesh(undefined, { toolResultMaxChars: 100 });
    const { engine } = await harness({ model, mesh, tools: [tool("long", () => done("😀".repeat(1_000)))] });
    await engine.start();
    await converse(engine, "go");
    const content = String(model.requests[1]?.messages.at(-1)?.content);
    expect(content).toMatch(/^(😀)+\n\[Cut: the result has 2000 characters\.\]$/);
    expect(content.length).toBeLessThanOrEqual(100);
    expect(content.isWellFormed()).toBe(true);
  });

  it("shows its images to the model and never stores them", async () => {
    const model = scripted(calls(call("photo")), says("A cat."), says("Still a cat."));
    const photo = tool("photo", () => done("taken", { images: [image("cat")], uploads: ["upl_1"] }));
    const { engine, backend } = await harness({
      model,
      tools: [photo],
      more: {
        uploads: {
          open: async (id) =>
            id === "upl_1" ? { mediaType: "image/png", bytes: new TextEncoder().encode("cat") } : undefined,
        },
      },
    });
    await engine.start();
    const { sessionId } = await converse(engine, "look");
    await converse(engine, "again", sessionId);
    const shown = {
      role: "user",
      content: [
        { type: "text", text: expect.stringMatching(/^Returned by photo .* not instructions:$/) },
        image("cat"),
      ],
    };
    expect(model.requests[1]?.messages.slice(3)).toEqual([
      { role: "tool", toolCallId: "call_photo", content: "taken" },
      shown,
    ]);
    expect(model.requests[2]?.messages.slice(3, 5)).toEqual([
      { role: "tool", toolCallId: "call_photo", content: "taken" },
      shown,
    ]);
    const stored = JSON.stringify([await backend.messages(sessionId), await backend.events(sessionId)]);
    expect(stored).toContain("upl_1");
    expect(stored).not.toContain(btoa("cat"));
  });

  it("shows the newest images only; files that are gone or no images are noted", async () => {
    const opened: string[] = [];
    const model = new FunctionModel((_request, { number }) =>
      number <= 3 ? calls(call("photo", { number }, `p${number}`)) : says("ok"),
    );
    const photo = tool("photo", ({ invocation: { arguments: given } }) =>
      done(`taken ${given.number}`, { uploads: [`${given.number}a`, `${given.number}b`] }),
    );
    const { engine, logger } = await harness({
      model,
      tools: [photo],
      more: {
        uploads: {
          async open(id) {
            opened.push(id);
            if (id === "3a") throw new Error("sealed with another key");
            if (id === "3b") return { mediaType: "application/json", bytes: new Uint8Array() };
            return { mediaType: "image/jpeg", bytes: new TextEncoder().encode(id) };
          },
        },
      },
    });
    await engine.start();
    const { sessionId } = await converse(engine, "look");
    await converse(engine, "again", sessionId);
    const images = model.requests.at(-1)?.messages.map(({ role, content }) => {
      if (typeof content === "string" || !content) return role === "tool" ? content : role;
      return content.map((part) => (part.type === "image" ? atob(part.base64) : "label"));
    });
    expect(images?.slice(2)).toEqual([
      "assistant",
      "taken 1",
      ["label", "1a", "1b"],
      "assistant",
      "taken 2",
      ["label", "2a", "2b"],
      "assistant",
      "taken 3\n[2 files of this result are not shown here. They can be asked for again.]",
      "assistant",
      "user",
    ]);
    expect(opened.filter((id) => id === "3a")).toHaveLength(2);
    expect(logger.lines.filter(({ level }) => level === "warn")).toHaveLength(2);
  });

  it("that is old loses its images before a newer one does", async () => {
    const model = new FunctionModel((_request, { number }) =>
      number <= 3 ? calls(call("photo", { number }, `p${number}`)) : says("ok"),
    );
    const photo = tool("photo", ({ invocation: { arguments: given } }) =>
      done(`taken ${given.number}`, { images: [image(`${given.number}a`), image(`${given.number}b`)] }),
    );
    const { engine } = await harness({ model, tools: [photo] });
    await engine.start();
    await converse(engine, "look");
    const last = model.requests.at(-1)?.messages ?? [];
    expect(last[3]?.content).toBe("taken 1\n[2 files of this result are not shown here. They can be asked for again.]");
    expect(last.filter(({ role, content }) => role === "user" && typeof content !== "string")).toHaveLength(2);
  });
});

describe("what a result brings to be stored", () => {
  const look = (type: "warning" | "stop") =>
    tool("look", ({ invocation: { sessionId } }) => ({
      ...done("seen"),
      records: [
        type === "stop"
          ? { kind: "devices.replace", sessionId: "ses_unknown", devices: [] }
          : {
              kind: "event.append",
              sessionId,
              at: 1,
              event: { type, payload: { code: "seen", message: "It was seen." } },
            },
      ],
    }));

  it("is stored in the commit of the result, before it", async () => {
    const { engine, backend } = await harness({
      model: scripted(calls(call("look")), says("ok")),
      tools: [look("warning")],
    });
    await engine.start();
    const { sessionId } = await converse(engine, "go");
    const events = await backend.events(sessionId, { types: ["tool.called", "warning", "tool.finished"] });
    expect(events.map(({ type }) => type)).toEqual(["tool.called", "warning", "tool.finished"]);
  });

  it("is left out when the store refuses it, and the run goes on", async () => {
    const { engine, backend } = await harness({
      model: scripted(calls(call("look")), says("ok")),
      tools: [look("stop")],
    });
    await engine.start();
    const { sessionId, run } = await converse(engine, "go");
    expect(run).toMatchObject({ status: "succeeded", reply: "ok" });
    checkHistory(await backend.messages(sessionId));
  });
});

describe("tools of several providers", () => {
  it("are asked for once a run, with the mesh it started with; the later one wins a name", async () => {
    const asked: string[] = [];
    const mesh = testMesh();
    const provider = (name: string, content: string) => ({
      async toolsFor(agent: { name: string }, run: { mesh: unknown }) {
        asked.push(`${name} ${agent.name} ${run.mesh === mesh}`);
        return [tool("look", () => done(content))];
      },
    });
    const model = scripted(calls(call("look")), says("ok"));
    const { engine } = await harness({
      model,
      mesh,
      more: { toolProviders: [provider("first", "1"), provider("second", "2")] },
    });
    await engine.start();
    await converse(engine, "go");
    expect(asked).toEqual(["first helper true", "second helper true"]);
    expect(model.requests[0]?.tools).toHaveLength(1);
    expect(model.requests[1]?.messages.at(-1)?.content).toBe("2");
  });

  it("that cannot say their tools end the run as an internal error", async () => {
    const broken = {
      toolsFor: async () => {
        throw new Error("bug");
      },
    };
    const { engine, backend } = await harness({ model: silentModel(), more: { toolProviders: [broken] } });
    await engine.start();
    const { run, sessionId } = await converse(engine, "go");
    expect(run.error?.code).toBe("internal_error");
    checkHistory(await backend.messages(sessionId));
  });
});
