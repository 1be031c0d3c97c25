import { FINAL_RUN_STATUSES, Secret, type TransientEvent } from "@leafmesh/protocol";
import { describe, expect, it } from "vitest";
import { ModelError } from "../models/contract.ts";
import { EngineError } from "./engine-error.ts";
import {
  call,
  calls,
  checkHistory,
  converse,
  done,
  FunctionModel,
  harness,
  says,
  scripted,
  silentModel,
  testAgent,
  testMesh,
  tool,
} from "./testing/index.ts";

const soon = () => AbortSignal.timeout(10_000);
const _phone = (id: string, token = `token-${id}`) => ({ id, pushToken: new Secret(token) });

async function refusal(promise: Promise<unknown>): Promise<EngineError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof EngineError)) throw new Error(`not refused: ${String(error)}`);
  return error;
}

describe("a message", () => {
  it("is answered, with every step an event and the reply in the history", async () => {
    const model = scripted(says("Hello!", { usage: { inputTokens: 5, outputTokens: 2 } }));
    const { engine, backend } = await harness({ model });
    await engine.start();
    const { sessionId, runId, agent, run } = await converse(engine, "Hi");

    expect(agent).toBe("helper");
    expect(run).toMatchObject({ id: runId, status: "succeeded", reply: "Hello!", input: "Hi" });
    expect(await engine.run(runId)).toEqual(run);
    expect((await backend.events(sessionId)).map(({ type, payload }) => [type, payload])).toEqual([
      ["session.created", { entry_point: "to_helper" }],
      ["message.received", { run_id: runId, content: "Hi" }],
      ["run.queued", { run_id: runId, agent: "helper" }],
      ["run.started", { run_id: runId, agent: "helper" }],
      [
        "model.answered",
        {
          run_id: runId,
          agent: "helper",
          turn: 1,
          content: "Hello!",
          tool_calls: 0,
          usage: { input_tokens: 5, output_tokens: 2 },
        },
      ],
      ["run.finished", { run_id: runId, status: "succeeded", reply: "Hello!" }],
    ]);
    expect(await engine.history(sessionId)).toMatchObject([
      { position: 1, run_id: runId, role: "user", content: "Hi" },
      { position: 2, run_id: runId, role: "assistant", agent: "helper", content: "Hello!" },
    ]);
    expect(model.requests[0]).toMatchObject({
      model: "test-model",
      messages: [
        { role: "system", content: "Help." },
        { role: "user", content: "Hi" },
      ],
      tools: [],
      toolChoice: "none",
    });
    await engine.stop({ graceMs: 0 });
    expect(model.closed).toBe(true);
  });

  it("is followed by its tool calls, stored before they are executed and in asked order", async () => {
    const model = scripted(calls(call("slow", { n: 1 }, "a"), call("fast", { n: 2 }, "b")), says("Both done."));
    const release = Promise.withResolvers<void>();
    const storedFirst: string[][] = [];
    const both = await harness({
      model,
      tools: [
        tool("slow", async ({ invocation }) => {
          storedFirst.push((await both.backend.messages(invocation.sessionId)).map(({ message }) => message.role));
          await release.promise;
          return done(`slow ${JSON.stringify(invocation.arguments)}`);
        }),
        tool("fast", () => {
          release.resolve();
          return { success: false, content: "fast" };
        }),
      ],
    });
    await both.engine.start();
    const { sessionId, runId, run } = await converse(both.engine, "Do both");

    expect(run.reply).toBe("Both done.");
    expect(storedFirst).toEqual([["user", "assistant"]]);
    expect(model.requests[1]?.messages.slice(2)).toEqual([
      { role: "assistant", content: null, toolCalls: [call("slow", { n: 1 }, "a"), call("fast", { n: 2 }, "b")] },
      { role: "tool", toolCallId: "a", content: 'slow {"n":1}' },
      { role: "tool", toolCallId: "b", content: "fast" },
    ]);
    const events = await both.backend.events(sessionId, { types: ["tool.called", "tool.finished"] });
    expect(events.map(({ type, payload }) => [type, payload])).toEqual([
      ["tool.called", { run_id: runId, agent: "helper", tool_call_id: "a", tool: "slow", arguments: { n: 1 } }],
      ["tool.called", { run_id: runId, agent: "helper", tool_call_id: "b", tool: "fast", arguments: { n: 2 } }],
      ["tool.finished", { run_id: runId, tool_call_id: "a", tool: "slow", success: true, duration_ms: 0 }],
      ["tool.finished", { run_id: runId, tool_call_id: "b", tool: "fast", success: false, duration_ms: 0 }],
    ]);
    checkHistory(await both.backend.messages(sessionId));
  });

  it("streams the model's text to whoever listens", async () => {
    const model = new FunctionModel((_request, { onText }) => {
      for (const text of ["He", "llo"]) onText(text);
      return says("Hello");
    });
    const { engine, backend } = await harness({ model });
    const { sessionId } = await engine.createSession({});
    const transient: TransientEvent[] = [];
    backend.subscribe(sessionId, { onEvents() {}, onTransient: (event) => void transient.push(event) });
    await engine.start();
    const { runId } = await converse(engine, "Hi", sessionId);
    expect(transient).toEqual([
      { type: "model.delta", payload: { run_id: runId, text: "He" } },
      { type: "model.delta", payload: { run_id: runId, text: "llo" } },
    ]);
  });

  it("sees the conversation before it", async () => {
    const model = scripted(says("One."), says("Two."));
    const { engine } = await harness({ model });
    await engine.start();
    const { sessionId } = await converse(engine, "First", undefined);
    await converse(engine, "Second", sessionId);
    expect(model.requests[1]?.messages.map(({ content }) => content)).toEqual(["Help.", "First", "One.", "Second"]);
  });

  it("waits for the one before it in its session, and not for other sessions", async () => {
    const release = Promise.withResolvers<void>();
    const model = new FunctionModel(async ({ messages }) => {
      const asked = String(messages.at(-1)?.content);
      if (asked === "slow") await release.promise;
      return says(`re: ${asked}`);
    });
    const { engine, backend } = await harness({ model });
    await engine.start();
    const slow = await engine.submit({ message: "slow" });
    const next = await engine.submit({ message: "next", sessionId: slow.sessionId });
    const { run: other } = await converse(engine, "other");
    expect(other.reply).toBe("re: other");
    expect((await engine.run(next.runId))?.status).toBe("queued");
    expect(await engine.isRunning(slow.sessionId)).toBe(true);
    release.resolve();
    expect((await engine.waitForRun(next.runId, soon())).reply).toBe("re: next");
    expect(await engine.isRunning(slow.sessionId)).toBe(false);
    checkHistory(await backend.messages(slow.sessionId));
  });

  it("goes to the agent of the entry point that it names", async () => {
    const mesh = testMesh([testAgent(), testAgent({ name: "other", prompt: "Be other." })]);
    const model = scripted(says("a"), says("b"), says("c"));
    const { engine } = await harness({ model, mesh });
    await engine.start();
    const opened = await engine.submit({ message: "1", entryPoint: "to_other" });
    expect(opened.agent).toBe("other");
    await engine.waitForRun(opened.runId, soon());
    expect((await engine.submit({ message: "2", sessionId: opened.sessionId })).agent).toBe("other");
    expect((await engine.submit({ message: "3", sessionId: opened.sessionId, entryPoint: "to_helper" })).agent).toBe(
      "helper",
    );
    const refused = await refusal(engine.submit({ message: "4", entryPoint: "nowhere" }));
    expect(refused).toMatchObject({
      code: "no_such_entry_point",
      message: 'There is no entry point "nowhere". There are: to_helper, to_other.',
    });
    await engine.stop({ graceMs: 1000 });
  });
});

describe("what the engine refuses", () => {
  it("names the reason, and stores nothing", async () => {
    const mesh = testMesh(undefined, { maxQueuedRunsPerSession: 2, maxSessionsPerKey: 2 });
    const { engine, backend } = await harness({ model: silentModel(), mesh });
    const { sessionId } = await engine.submit({ message: "1", owner: "ann" });
    await engine.submit({ message: "2", owner: "ann", sessionId });
    const before = await backend.lastEventSeq(sessionId);

    const submit = (more: object) => refusal(engine.submit({ message: "x", owner: "ann", sessionId, ...more }));
    expect((await submit({})).code).toBe("too_many_queued_runs");
    expect((await submit({ message: "x".repeat(100_001) })).code).toBe("message_too_long");
    expect((await submit({ sessionId: "ses_unknown" })).code).toBe("no_such_session");
    expect((await submit({ owner: "bob" })).code).toBe("no_such_session");
    expect((await submit({ owner: undefined })).code).toBe("no_such_session");
    await engine.createSession({ owner: "ann" });
    expect((await refusal(engine.createSession({ owner: "ann" }))).code).toBe("too_many_sessions");
    expect((await refusal(engine.submit({ message: "x", owner: "ann" }))).code).toBe("too_many_sessions");
    await engine.createSession({ owner: "bob" });
    expect((await refusal(engine.waitForRun("run_unknown", soon()))).code).toBe("no_such_run");
    expect((await refusal(engine.cancelRun("run_unknown"))).code).toBe("no_such_run");
    expect((await refusal(engine.endSession("ses_unknown"))).code).toBe("no_such_session");
    expect(await backend.lastEventSeq(sessionId)).toBe(before);

    await engine.stop({ graceMs: 0 });
    expect((await submit({})).code).toBe("stopping");
    expect((await refusal(engine.createSession({}))).code).toBe("stopping");
  });
});

describe("a reload", () => {
  it("leaves runs under way their mesh and closes its models after them", async () => {
    const release = Promise.withResolvers<void>();
    const opened: { prompt: string; closed: boolean }[] = [];
    const { engine } = await harness({
      model: scripted(),
      more: {
        models: (mesh) => {
          const entry = { prompt: mesh.agents.get("helper")?.prompt ?? "", closed: false };
          opened.push(entry);
          const model = new FunctionModel(async ({ messages }) => {
            if (messages.at(-1)?.content === "slow") await release.promise;
            return says(String(messages[0]?.content));
          });
          return {
            model: async () => model,
            async close() {
              entry.closed = true;
            },
          };
        },
      },
    });
    await engine.start();
    const slow = await engine.submit({ message: "slow" });
    await engine.isRunning(slow.sessionId);
    engine.swapMesh(testMesh([testAgent({ prompt: "New prompt." })]));
    expect((await converse(engine, "quick")).run.reply).toBe("New prompt.");
    expect(opened.map(({ closed }) => closed)).toEqual([false, false]);
    release.resolve();
    expect((await engine.waitForRun(slow.runId, soon())).reply).toBe("Help.");
    expect(opened.map(({ closed }) => closed)).toEqual([true, false]);
    await engine.stop({ graceMs: 0 });
    expect(opened.map(({ closed }) => closed)).toEqual([true, true]);
  });
});

describe("every way to end", () => {
  it("is final: the run does not change any more", async () => {
    const { engine } = await harness({ model: scripted(new ModelError("bad_credential", "The key is wrong.")) });
    await engine.start();
    const { runId, run } = await converse(engine, "Hi");
    expect(run).toMatchObject({
      status: "failed",
      error: { code: "model_refused_key", message: "The model's service refused the key. The key is wrong." },
    });
    expect(FINAL_RUN_STATUSES.has(run.status)).toBe(true);
    expect(await engine.cancelRun(runId)).toEqual(run);
  });
});
