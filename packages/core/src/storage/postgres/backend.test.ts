/** What only a store that several processes share has to show. Each backend here stands for a process. */
import { Secret, type StoredEvent, silentLogger, systemClock, type TransientEvent } from "@leafmesh/protocol";
import { postgresAvailable } from "@leafmesh/testkit/postgres";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Backend, StorageError, type Write } from "../contract.ts";
import { createPostgresBackend, type PostgresBackend } from "./backend.ts";
import { startTestDatabases, type TestDatabases } from "./testing/databases.ts";

const T0 = 1_790_000_000_000;

const session = (id: string): Write => ({
  kind: "session.create",
  session: { id, meshName: "m", entryPoint: "e", createdAt: T0, lastActiveAt: T0, context: {} },
});
const run = (id: string, sessionId: string, createdAt = T0): Write => ({
  kind: "run.create",
  run: { id, sessionId, agent: "a", status: "queued", input: "hi", createdAt, deadlineAt: T0 * 2, version: 1 },
});
const event = (sessionId: string, message: string): Write => ({
  kind: "event.append",
  sessionId,
  at: T0,
  event: { type: "warning", payload: { code: "test", message } },
});
const message = (sessionId: string, runId: string): Write => ({
  kind: "message.append",
  message: { sessionId, runId, turn: 1, message: { role: "user", content: "x" }, createdAt: T0 },
});
const oneTo = (last: number): number[] => Array.from({ length: last }, (_, index) => index + 1);

function listen(backend: Backend, sessionId: string) {
  const events: StoredEvent[] = [];
  const transients: TransientEvent[] = [];
  let presences = 0;
  const stop = backend.subscribe(sessionId, {
    onEvents: (more) => void events.push(...more),
    onTransient: (one) => void transients.push(one),
    onPresence: () => void presences++,
  });
  return { events, transients, stop, presences: () => presences };
}

describe.skipIf(!postgresAvailable())("processes that share a PostgreSQL database", () => {
  let databases: TestDatabases;
  let url: string;
  const open: PostgresBackend[] = [];

  beforeAll(async () => {
    databases = await startTestDatabases();
  }, 60_000);
  afterAll(() => databases?.stop());
  beforeEach(async () => {
    url = await databases.create();
  });
  afterEach(async () => {
    await Promise.all(open.splice(0).map((backend) => backend.close()));
  });

  const join = async (): Promise<PostgresBackend> => {
    const backend = await databases.open(url);
    open.push(backend);
    return backend;
  };
  const both = async () => [await join(), await join()] as const;

  it("number a session's events without a gap, whoever commits, and hear all of them in order", async () => {
    const [a, b] = await both();
    await a.commit([session("s")]);
    const heard = [listen(a, "s"), listen(b, "s")];
    await b.lastEventSeq("s");
    await Promise.all(
      oneTo(40).map((index) => (index % 2 ? a : b).commit([event("s", `${index} x`), event("s", `${index} y`)])),
    );
    for (const { events } of heard) {
      await expect.poll(() => events.length).toBe(80);
      expect(events.map(({ seq }) => seq)).toEqual(oneTo(80));
    }
    expect(heard[0]?.events).toEqual(await b.events("s"));
  });

  it("let one of many concurrent updates of a run win", async () => {
    const [a, b] = await both();
    await a.commit([session("s"), run("r", "s")]);
    const results = await Promise.all(
      oneTo(20).map((index) =>
        (index % 2 ? a : b).commit([
          { kind: "run.update", runId: "r", version: 1, patch: { reply: `${index}` } },
          event("s", `${index}`),
        ]),
      ),
    );
    expect(results.filter(({ committed }) => committed)).toHaveLength(1);
    expect(await b.lastEventSeq("s")).toBe(1);
  });

  it("get out of a deadlock without the caller seeing it", async () => {
    const [a, b] = await both();
    await a.commit([session("s"), run("r1", "s"), run("r2", "s")]);
    // The server looks for a deadlock after a second.
    for (let round = 1; round <= 5; round++) {
      const update = (runId: string): Write => ({ kind: "run.update", runId, version: round, patch: {} });
      const results = await Promise.all([
        a.commit([update("r1"), update("r2")]),
        b.commit([update("r2"), update("r1")]),
      ]);
      expect(results.filter(({ committed }) => committed)).toHaveLength(1);
    }
  }, 30_000);

  it("bring transient events to each other, gathered and cut to what a notification carries", async () => {
    const [a, b] = await both();
    // A process that was alone learns with its next beat that it is not.
    const c = await join();
    await a.commit([session("s")]);
    const here = listen(b, "s");
    const text = `${"é\u0000😀".repeat(3_000)}!`;
    c.publishTransient("s", { type: "model.delta", payload: { run_id: "r", text: "Hel" } });
    c.publishTransient("s", { type: "model.delta", payload: { run_id: "r", text: "lo " } });
    c.publishTransient("s", { type: "model.delta", payload: { run_id: "r", text } });
    c.publishTransient("s", { type: "stream_end", payload: { reason: "over" } });
    await expect.poll(() => here.transients.at(-1)?.type).toBe("stream_end");
    const said = here.transients.flatMap((one) => (one.type === "model.delta" ? one.payload.text : []));
    expect(said.join("")).toBe(`Hello ${text}`);
  });

  it("see each other's streams, and tell who listens that they came and went", async () => {
    const [a, b] = await both();
    await a.commit([session("s")]);
    const heard = listen(b, "s");
    const stream = await a.attachStream("s", { executor: true });
    expect(await b.presence("s")).toMatchObject({ streams: 1, executors: 1, executorDeclared: true });
    await expect.poll(() => heard.presences()).toBe(1);
    await stream.close();
    await expect.poll(() => heard.presences()).toBe(2);
    const left = await b.presence("s");
    expect(left).toMatchObject({ streams: 0, executors: 0, executorDeclared: true });
    expect(Math.abs((left.executorLeftAt ?? 0) - Date.now())).toBeLessThan(60_000);
  });

  it("leave out the streams of a process that died", async () => {
    const [a, b] = await both();
    await a.commit([session("s")]);
    await a.attachStream("s", { executor: false });
    await databases.server.query(
      new URL(url).pathname.slice(1),
      "update leafmesh.processes set beat_at = beat_at - 60000 where id = (select process_id from leafmesh.streams)",
    );
    const seen = await b.presence("s");
    expect(seen.streams).toBe(0);
    expect(seen.streamLeftAt).toBeGreaterThan(0);
  });

  it("hand a session's runs out one at a time and in order, whoever takes them", async () => {
    const [a, b] = await both();
    const runs = oneTo(12).map((index) => [`r${index}`, `s${index % 3}`] as const);
    for (const id of ["s0", "s1", "s2"]) await a.commit([session(id)]);
    for (const [id, sessionId] of runs) await a.commit([run(id, sessionId)]);
    const inHand = new Set<string>();
    const done: string[] = [];
    const work = async ({ runId, sessionId }: { runId: string; sessionId: string }): Promise<void> => {
      expect(inHand.has(sessionId)).toBe(false);
      inHand.add(sessionId);
      await new Promise((resolve) => setTimeout(resolve, 5));
      inHand.delete(sessionId);
      done.push(runId);
    };
    await Promise.all([a, b].map((backend) => backend.queue.start({ concurrency: 2, work })));
    for (const [index, [runId, sessionId]] of runs.entries())
      await (index % 2 ? a : b).queue.push({ runId, sessionId });
    await expect.poll(() => done.length, { timeout: 20_000 }).toBe(12);
    for (const id of ["s0", "s1", "s2"]) {
      const ofSession = runs.filter(([, sessionId]) => sessionId === id).map(([runId]) => runId);
      expect(done.filter((runId) => ofSession.some((own) => own === runId))).toEqual(ofSession);
    }
  }, 30_000);

  it("take up runs that a dead process stored and did not push, once", async () => {
    const [a, b] = await both();
    await a.commit([session("s"), run("old", "s")]);
    expect(await Promise.resolve(b.queue.takeUp?.())).toBe(1);
    expect(await a.queue.takeUp?.()).toBe(0);
    await a.commit([session("t"), run("new", "t", Date.now() + 60_000)]);
    expect(await a.queue.takeUp?.()).toBe(0);
  });

  it("give a run that came to no end to the next process, and take it from one that is taken for dead", async () => {
    const [a, b] = await both();
    await a.commit([session("s"), run("r", "s")]);
    let signal: AbortSignal | undefined;
    let letGo = (): void => {};
    await a.queue.start({
      concurrency: 1,
      work: (held) =>
        new Promise((resolve) => {
          signal = held.signal;
          letGo = () => resolve("unfinished");
        }),
    });
    await a.queue.push({ runId: "r", sessionId: "s" });
    await expect.poll(() => signal).toBeDefined();
    expect(await a.commit([message("s", "r")])).toMatchObject({ committed: true });

    // As if a had been frozen: its sign of life is long past when b looks.
    const name = new URL(url).pathname.slice(1);
    await databases.server.query(name, "update leafmesh_jobs.job set heartbeat_on = now() - interval '1 hour'");
    const taken: string[] = [];
    await b.queue.start({ concurrency: 1, work: async ({ runId }) => void taken.push(runId) });
    await expect.poll(() => taken, { timeout: 15_000 }).toEqual(["r"]);
    expect(await a.commit([message("s", "r"), event("s", "late")])).toEqual({
      committed: false,
      at: 0,
      reason: "conflict",
    });
    expect(signal?.aborted).toBe(true);
    letGo();
    await a.queue.stop();
    expect(await b.messages("s")).toHaveLength(1);
  }, 30_000);

  it("agree on the first value that any of them brought", async () => {
    const [a, b] = await both();
    const values = await Promise.all([a.peers?.agree("key", "one"), b.peers?.agree("key", "two")]);
    expect(new Set(values).size).toBe(1);
    expect(await b.peers?.agree("key", "three")).toBe(values[0]);
  });

  it("tell each other what is no event, and say when it is too long", async () => {
    const [a, b] = await both();
    const heard: unknown[] = [];
    const stop = b.peers?.listen("topic", (body) => heard.push(body));
    expect(a.peers?.tell("other", { n: 0 })).toBe(true);
    expect(a.peers?.tell("topic", { n: 1 })).toBe(true);
    expect(a.peers?.tell("topic", { n: "x".repeat(9_000) })).toBe(false);
    expect(a.peers?.tell("topic", { n: 2 })).toBe(true);
    await expect.poll(() => heard).toEqual([{ n: 1 }, { n: 2 }]);
    stop?.();
    expect(await a.peers?.count()).toBe(2);
  });

  it("start together on an empty database", async () => {
    const empty = await databases.server.createDatabase("empty_one");
    const backends = await Promise.all(oneTo(4).map(() => databases.open(empty)));
    open.push(...backends);
    await backends[0]?.commit([session("s")]);
    expect(await backends[3]?.session("s")).toMatchObject({ id: "s" });
    expect(backends.filter(({ migrated }) => migrated?.from === 0)).toHaveLength(1);
  }, 30_000);

  it("refuse a database of a later release, with both versions in the message", async () => {
    const name = new URL(url).pathname.slice(1);
    await databases.server.query(name, "insert into leafmesh.migrations values (99, 'later', 0)");
    await expect(databases.open(url)).rejects.toMatchObject({
      name: "StorageError",
      code: "too_new",
      message: expect.stringContaining("schema 99"),
    });
  });

  it("name host and database of a server that is not there, and never the password", async () => {
    const there = new URL(url);
    for (const [address, said] of [
      [`postgres://u:SECRET@127.0.0.1:1/mesh`, "127.0.0.1:1/mesh cannot be reached"],
      [`postgres://leafmesh:SECRET@${there.host}/mesh`, "refuses the login"],
      [`${url}_missing`, "has no such database"],
    ] as const) {
      const backend = createPostgresBackend({
        url: new Secret(address),
        processId: "p",
        clock: systemClock,
        logger: silentLogger,
      });
      const error = await backend.migrate().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(StorageError);
      expect(error).toMatchObject({ code: "unavailable", message: expect.stringContaining(said) });
      expect(String(error)).not.toContain("SECRET");
      expect(String(error)).not.toContain(databases.server.password);
      await backend.close();
    }
  });

  it("go on by themselves when the database was killed and comes back", async () => {
    const own = await startTestDatabases({ durable: true });
    try {
      const address = await own.create();
      const a = await own.open(address);
      const b = await own.open(address);
      await a.commit([session("s")]);
      const heard = listen(b, "s");
      await b.lastEventSeq("s");
      await a.commit([event("s", "before")]);
      await expect.poll(() => heard.events.length).toBe(1);
      // Some of these stand between two statements of a transaction when the connection breaks.
      const inFlight = oneTo(30).map((index) => a.commit(oneTo(10).map((part) => event("s", `${index} ${part}`))));
      const outcomes = Promise.allSettled(inFlight);
      await inFlight[0];
      await own.server.kill();
      for (const outcome of await outcomes) {
        if (outcome.status === "rejected") expect(outcome.reason).toMatchObject({ name: "StorageError" });
      }
      await expect(a.commit([event("s", "meanwhile")])).rejects.toMatchObject({ code: "unavailable" });
      await own.server.start();
      const committed = async (): Promise<boolean> => {
        try {
          return (await a.commit([event("s", "after")])).committed;
        } catch {
          return false;
        }
      };
      await expect.poll(committed, { timeout: 20_000 }).toBe(true);
      await expect.poll(() => heard.events.length, { timeout: 20_000 }).toBeGreaterThanOrEqual(2);
      expect(heard.events.map(({ seq }) => seq)).toEqual(oneTo(heard.events.length));
      await Promise.all([a.close(), b.close()]);
    } finally {
      await own.stop();
    }
  }, 60_000);
});
