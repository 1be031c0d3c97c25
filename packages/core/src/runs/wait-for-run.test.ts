import { createFakeClock } from "@leafmesh/testkit";
import { describe, expect, it } from "vitest";
import type { RunRecord } from "../storage/contract.ts";
import { harness, memoryBackend, silentModel } from "./testing/index.ts";

/** A run that no engine of this process has in hand, as one of another process. */
async function elsewhere() {
  const clock = createFakeClock();
  const backend = await memoryBackend(clock);
  const at = clock.nowMs();
  const run: RunRecord = {
    id: "run_1",
    sessionId: "ses_1",
    agent: "helper",
    status: "running",
    input: "go",
    createdAt: at,
    deadlineAt: at + 60_000,
    version: 1,
  };
  const session = { id: "ses_1", meshName: "m", entryPoint: "e", createdAt: at, lastActiveAt: at, context: {} };
  await backend.commit([
    { kind: "session.create", session },
    { kind: "run.create", run },
  ]);
  const finish = () =>
    backend.commit([
      { kind: "run.update", runId: run.id, version: 1, patch: { status: "succeeded", reply: "Done." } },
      {
        kind: "event.append",
        sessionId: session.id,
        at,
        event: { type: "run.finished", payload: { run_id: run.id, status: "succeeded", reply: "Done." } },
      },
    ]);
  const { engine } = await harness({ model: silentModel(), clock, backend });
  return { engine, finish };
}

describe("waiting for a run of another process", () => {
  it("ends when its end is stored", async () => {
    const { engine, finish } = await elsewhere();
    const waiting = engine.waitForRun("run_1", AbortSignal.timeout(10_000));
    await finish();
    expect(await waiting).toMatchObject({ status: "succeeded", reply: "Done." });
    expect(await engine.waitForRun("run_1", AbortSignal.timeout(10_000))).toMatchObject({ reply: "Done." });
  });

  it("ends with its signal, or when the engine stops", async () => {
    const { engine } = await elsewhere();
    const gone = new AbortController();
    const given = engine.waitForRun("run_1", gone.signal);
    const stopped = engine.waitForRun("run_1", AbortSignal.timeout(10_000));
    const expected = expect(stopped).rejects.toMatchObject({ code: "stopping" });
    gone.abort(new Error("the client went away"));
    await expect(given).rejects.toThrow("the client went away");
    await engine.stop({ graceMs: 0 });
    await expected;
  });
});

describe("waiting for a run in hand", () => {
  it("ends with its signal and leaves the run alone", async () => {
    const { engine } = await harness({ model: silentModel() });
    await engine.start();
    const { runId } = await engine.submit({ message: "go" });
    const gone = new AbortController();
    const waiting = engine.waitForRun(runId, gone.signal);
    gone.abort(new Error("the client went away"));
    await expect(waiting).rejects.toThrow("the client went away");
    await expect(engine.waitForRun(runId, gone.signal)).rejects.toThrow("the client went away");
    expect((await engine.run(runId))?.status).toMatch(/queued|running/);
    await engine.cancelRun(runId);
  });
});
