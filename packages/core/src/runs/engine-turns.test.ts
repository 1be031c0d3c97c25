import { createFakeClock } from "@leafmesh/testkit";
import { describe, expect, it } from "vitest";
import { type ImagePart, ModelError } from "../models/contract.ts";
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
} from "./engine-harness.ts";

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
      "taken 3\n[2 files of this result are not shown here.]",
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
    expect(last[3]?.content).toBe("taken 1\n[2 files of this result are not shown here.]");
    expect(last.filter(({ role, content }) => role === "user" && typeof content !== "string")).toHaveLength(2);
  });
});

describe("a model that fails", () => {
  it.each([
    ["transient", "model_unavailable"],
    ["bad_credential", "model_refused_key"],
    ["bad_request", "model_bad_request"],
    ["bad_answer", "model_bad_answer"],
    ["unscripted", "model_unscripted"],
    ["aborted", "model_unavailable"],
  ] as const)("%s ends the run as failed (%s) and the next message works", async (kind, code) => {
    let failing = true;
    const model = new FunctionModel(() => {
      if (failing) throw new ModelError(kind, "main: it went wrong.");
      return says("Fine.");
    });
    const { engine, backend, clock } = await harness({ model });
    await engine.start();
    const { run, sessionId } = await passTime(clock, converse(engine, "1"));
    expect(run).toMatchObject({ status: "failed", error: { code, message: /main: it went wrong\.$/ } });
    failing = false;
    expect((await converse(engine, "2", sessionId)).run.reply).toBe("Fine.");
    checkHistory(await backend.messages(sessionId));
  });

  it("is asked again when that may help, and listeners learn that the text so far is void", async () => {
    const model = new FunctionModel((_request, { number, onText }) => {
      onText(`try ${number}`);
      if (number === 1) throw new ModelError("transient", "main: the stream was cut.", { retryAfterMs: 2_000 });
      return says("Hello");
    });
    const { engine, backend, clock } = await harness({ model });
    await engine.start();
    const { run, runId, sessionId } = await passTime(clock, converse(engine, "Hi"));
    expect(run.reply).toBe("Hello");
    expect((await backend.events(sessionId, { types: ["model.retried"] })).map(({ payload }) => payload)).toEqual([
      { run_id: runId, agent: "helper", reason: "main: the stream was cut.", attempt: 1, wait_ms: 2_000 },
    ]);
  });

  it("after a tool call leaves the result in the history", async () => {
    const model = scripted(calls(call("look")), new ModelError("bad_request", "main: too long."), says("Better."));
    const { engine, backend } = await harness({ model, tools: [tool("look", () => done("seen"))] });
    await engine.start();
    const { run, sessionId } = await converse(engine, "1");
    expect(run.error?.code).toBe("model_bad_request");
    expect((await converse(engine, "2", sessionId)).run.reply).toBe("Better.");
    expect(model.requests[2]?.messages.map(({ role }) => role)).toEqual([
      "system",
      "user",
      "assistant",
      "tool",
      "user",
    ]);
    checkHistory(await backend.messages(sessionId));
  });

  it("and cannot even be opened ends the run", async () => {
    const { engine } = await harness({
      model: silentModel(),
      more: {
        models: () => ({
          model: async () => {
            throw new ModelError("bad_request", "main: the script /x.yaml cannot be read.");
          },
          close: async () => {},
        }),
      },
    });
    await engine.start();
    expect((await converse(engine, "1")).run.error?.message).toContain("/x.yaml cannot be read");
  });

  it("in a way it must not ends the run as an internal error, without the details", async () => {
    const model = new FunctionModel(() => {
      throw new TypeError("secret internals");
    });
    const { engine, logger, backend } = await harness({ model });
    await engine.start();
    const { run, sessionId } = await converse(engine, "1");
    expect(run).toMatchObject({ status: "failed", error: { code: "internal_error" } });
    expect(run.error?.message).not.toContain("secret internals");
    expect(logger.lines).toMatchObject([{ level: "error", fields: { error: { message: "secret internals" } } }]);
    checkHistory(await backend.messages(sessionId));
  });

  it("and does not heed its signal holds nothing up", async () => {
    const asked = Promise.withResolvers<void>();
    const model = new FunctionModel(() => {
      asked.resolve();
      return new Promise(() => {});
    });
    const { engine } = await harness({ model });
    await engine.start();
    const { runId } = await engine.submit({ message: "1" });
    await asked.promise;
    expect((await engine.cancelRun(runId)).status).toBe("cancelled");
  });
});

describe("an answer", () => {
  const warningsOf = async (answer: ReturnType<typeof says>) => {
    const { engine, backend } = await harness({ model: scripted(answer, answer) });
    await engine.start();
    const { run, sessionId } = await converse(engine, "1");
    const warnings = await backend.events(sessionId, { types: ["warning", "model.retried"] });
    return { run, codes: warnings.map(({ type, payload }) => ("code" in payload ? payload.code : type)) };
  };

  it("without anything in it is asked for once more, then the run fails", async () => {
    const { run, codes } = await warningsOf(says("  "));
    expect(run).toMatchObject({ status: "failed", error: { code: "model_bad_answer", message: /nothing, twice/ } });
    expect(codes).toEqual(["model.retried"]);
    const { engine } = await harness({ model: scripted(says(""), says("Now.")) });
    await engine.start();
    expect((await converse(engine, "1")).run.reply).toBe("Now.");
  });

  it("that was cut is used, with a warning", async () => {
    const { run, codes } = await warningsOf(says("Half a sen", { finishReason: "length" }));
    expect(run.reply).toBe("Half a sen");
    expect(codes).toEqual(["answer_cut"]);
    expect((await warningsOf(says("Some", { finishReason: "content_filter" }))).codes).toEqual(["answer_filtered"]);
  });

  it("that was cut or withheld before it began fails the run at once, naming the cure", async () => {
    expect((await warningsOf(says("", { finishReason: "length" }))).run.error?.message).toMatch(/Raise max_tokens/);
    expect((await warningsOf(says("", { finishReason: "content_filter" }))).run.error?.message).toMatch(
      /content filter/,
    );
  });

  it("may hold text beside its tool calls", async () => {
    const model = scripted({ ...calls(call("look")), content: "Let me look." }, says("ok"));
    const { engine } = await harness({ model, tools: [tool("look", () => done("seen"))] });
    await engine.start();
    const { sessionId } = await converse(engine, "1");
    expect((await engine.history(sessionId))[1]).toMatchObject({
      content: "Let me look.",
      tool_calls: [{ name: "look" }],
    });
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
