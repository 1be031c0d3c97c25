import { FINAL_RUN_STATUSES, Secret, type StoredEvent, type TransientEvent } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { describe, expect, it } from "vitest";
import { ModelError } from "../models/contract.ts";
import { EngineError } from "./engine-error.ts";
import {
  call,
  calls,
  checkHistory,
  converse,
  createDisk,
  done,
  FunctionModel,
  harness,
  memoryBackend,
  recordingTool,
  says,
  scripted,
  silentModel,
  testAgent,
  testMesh,
  tool,
} from "./engine-harness.ts";

const soon = () => AbortSignal.timeout(10_000);
const phone = (id: string, token = `token-${id}`) => ({ id, pushToken: new Secret(token) });

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

describe("devices", () => {
  it("are merged by id, their tokens sealed and opened only by the directory", async () => {
    const { engine, backend } = await harness({ model: silentModel() });
    const tablet = { ...phone("tablet"), name: "My tablet", platform: "ios" };
    const { sessionId } = await engine.createSession({ devices: [phone("phone"), tablet] });
    await engine.submit({
      sessionId,
      message: "hi",
      devices: [phone("watch"), { ...phone("phone", "new"), name: "P" }],
    });

    const listed = await engine.directory.list(sessionId);
    expect(listed.map(({ id, name, pushToken }) => [id, name, pushToken.reveal()])).toEqual([
      ["phone", "P", "new"],
      ["tablet", "My tablet", "token-tablet"],
      ["watch", undefined, "token-watch"],
    ]);
    const changes = await backend.events(sessionId, { types: ["devices.changed"] });
    expect(changes.map(({ payload }) => payload)).toEqual([
      { devices: [{ id: "phone" }, { id: "tablet", name: "My tablet", platform: "ios" }] },
      { devices: [{ id: "phone", name: "P" }, { id: "tablet", name: "My tablet", platform: "ios" }, { id: "watch" }] },
    ]);
    expect(JSON.stringify(await backend.events(sessionId))).not.toMatch(/token-|new/);

    await engine.submit({ sessionId, message: "and" });
    expect(await engine.directory.list(sessionId)).toHaveLength(3);
    await engine.submit({ sessionId, message: "clear", devices: [] });
    expect(await engine.directory.list(sessionId)).toEqual([]);
  });

  it("are at most 16 and each only once in a list; a refused list changes nothing", async () => {
    const { engine, backend } = await harness({ model: silentModel() });
    const sixteen = Array.from({ length: 16 }, (_, index) => phone(`d${index}`));
    const { sessionId } = await engine.createSession({ devices: sixteen });
    const before = await backend.lastEventSeq(sessionId);
    const submit = (...devices: ReturnType<typeof phone>[]) =>
      refusal(engine.submit({ sessionId, message: "x", devices }));
    expect(await submit(phone("d16"))).toMatchObject({
      code: "too_many_devices",
      message: /at most 16.*would have 17/,
    });
    expect(await submit(phone("d1"), phone("d1", "other"))).toMatchObject({ code: "duplicate_device", message: /d1/ });
    expect((await refusal(engine.createSession({ devices: [...sixteen, phone("d16")] }))).code).toBe(
      "too_many_devices",
    );
    expect(await backend.lastEventSeq(sessionId)).toBe(before);
    expect((await engine.directory.list(sessionId)).map(({ id }) => id)).toEqual(sixteen.map(({ id }) => id));
    await engine.submit({ sessionId, message: "x", devices: [phone("d3", "again")] });
    expect(await engine.directory.list(sessionId)).toHaveLength(16);
  });

  it("of concurrent requests are all kept", async () => {
    const { engine } = await harness({ model: silentModel() });
    const { sessionId } = await engine.createSession({});
    await Promise.all(["a", "b", "c"].map((id) => engine.submit({ sessionId, message: id, devices: [phone(id)] })));
    expect((await engine.directory.list(sessionId)).map(({ id }) => id)).toEqual(["a", "b", "c"]);
  });

  it("whose token does not open are left out with a log line that does not hold it", async () => {
    const { engine, backend, logger } = await harness({ model: silentModel() });
    const { sessionId } = await engine.createSession({ devices: [phone("good")] });
    const stored = await backend.devices(sessionId);
    const broken = { sessionId, id: "broken", sealedPushToken: stored[0]?.sealedPushToken ?? "" };
    await backend.commit([{ kind: "devices.replace", sessionId, devices: [...stored, broken] }]);
    expect((await engine.directory.list(sessionId)).map(({ id }) => id)).toEqual(["good"]);
    expect(logger.lines).toMatchObject([{ level: "warn", fields: { device: "broken" } }]);
    expect(JSON.stringify(logger.lines)).not.toContain("token-good");
  });
});

describe("a session", () => {
  it("keeps the app's context, merged key by key", async () => {
    const { engine } = await harness({ model: silentModel() });
    const { sessionId } = await engine.createSession({ context: { tier: "gold", language: "en" } });
    await engine.submit({ sessionId, message: "x", context: { language: "de" } });
    await engine.submit({ sessionId, message: "y" });
    expect((await engine.session(sessionId))?.context).toEqual({ tier: "gold", language: "de" });
  });

  it("ends after its runs: tokens are gone, the history stays, streams are told", async () => {
    const { engine, backend } = await harness({ model: silentModel() });
    await engine.start();
    const { sessionId, runId } = await engine.submit({ message: "1", devices: [phone("a")] });
    const waiting = await engine.submit({ sessionId, message: "2" });
    const seen: (StoredEvent | TransientEvent)[] = [];
    backend.subscribe(sessionId, {
      onEvents: (events) => void seen.push(...events),
      onTransient: (event) => void seen.push(event),
    });
    await engine.endSession(sessionId);

    expect((await engine.run(runId))?.status).toBe("cancelled");
    expect((await engine.run(waiting.runId))?.status).toBe("cancelled");
    expect(seen.map(({ type }) => type)).toEqual(["run.finished", "run.finished", "stream_end"]);
    expect(await engine.directory.list(sessionId)).toEqual([]);
    expect(await engine.history(sessionId)).toMatchObject([{ role: "user", content: "1" }]);
    expect((await refusal(engine.submit({ sessionId, message: "3" }))).code).toBe("session_ended");
    await engine.endSession(sessionId);
    expect(await engine.sessions({ limit: 10 })).toMatchObject([{ session: { id: sessionId }, state: "ended" }]);
  });

  it("ends by itself once it was idle for the time to live, at the start and every hour", async () => {
    const clock = createFakeClock();
    const day = 24 * 3_600_000;
    const backend = await memoryBackend(clock);
    const first = await harness({ model: scripted(says("a"), says("b")), clock, backend });
    const { sessionId: early } = await first.engine.createSession({ devices: [phone("a")] });
    await clock.advance(6 * day);
    const { sessionId: late } = await first.engine.createSession({ devices: [phone("b")] });
    await clock.advance(1.5 * day);

    await first.engine.start();
    expect((await first.engine.session(early))?.endedAt).toBe(clock.nowMs());
    expect(await first.engine.directory.list(early)).toEqual([]);
    await converse(first.engine, "still here", late);
    await clock.advance(6.9 * day);
    expect((await first.engine.session(late))?.endedAt).toBeUndefined();
    await clock.advance(0.2 * day);
    expect((await first.engine.session(late))?.endedAt).toBeDefined();
    await first.engine.stop({ graceMs: 0 });
    expect(clock.pendingTimers).toBe(0);
  });
});

describe("a run that is cancelled", () => {
  it("while it waits in the queue ends at once and leaves nothing in the history", async () => {
    const { engine, backend } = await harness({ model: silentModel() });
    await engine.start();
    const first = await engine.submit({ message: "1" });
    const second = await engine.submit({ message: "2", sessionId: first.sessionId });
    const cancelled = await engine.cancelRun(second.runId);
    expect(cancelled).toMatchObject({ status: "cancelled", error: { code: "cancelled" } });
    expect((await engine.run(first.runId))?.status).toBe("running");
    expect(await engine.cancelRun(second.runId)).toEqual(cancelled);
    await engine.cancelRun(first.runId);
    checkHistory(await backend.messages(first.sessionId));
    expect(await backend.messages(first.sessionId)).toHaveLength(1);
  });

  it("settles its open calls first and the next message works", async () => {
    const started = Promise.withResolvers<void>();
    const model = scripted(calls(call("stoppable"), call("other")), says("Fine."));
    const { engine, backend } = await harness({
      model,
      tools: [
        tool("stoppable", ({ signal }) => {
          started.resolve();
          return new Promise((resolve) => {
            signal.addEventListener("abort", () => resolve({ success: false, content: "stopped in time" }));
          });
        }),
        tool("other", () => done("other done")),
      ],
    });
    await engine.start();
    const { sessionId, runId } = await engine.submit({ message: "go" });
    await started.promise;
    expect(await engine.cancelRun(runId)).toMatchObject({ status: "cancelled" });
    expect((await engine.waitForRun(runId, soon())).status).toBe("cancelled");
    expect((await engine.history(sessionId)).map(({ role, content }) => [role, content])).toEqual([
      ["user", "go"],
      ["assistant", ""],
      ["tool", "stopped in time"],
      ["tool", "other done"],
    ]);
    expect((await converse(engine, "next", sessionId)).run.reply).toBe("Fine.");
    checkHistory(await backend.messages(sessionId));
  });

  it("does not wait for a tool that does not heed its signal", async () => {
    const started = Promise.withResolvers<void>();
    const { engine, clock, logger } = await harness({
      model: scripted(calls(call("deaf"))),
      tools: [
        tool("deaf", () => {
          started.resolve();
          return new Promise(() => {});
        }),
      ],
    });
    await engine.start();
    const { sessionId, runId } = await engine.submit({ message: "go" });
    await started.promise;
    const cancelling = engine.cancelRun(runId);
    await clock.advance(5_000);
    expect((await cancelling).status).toBe("cancelled");
    expect((await engine.history(sessionId)).at(-1)?.content).toMatch(/Stopped: the run was cancelled. It may have/);
    expect(logger.lines).toMatchObject([{ level: "warn" }]);
  });
});

describe("a run's deadline", () => {
  it("ends it as timed out, with open calls settled and the wall clock ignored", async () => {
    const started = Promise.withResolvers<number>();
    const { engine, clock, backend } = await harness({
      model: scripted(calls(call("patient"))),
      tools: [
        tool(
          "patient",
          ({ signal, deadlineAtMs }) => {
            started.resolve(deadlineAtMs);
            return new Promise((_resolve, reject) => {
              signal.addEventListener("abort", () => reject(signal.reason));
            });
          },
          { ownDeadline: true },
        ),
      ],
    });
    await engine.start();
    const submittedAt = clock.nowMs();
    const { sessionId, runId } = await engine.submit({ message: "go", timeoutMs: 90_000 });
    expect(await started.promise).toBe(submittedAt + 90_000);
    clock.setWallClock(submittedAt + 24 * 3_600_000);
    await clock.advance(89_999);
    expect((await engine.run(runId))?.status).toBe("running");
    await clock.advance(1);
    expect(await engine.waitForRun(runId, soon())).toMatchObject({
      status: "timed_out",
      error: { code: "timed_out" },
    });
    expect((await engine.history(sessionId)).at(-1)?.content).toMatch(/Stopped: the run was past its deadline/);
    checkHistory(await backend.messages(sessionId));
  });

  it("holds while the run waits, and is never longer than the mesh's", async () => {
    const { engine, clock } = await harness({
      model: silentModel(),
      mesh: testMesh(undefined, { runTimeoutMs: 60_000 }),
    });
    await engine.start();
    const first = await engine.submit({ message: "1", timeoutMs: 1e12 });
    const second = await engine.submit({ message: "2", sessionId: first.sessionId, timeoutMs: 1_000 });
    await clock.advance(1_000);
    expect((await engine.waitForRun(second.runId, soon())).status).toBe("timed_out");
    await clock.advance(59_000);
    expect((await engine.waitForRun(first.runId, soon())).status).toBe("timed_out");
    expect(clock.pendingTimers).toBe(1); // the sweep's
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

describe("stopping", () => {
  it("lets runs finish within the grace", async () => {
    const release = Promise.withResolvers<void>();
    const model = new FunctionModel(async () => {
      await release.promise;
      return says("Done.");
    });
    const { engine, clock } = await harness({ model });
    await engine.start();
    const { runId } = await engine.submit({ message: "go" });
    const finished = engine.waitForRun(runId, soon());
    const stopping = engine.stop({ graceMs: 10_000 });
    await clock.advance(9_000);
    release.resolve();
    expect((await finished).reply).toBe("Done.");
    await stopping;
    expect(clock.pendingTimers).toBe(0);
  });

  it("leaves the others unfinished, tells those who wait, and the next start goes on", async () => {
    const clock = createFakeClock();
    await using disk = await createDisk(clock);
    const first = await harness({ model: silentModel(), clock, backend: await disk.open() });
    await first.engine.start();
    const running = await first.engine.submit({ message: "1" });
    const queued = await first.engine.submit({ message: "2", sessionId: running.sessionId });
    const waits = [running, queued].map(({ runId }) => refusal(first.engine.waitForRun(runId, soon())));
    const stopping = first.engine.stop({ graceMs: 1_000 });
    await clock.advance(1_000);
    await stopping;
    expect((await Promise.all(waits)).map(({ code }) => code)).toEqual(["stopping", "stopping"]);
    const backend = await disk.open();
    expect((await backend.run(running.runId))?.status).toBe("running");
    expect((await backend.run(queued.runId))?.status).toBe("queued");

    const second = await harness({ model: scripted(says("One."), says("Two.")), clock, backend });
    expect(await second.engine.start()).toEqual({ resumed: 2, ended: 0 });
    expect((await second.engine.waitForRun(queued.runId, soon())).reply).toBe("Two.");
    expect((await second.engine.run(running.runId))?.reply).toBe("One.");
    const starts = await backend.events(running.sessionId, { types: ["run.started"] });
    expect(starts.map(({ payload }) => payload)).toMatchObject([
      { run_id: running.runId },
      { run_id: running.runId, resumed: true },
      { run_id: queued.runId },
    ]);
    checkHistory(await backend.messages(running.sessionId));
  });

  it("stores what tools settled, and executes nothing again", async () => {
    const clock = createFakeClock();
    await using disk = await createDisk(clock);
    const started = Promise.withResolvers<void>();
    let executions = 0;
    const patient = tool(
      "patient",
      ({ signal }) => {
        executions++;
        started.resolve();
        return new Promise((resolve) => {
          signal.addEventListener("abort", () => resolve({ success: false, content: "settled at the stop" }));
        });
      },
      { ownDeadline: true },
    );
    const first = await harness({
      model: scripted(calls(call("patient"))),
      tools: [patient],
      clock,
      backend: await disk.open(),
    });
    await first.engine.start();
    const { sessionId, runId } = await first.engine.submit({ message: "go" });
    await started.promise;
    const stopping = first.engine.stop({ graceMs: 0 });
    await clock.advance(0);
    await stopping;
    const backend = await disk.open();
    expect((await backend.run(runId))?.status).toBe("running");

    const model = scripted(says("Sorry."));
    const second = await harness({ model, tools: [patient], clock, backend });
    await second.engine.start();
    expect((await second.engine.waitForRun(runId, soon())).reply).toBe("Sorry.");
    expect(model.requests[0]?.messages.at(-1)).toMatchObject({ role: "tool", content: "settled at the stop" });
    expect(executions).toBe(1);
    checkHistory(await backend.messages(sessionId));
  });
});

describe("a start after a crash", () => {
  it("closes runs past their deadline and runs whose agent is gone", async () => {
    const clock = createFakeClock();
    await using disk = await createDisk(clock);
    const acts = new Map<string, number>();
    const mesh = testMesh([testAgent(), testAgent({ name: "leaving" })]);
    const first = await harness({ model: silentModel(), clock, backend: await disk.open(), mesh });
    await first.engine.start();
    const late = await first.engine.submit({ message: "late", timeoutMs: 1_000 });
    const lateQueued = await first.engine.submit({ message: "later", sessionId: late.sessionId, timeoutMs: 1_000 });
    const leaving = await first.engine.submit({ message: "leaving", entryPoint: "to_leaving" });
    const stopping = first.engine.stop({ graceMs: 0 });
    await clock.advance(0);
    await stopping;
    await clock.advance(2_000);

    const backend = await disk.open();
    const second = await harness({
      model: scripted(),
      tools: [recordingTool("ask", () => second.pending, acts, clock)],
      clock,
      backend,
    });
    expect(await second.engine.start()).toEqual({ resumed: 0, ended: 3 });
    const ends = [late, lateQueued, leaving].map(({ runId }) => second.engine.waitForRun(runId, soon()));
    await clock.advance(0);
    expect(await Promise.all(ends)).toMatchObject([
      { status: "timed_out" },
      { status: "timed_out" },
      { status: "failed", error: { code: "no_such_agent", message: /^The agent leaving is not in the mesh/ } },
    ]);
    for (const { sessionId } of [late, leaving]) checkHistory(await backend.messages(sessionId));
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
