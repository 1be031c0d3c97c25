/** Storage that fails under the engine, and comes back. */
import { createFakeClock } from "@leafmesh/testkit";
import { describe, expect, it } from "vitest";
import { type Backend, StorageError, type Write } from "../storage/contract.ts";
import {
  call,
  calls,
  checkHistory,
  converse,
  done,
  harness,
  memoryBackend,
  passTime,
  recordingTool,
  says,
  scripted,
  silentModel,
  tool,
} from "./testing/index.ts";

/** Fails the commits whose number `fails` names; `stored`: after having written them, as a connection that breaks does. */
function failing(backend: Backend, fails: (number: number) => boolean, stored: boolean): Backend {
  let commits = 0;
  return {
    ...backend,
    async commit(writes) {
      if (!fails(++commits)) return backend.commit(writes);
      if (stored) await backend.commit(writes);
      throw new StorageError("unavailable", "the store is away");
    },
  };
}

const turns = () =>
  scripted(calls(call("note", {}, "a"), call("note", {}, "b")), says("Noted."), says("Noted."), says("Noted."));

describe("a store that fails", () => {
  it.each([
    [2, false],
    [2, true],
    [3, false],
    [3, true],
    [4, false],
    [4, true],
  ])("at commit %i (stored: %s) is waited for, and nothing is executed twice", async (number, stored) => {
    const clock = createFakeClock();
    const backend = await memoryBackend(clock);
    let notes = 0;
    const note = tool("note", () => done(`noted ${++notes}`));
    const model =
      number === 2 && !stored
        ? scripted(...Array(2).fill(calls(call("note", {}, "a"), call("note", {}, "b"))), says("Noted."))
        : turns();
    const { engine, logger } = await harness({
      model,
      tools: [note],
      clock,
      backend: failing(backend, (commit) => commit === number, stored),
    });
    await engine.start();
    const { run, sessionId } = await passTime(clock, converse(engine, "go"));
    expect(run).toMatchObject({ status: "succeeded", reply: "Noted." });
    expect(notes).toBe(2);
    const messages = await backend.messages(sessionId);
    checkHistory(messages);
    expect(messages.filter(({ message }) => message.role === "tool").map(({ message }) => message.content)).toEqual([
      "noted 1",
      "noted 2",
    ]);
    expect(await backend.events(sessionId, { types: ["run.finished"] })).toHaveLength(1);
    expect(logger.lines).toMatchObject([{ level: "error", fields: { error: { code: "unavailable" } } }]);
    await engine.stop({ graceMs: 0 });
    expect(clock.pendingTimers).toBe(0);
  });

  it("for long is asked again ever more rarely, and a run past its deadline ends once it is back", async () => {
    const clock = createFakeClock();
    const backend = await memoryBackend(clock);
    let away = false;
    let tries = 0;
    const asked = Promise.withResolvers<void>();
    const { engine } = await harness({
      model: scripted(calls(call("note"))),
      tools: [
        tool("note", () => {
          away = true;
          asked.resolve();
          return done("noted");
        }),
      ],
      clock,
      backend: failing(backend, () => away && ++tries > 0, false),
    });
    await engine.start();
    const { runId, sessionId } = await engine.submit({ message: "go", timeoutMs: 60_000 });
    await asked.promise;
    await clock.advance(600_000);
    expect(tries).toBeGreaterThan(10);
    expect(tries).toBeLessThan(40);
    away = false;
    const run = await passTime(clock, engine.waitForRun(runId, AbortSignal.timeout(10_000)));
    expect(run.status).toBe("timed_out");
    checkHistory(await backend.messages(sessionId));
    expect((await engine.history(sessionId)).at(-1)).toMatchObject({ role: "tool", content: "noted" });
  });

  it("does not hold up a stop", async () => {
    const clock = createFakeClock();
    const backend = await memoryBackend(clock);
    const { engine, logger } = await harness({
      model: scripted(...Array(20).fill(says("Hello."))),
      clock,
      backend: failing(backend, (commit) => commit > 1, false),
    });
    await engine.start();
    const { runId } = await engine.submit({ message: "go" });
    await passTime(clock, engine.stop({ graceMs: 2_000 }));
    expect((await backend.run(runId))?.status).toBe("running");
    expect(logger.lines.every(({ fields }) => fields?.error instanceof StorageError)).toBe(true);
    expect(clock.pendingTimers).toBe(0);
  });

  it("in a way it must not leaves the run to the next start, and tells whoever waits", async () => {
    const clock = createFakeClock();
    const backend = await memoryBackend(clock);
    let broken = true;
    const { engine, logger } = await harness({
      model: scripted(says("Hello.")),
      clock,
      backend: {
        ...backend,
        async commit(writes) {
          if (broken && writes.some(({ kind }) => kind === "run.update")) throw new TypeError("bug");
          return backend.commit(writes);
        },
      },
    });
    await engine.start();
    const { runId } = await engine.submit({ message: "go" });
    await expect(engine.waitForRun(runId, AbortSignal.timeout(10_000))).rejects.toThrow("the next start takes it up");
    expect((await backend.run(runId))?.status).toBe("running");
    expect(logger.lines.map(({ level }) => level)).toEqual(["error", "error"]);
    broken = false;
    expect((await engine.cancelRun(runId)).status).toBe("cancelled");
  });

  it("refuses a message and forgets it", async () => {
    const clock = createFakeClock();
    const backend = await memoryBackend(clock);
    const { engine } = await harness({ model: silentModel(), clock, backend: failing(backend, () => true, false) });
    await expect(engine.submit({ message: "go" })).rejects.toBeInstanceOf(StorageError);
    expect(await backend.sessions({ limit: 1 })).toEqual([]);
  });
});

describe("a record that its tool leaves open", () => {
  it.each([
    ["reached", "maybe", "failed", true],
    ["not reached", "no", "unreachable", undefined],
  ] as const)("is settled by how far it got: %s", async (_title, reached, outcome, mayHaveHappened) => {
    const broken = tool(
      "ask",
      async ({ invocation: { arguments: given, ...invocation } }) => {
        const id = `ask_${invocation.position}`;
        const opened = await made.pending.open({ ...invocation, id, tool: "ask", arguments: given, expiresAt: 0 });
        if (opened.status === "moved") await made.pending.advance(opened.call, { reached });
        throw new Error("bug");
      },
      { ownDeadline: true },
    );
    const made = await harness({ model: scripted(calls(call("ask")), says("Sorry.")), tools: [broken] });
    await made.engine.start();
    const { runId, sessionId } = await converse(made.engine, "go");
    const [record] = await made.backend.calls({ runId });
    expect(record).toMatchObject({ state: "used", outcome, reached });
    expect((await made.backend.wait(record?.waitId ?? ""))?.state).toBe("continued");
    expect(await made.backend.events(sessionId, { types: ["ask.settled"] })).toMatchObject([
      { payload: { ask_id: "ask_0", result: { outcome, success: false, reason: "mesh_restarted" } } },
    ]);
    expect(record?.result).toMatchObject(mayHaveHappened ? { may_have_happened: true } : { error: /nothing happened/ });
  });

  it("is settled when the tool does not let go of a cancelled run", async () => {
    const acted = Promise.withResolvers<void>();
    const deaf = tool(
      "ask",
      async ({ invocation: { arguments: given, ...invocation } }) => {
        await made.pending.open({ ...invocation, id: "ask_1", tool: "ask", arguments: given, expiresAt: 0 });
        acted.resolve();
        return new Promise(() => {});
      },
      { ownDeadline: true },
    );
    const made = await harness({ model: scripted(calls(call("ask"))), tools: [deaf] });
    await made.engine.start();
    const { runId } = await made.engine.submit({ message: "go" });
    await acted.promise;
    await passTime(made.clock, made.engine.cancelRun(runId));
    expect(await made.backend.calls({ runId })).toMatchObject([{ state: "used", outcome: "unreachable" }]);
  });
});

describe("a call that somebody else moves at the same time", () => {
  it("does not keep its result out of the history", async () => {
    const clock = createFakeClock();
    const backend = await memoryBackend(clock);
    let bumped = 0;
    /** Moves the call between the engine's look at it and its commit, as a late reply may. */
    const meddling: Backend = {
      ...backend,
      async commit(writes) {
        const used = writes.find((write): write is Extract<Write, { kind: "call.update" }> => isUse(write));
        if (used && bumped++ < 2) {
          await backend.commit([{ kind: "call.update", callId: used.callId, version: used.version, patch: {} }]);
        }
        return backend.commit(writes);
      },
    };
    const acts = new Map<string, number>();
    const made = await harness({
      model: scripted(calls(call("ask")), says("Done.")),
      tools: [recordingTool("ask", () => made.pending, acts, clock)],
      clock,
      backend: meddling,
    });
    await made.engine.start();
    const { run, sessionId, runId } = await converse(made.engine, "go");
    expect(run.reply).toBe("Done.");
    expect([...acts.values()]).toEqual([1]);
    expect(bumped).toBe(3);
    expect(await backend.calls({ runId })).toMatchObject([{ state: "used", outcome: "done" }]);
    checkHistory(await backend.messages(sessionId));
  });
});

function isUse(write: Write): boolean {
  return write.kind === "call.update" && write.patch.state === "used";
}
