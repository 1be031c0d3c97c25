import { Secret } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { describe, expect, it } from "vitest";
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
  recordingTool,
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
