/** Engines of several processes on one PostgreSQL. Each backend and engine here stands for a process. */
import { systemClock } from "@leafmesh/protocol";
import { postgresAvailable } from "@leafmesh/testkit/postgres";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { PostgresBackend } from "../storage/postgres/backend.ts";
import { startTestDatabases, type TestDatabases } from "../storage/postgres/testing/databases.ts";
import type { Engine } from "./engine.ts";
import { FunctionModel, harness, says } from "./testing/index.ts";

describe.skipIf(!postgresAvailable())("engines that share a store", { timeout: 30_000 }, () => {
  let databases: TestDatabases;
  let url: string;
  const open: { readonly engine: Engine; readonly backend: PostgresBackend }[] = [];

  beforeAll(async () => {
    databases = await startTestDatabases();
  }, 60_000);
  afterAll(() => databases?.stop());
  beforeEach(async () => {
    url = await databases.create();
  });
  afterEach(async () => {
    for (const { engine, backend } of open.splice(0)) {
      await engine.stop({ graceMs: 0 });
      await backend.close();
    }
  });

  /** A model that holds its answer to "wait" until it is told to give it, or, unless it is frozen, its signal says that nobody wants it. */
  const createHolder = (isFrozen = false) => {
    const asked: string[] = [];
    const release = Promise.withResolvers<void>();
    const model = new FunctionModel(async (request, { signal }) => {
      const said = String(request.messages.findLast(({ role }) => role === "user")?.content);
      asked.push(said);
      const aborted = new Promise((end) => signal.addEventListener("abort", end));
      if (said === "wait") await (isFrozen ? release.promise : Promise.race([release.promise, aborted]));
      return says(`answer to ${said}`);
    });
    return { model, asked, release: release.resolve };
  };

  const join = async (holder: ReturnType<typeof createHolder>) => {
    const backend = await databases.open(url);
    const { engine } = await harness({
      model: holder.model,
      backend,
      more: { clock: systemClock },
    });
    const process = { engine, backend };
    open.push(process);
    return process;
  };
  const soon = () => AbortSignal.timeout(20_000);
  const said = async ({ engine }: { engine: Engine }, sessionId: string) =>
    (await engine.history(sessionId)).map(({ content }) => content);

  it("answer every message once, whoever took it in", async () => {
    const holder = createHolder();
    const processes = [await join(holder), await join(holder), await join(holder)] as const;
    for (const { engine } of processes) await engine.start();
    const { sessionId } = await processes[0].engine.createSession({});
    for (let index = 0; index < 6; index++) {
      const { runId } = await (processes[index % 3] ?? processes[0]).engine.submit({ sessionId, message: `${index}` });
      const run = await (processes[(index + 1) % 3] ?? processes[0]).engine.waitForRun(runId, soon());
      expect(run).toMatchObject({ status: "succeeded", reply: `answer to ${index}` });
    }
    expect(holder.asked).toEqual(["0", "1", "2", "3", "4", "5"]);
  });

  it("cancel what another one drives, and what waits behind it", async () => {
    const holder = createHolder();
    const a = await join(holder);
    const b = await join(holder);
    await a.engine.start();
    const first = await a.engine.submit({ message: "wait" });
    await expect.poll(() => holder.asked).toEqual(["wait"]);
    await b.engine.start();
    const second = await a.engine.submit({ message: "behind", sessionId: first.sessionId });
    expect(await b.engine.cancelRun(second.runId)).toMatchObject({ status: "cancelled" });
    expect(await b.engine.cancelRun(first.runId)).toMatchObject({ status: "cancelled" });
    expect(await a.engine.waitForRun(first.runId, soon())).toMatchObject({ status: "cancelled" });
    expect(await b.engine.cancelRun(first.runId)).toMatchObject({ status: "cancelled" });
    await expect(b.engine.cancelRun("run_none")).rejects.toMatchObject({ code: "no_such_run" });
    const third = await b.engine.submit({ message: "and now", sessionId: first.sessionId });
    await b.engine.waitForRun(third.runId, soon());
    expect(holder.asked).toEqual(["wait", "and now"]);
  });

  it("hand an unfinished run over at once when one of them stops", async () => {
    const holder = createHolder();
    const a = await join(holder);
    const b = await join(holder);
    await a.engine.start();
    const { runId, sessionId } = await a.engine.submit({ message: "wait" });
    await expect.poll(() => holder.asked).toEqual(["wait"]);
    await b.engine.start();
    const stoppedAt = performance.now();
    await a.engine.stop({ graceMs: 0 });
    await expect.poll(() => holder.asked, { timeout: 10_000 }).toEqual(["wait", "wait"]);
    expect(performance.now() - stoppedAt).toBeLessThan(5_000);
    holder.release();
    expect(await b.engine.waitForRun(runId, soon())).toMatchObject({ status: "succeeded" });
    expect(await said(b, sessionId)).toEqual(["wait", "answer to wait"]);
  });

  it("keep the history whole when one that was taken for dead goes on", async () => {
    const frozen = createHolder(true);
    const living = createHolder();
    living.release();
    const a = await join(frozen);
    const b = await join(living);
    await a.engine.start();
    const { runId, sessionId } = await a.engine.submit({ message: "wait" });
    const waiting = a.engine.waitForRun(runId, soon());
    await expect.poll(() => frozen.asked).toEqual(["wait"]);
    const name = new URL(url).pathname.slice(1);
    // It keeps what it has in hand and takes nothing new, its own run least of all.
    const stopped = a.backend.queue.stop();
    await b.engine.start();
    const looksDead = async (): Promise<readonly string[]> => {
      const job =
        "update leafmesh_jobs.job set heartbeat_on = now() - interval '1 hour' where state = 'active' and retry_count = 0";
      await databases.server.query(name, job);
      return living.asked;
    };
    await expect.poll(looksDead, { timeout: 15_000 }).toEqual(["wait"]);
    frozen.release();
    expect(await waiting).toMatchObject({ status: "succeeded" });
    expect(await b.engine.waitForRun(runId, soon())).toMatchObject({ status: "succeeded" });
    expect(await said(a, sessionId)).toEqual(["wait", "answer to wait"]);
    expect(await b.backend.events(sessionId, { types: ["run.finished"] })).toHaveLength(1);
    await stopped;
  });

  it("end a run whose deadline comes before its turn", async () => {
    const holder = createHolder();
    const a = await join(holder);
    await a.engine.start();
    const first = await a.engine.submit({ message: "wait" });
    await expect.poll(() => holder.asked).toEqual(["wait"]);
    const second = await a.engine.submit({ message: "too late", sessionId: first.sessionId, timeoutMs: 500 });
    expect(await a.engine.waitForRun(second.runId, soon())).toMatchObject({ status: "timed_out" });
    holder.release();
    expect(await a.engine.waitForRun(first.runId, soon())).toMatchObject({ status: "succeeded" });
    expect(holder.asked).toEqual(["wait"]);
  });
});
