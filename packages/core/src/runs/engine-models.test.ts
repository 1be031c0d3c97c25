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
  tool,
} from "./testing/index.ts";

const _never = () => new Promise<ToolResult>(() => {});
const _image = (name: string): ImagePart => ({ type: "image", mediaType: "image/png", base64: btoa(name) });

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
