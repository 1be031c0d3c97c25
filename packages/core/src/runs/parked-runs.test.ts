/** Runs that leave memory while their calls wait for devices. */
import { systemClock } from "@leafmesh/protocol";
import { postgresAvailable } from "@leafmesh/testkit/postgres";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Mesh } from "../config/mesh.ts";
import { startTestDatabases, type TestDatabases } from "../storage/postgres/testing/databases.ts";
import {
  call,
  calls,
  checkHistory,
  done,
  FunctionModel,
  type HarnessOptions,
  harness,
  passTime,
  says,
  scripted,
  silentModel,
  testAgent,
  testMesh,
  tool,
  waitingTool,
} from "./testing/index.ts";

const soon = () => AbortSignal.timeout(10_000);

/** An engine with one worker, so that a run that is not parked keeps all others from working. */
async function oneWorker(options: Partial<HarnessOptions> & Pick<HarnessOptions, "model">) {
  const phone = waitingTool("phone");
  const mesh = options.mesh ?? testMesh([testAgent()], { maxConcurrentRuns: 1 });
  const world = await harness({ mesh, ...options, tools: [phone.tool, ...(options.tools ?? [])] });
  await world.engine.start();
  const contents = async (sessionId: string) =>
    (await world.engine.history(sessionId)).map(({ role, content }) => [role, content]);
  return { ...world, phone, contents };
}

/** Answers each message that asks for it with one call, and says what came of it. */
const caller = (...names: string[]) =>
  new FunctionModel(({ messages }) => {
    const last = messages.at(-1);
    if (last?.role === "tool") return says(`heard ${last.content}`);
    return last?.content === "talk" ? says("talked") : calls(...names.map((name, at) => call(name, {}, `call_${at}`)));
  });

describe("a run whose calls only wait", () => {
  it("gives its worker to others after a while and goes on when they have ended", async () => {
    const { engine, clock, phone, contents } = await oneWorker({ model: caller("phone") });
    const waiting = await engine.submit({ message: "ask" });
    const asked = await phone.untilBegun(1);
    const talking = await engine.submit({ message: "talk" });
    await clock.advance(1_000);
    expect((await engine.run(talking.runId))?.status).toBe("queued");
    const talked = await passTime(clock, engine.waitForRun(talking.runId, soon()));
    expect(talked.reply).toBe("talked");
    expect((await engine.run(waiting.runId))?.status).toBe("running");
    asked.end("shown");
    expect((await engine.waitForRun(waiting.runId, soon())).reply).toBe("heard shown");
    expect(await contents(waiting.sessionId)).toEqual([
      ["user", "ask"],
      ["assistant", ""],
      ["tool", "shown"],
      ["assistant", "heard shown"],
    ]);
    expect(phone.begun).toHaveLength(1);
    await engine.stop({ graceMs: 0 });
  });

  it("is told that it goes on by nobody: its stream shows one run that was started once", async () => {
    const { engine, backend, clock, phone } = await oneWorker({ model: caller("phone") });
    const { sessionId, runId } = await engine.submit({ message: "ask" });
    const asked = await phone.untilBegun(1);
    await clock.advance(60_000);
    asked.end("shown");
    await engine.waitForRun(runId, soon());
    const events = await backend.events(sessionId, { after: 0, limit: 100 });
    expect(events.map(({ type }) => type).filter((type) => type === "run.started")).toHaveLength(1);
    const finished = events.find(({ type }) => type === "tool.finished");
    expect(finished?.payload).toMatchObject({ success: true, duration_ms: 60_000 });
    await engine.stop({ graceMs: 0 });
  });

  it("keeps later messages of its conversation waiting", async () => {
    const { engine, clock, phone } = await oneWorker({ model: caller("phone") });
    const first = await engine.submit({ message: "ask" });
    const asked = await phone.untilBegun(1);
    const second = await engine.submit({ message: "talk", sessionId: first.sessionId });
    await clock.advance(60_000);
    expect((await engine.run(second.runId))?.status).toBe("queued");
    asked.end("shown");
    expect((await engine.waitForRun(second.runId, soon())).reply).toBe("talked");
    expect((await engine.history(first.sessionId)).map(({ content }) => content).slice(-3)).toEqual([
      "heard shown",
      "talk",
      "talked",
    ]);
    await engine.stop({ graceMs: 0 });
  });

  it("waits for all of its devices, and executes what the platform does once", async () => {
    const slow = Promise.withResolvers<void>();
    let lookups = 0;
    const lookup = tool("lookup", async () => {
      lookups++;
      await slow.promise;
      return done("found");
    });
    const { engine, backend, clock, phone } = await oneWorker({
      model: caller("phone", "lookup", "phone"),
      tools: [lookup],
    });
    const { sessionId, runId } = await engine.submit({ message: "ask" });
    const first = await phone.untilBegun(1);
    const second = await phone.untilBegun(2);
    const talking = await engine.submit({ message: "talk" });
    await clock.advance(10_000);
    expect((await engine.run(talking.runId))?.status, "the platform's call needs the worker").toBe("queued");
    slow.resolve();
    await passTime(clock, engine.waitForRun(talking.runId, soon()));
    second.end("second");
    await clock.advance(10_000);
    expect((await engine.run(runId))?.status).toBe("running");
    first.end("first");
    await engine.waitForRun(runId, soon());
    expect(lookups).toBe(1);
    const history = await backend.messages(sessionId);
    checkHistory(history);
    expect(history.filter(({ message }) => message.role === "tool").map(({ message }) => message.content)).toEqual([
      "first",
      "found",
      "second",
    ]);
    await engine.stop({ graceMs: 0 });
  });

  it("begins its calls one after the other where its agent does so", async () => {
    const mesh = testMesh([testAgent({ allowParallelToolCalls: false })], { maxConcurrentRuns: 1 });
    const { engine, clock, phone } = await oneWorker({ model: caller("phone", "phone"), mesh });
    const { runId } = await engine.submit({ message: "ask" });
    const first = await phone.untilBegun(1);
    await clock.advance(10_000);
    expect(phone.begun).toHaveLength(1);
    first.end("first");
    const second = await phone.untilBegun(2);
    await clock.advance(10_000);
    second.end("second");
    expect((await engine.waitForRun(runId, soon())).reply).toBe("heard second");
    await engine.stop({ graceMs: 0 });
  });

  it("ends at once when it is cancelled, its calls first", async () => {
    const { engine, clock, phone, contents } = await oneWorker({ model: caller("phone") });
    const { sessionId, runId } = await engine.submit({ message: "ask" });
    const asked = await phone.untilBegun(1);
    await clock.advance(10_000);
    expect(await engine.cancelRun(runId)).toMatchObject({ status: "cancelled" });
    expect(asked.interruptions).toEqual(["the run was interrupted: cancelled"]);
    expect(await contents(sessionId)).toEqual([
      ["user", "ask"],
      ["assistant", ""],
      ["tool", "interrupted"],
    ]);
    const next = await engine.submit({ message: "talk", sessionId });
    expect((await engine.waitForRun(next.runId, soon())).reply).toBe("talked");
    await engine.stop({ graceMs: 0 });
  });

  it("ends at its deadline although no worker is free", async () => {
    const { engine, clock, phone } = await oneWorker({
      model: new FunctionModel((request, options) =>
        request.messages.at(-1)?.content === "hog" ? silentModel().answer(request, options) : calls(call("phone")),
      ),
    });
    const { runId } = await engine.submit({ message: "ask", timeoutMs: 30_000 });
    const asked = await phone.untilBegun(1);
    await clock.advance(10_000);
    await engine.submit({ message: "hog" });
    await clock.advance(10_000);
    asked.end("late");
    const run = await passTime(clock, engine.waitForRun(runId, soon()));
    expect(run).toMatchObject({ status: "timed_out" });
    expect((await engine.history(run.sessionId)).at(-1)).toMatchObject({ role: "tool", content: "late" });
    await passTime(clock, engine.stop({ graceMs: 0 }));
  });

  it("goes on with the mesh that it started with", async () => {
    const opened: string[] = [];
    const models: FunctionModel[] = [];
    const { engine, clock, phone } = await oneWorker({
      model: caller("phone"),
      more: {
        models: (mesh: Mesh) => {
          opened.push(mesh.name);
          const model = scripted(calls(call("phone")), says(`from ${mesh.name}`));
          models.push(model);
          return { model: async () => model, close: () => model.close() };
        },
      },
      mesh: { ...testMesh(), name: "before" },
    });
    const { runId } = await engine.submit({ message: "ask" });
    const asked = await phone.untilBegun(1);
    await clock.advance(10_000);
    engine.swapMesh({ ...testMesh(), name: "after" });
    await clock.advance(10_000);
    expect(models[0]?.closed).toBe(false);
    asked.end("shown");
    expect((await engine.waitForRun(runId, soon())).reply).toBe("from before");
    await expect.poll(() => models[0]?.closed).toBe(true);
    expect(opened).toEqual(["before", "after"]);
    await engine.stop({ graceMs: 0 });
  });

  it("is waited for when the mesh stops, and left to the next start when that takes too long", async () => {
    const { engine, clock, phone } = await oneWorker({ model: caller("phone") });
    const kept = await engine.submit({ message: "ask" });
    const left = await engine.submit({ message: "ask" });
    await clock.advance(10_000);
    const [first, second] = [await phone.untilBegun(1), await phone.untilBegun(2)];
    await clock.advance(10_000);
    const leftBehind = engine.waitForRun(left.runId, soon());
    const refused = expect(leftBehind).rejects.toMatchObject({ code: "stopping" });
    const stopped = engine.stop({ graceMs: 5_000 });
    first.end("shown");
    expect((await engine.waitForRun(kept.runId, soon())).reply).toBe("heard shown");
    await passTime(clock, stopped);
    await refused;
    expect(second.interruptions).toEqual(["the run was interrupted: shutdown"]);
    expect((await engine.run(left.runId))?.status).toBe("running");
  });

  it("does not lose an end that comes in the moment it is parked", async () => {
    const { engine, clock, phone } = await oneWorker({ model: caller("phone"), more: { parkAfterMs: 0 } });
    for (let attempt = 0; attempt < 20; attempt++) {
      const { runId } = await engine.submit({ message: "ask" });
      const asked = await phone.untilBegun(attempt + 1);
      const passing = clock.advance(1);
      for (let turn = 0; turn < attempt; turn++) await Promise.resolve();
      asked.end("shown");
      await passing;
      expect((await passTime(clock, engine.waitForRun(runId, soon()))).reply).toBe("heard shown");
    }
    await engine.stop({ graceMs: 0 });
  });
});

describe.skipIf(!postgresAvailable())("parked runs of processes that share a store", { timeout: 30_000 }, () => {
  let databases: TestDatabases;
  beforeAll(async () => {
    databases = await startTestDatabases();
  }, 60_000);
  afterAll(() => databases?.stop());

  it("stay with their process, can be cancelled from another one, and let that one work", async () => {
    const url = await databases.create();
    const [first, second] = [await databases.open(url), await databases.open(url)];
    const more = { clock: systemClock, parkAfterMs: 0 };
    const a = await oneWorker({ model: caller("phone"), backend: first, more });
    const asked = await a.engine.submit({ message: "ask" });
    const other = await a.engine.submit({ message: "ask" });
    const [one] = [await a.phone.untilBegun(1), await a.phone.untilBegun(2)];
    const b = await oneWorker({ model: caller("phone"), backend: second, more });
    const talking = await b.engine.submit({ message: "talk" });
    expect((await a.engine.waitForRun(talking.runId, soon())).reply).toBe("talked");
    const two = one.scope.invocation.runId === asked.runId ? other : asked;
    expect(await b.engine.cancelRun(two.runId)).toMatchObject({ status: "cancelled" });
    one.end("shown");
    const kept = one.scope.invocation.runId;
    expect((await b.engine.waitForRun(kept, soon())).reply).toBe("heard shown");
    expect(b.phone.begun).toHaveLength(0);
    for (const { engine, backend } of [a, b]) {
      await engine.stop({ graceMs: 0 });
      await backend.close();
    }
  });

  it("are let go of by a process that was taken for dead, and go on in the one that took them over", async () => {
    const url = await databases.create();
    const [first, second] = [await databases.open(url), await databases.open(url)];
    const more = { clock: systemClock, parkAfterMs: 0 };
    const a = await oneWorker({ model: caller("phone"), backend: first, more });
    const { runId, sessionId } = await a.engine.submit({ message: "ask" });
    const lost = await a.phone.untilBegun(1);
    const talking = await a.engine.submit({ message: "talk" });
    await a.engine.waitForRun(talking.runId, soon());
    const stopped = a.backend.queue.stop();
    const b = await oneWorker({ model: caller("phone"), backend: second, more });
    const looksDead = async (): Promise<number> => {
      const job =
        "update leafmesh_jobs.job set heartbeat_on = now() - interval '1 hour' where state = 'active' and retry_count = 0";
      await databases.server.query(new URL(url).pathname.slice(1), job);
      return b.phone.begun.length;
    };
    await expect.poll(looksDead, { timeout: 15_000 }).toBe(1);
    await expect.poll(() => lost.interruptions, { timeout: 15_000 }).toEqual(["the run was interrupted: shutdown"]);
    (await b.phone.untilBegun(1)).end("shown");
    expect((await b.engine.waitForRun(runId, soon())).reply).toBe("heard shown");
    expect(await second.events(sessionId, { types: ["run.finished"] })).toHaveLength(1);
    await stopped;
    for (const { engine, backend } of [a, b]) {
      await engine.stop({ graceMs: 0 });
      await backend.close();
    }
  });
});
