/** Runs that wait for their client, on the engine: restarts at every point, mixed turns, approvals, deadlines. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createFakeClock } from "@leafmesh/testkit";
import { afterEach, describe, expect, it } from "vitest";
import {
  call,
  calls,
  checkHistory,
  createDisk,
  type FunctionModel,
  harness,
  memoryBackend,
  says,
  scripted,
} from "../runs/testing/index.ts";
import type { Backend, RunRecord } from "../storage/contract.ts";
import { answer, approval, BOOK, clientMesh, strict, submit } from "./test-runs.ts";

const soon = () => AbortSignal.timeout(10_000);

/** The run once it stands as `status`. */
async function reaches(backend: Backend, runId: string, status: RunRecord["status"]): Promise<RunRecord> {
  for (let looks = 0; looks < 10_000; looks++) {
    const run = await backend.run(runId);
    if (run?.status === status) return run;
    await new Promise((resolve) => setImmediate(resolve));
  }
  throw new Error(`the run does not become ${status}: ${JSON.stringify(await backend.run(runId))}`);
}

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

/** A tool of the mesh behind a real socket; `bodies` are the calls that came. */
async function bookingService(status = 200) {
  const bodies: string[] = [];
  const server = createServer((incoming, response) => {
    let body = "";
    incoming.on("data", (chunk) => {
      body += chunk;
    });
    incoming.on("end", () => {
      bodies.push(body);
      response.writeHead(status).end("booked");
    });
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { bodies, tool: { ...BOOK, url: `http://127.0.0.1:${port}/book` } };
}

function toolTexts(model: FunctionModel, nth: number): readonly string[] {
  return (model.requests[nth]?.messages ?? []).flatMap((message) => (message.role === "tool" ? [message.content] : []));
}

async function _frameTypes(backend: Backend, runId: string): Promise<readonly string[]> {
  const frames = await backend.frames(runId);
  expect(frames.map(({ seq }) => seq)).toEqual(frames.map((_, index) => index + 1));
  return frames.map(({ type }) => type);
}

describe("an approval", () => {
  it("that is refused executes nothing, and the model reads why", async () => {
    const { bodies, tool: book } = await bookingService();
    const model = strict(scripted(calls(call("book", {}, "c")), says("A pity.")));
    const { engine, backend } = await harness({ model, mesh: clientMesh([book]) });
    await engine.start();
    const { runId } = await submit(engine, { run: { clientTools: "end", clientToolTimeoutMs: 60_000 } });
    await reaches(backend, runId, "suspended");
    await engine.resumeRun(runId, approval("reject", { message: "Not today." }), "key");
    await engine.waitForRun(runId, soon());
    expect(toolTexts(model, 1)[0]).toContain("a person rejected the call. They said: Not today.");
    expect(bodies).toEqual([]);
  });

  it("that names another call decides about nothing", async () => {
    const { bodies, tool: book } = await bookingService();
    const model = strict(scripted(calls(call("book", {}, "a"), call("book", {}, "b")), says("Both.")));
    const { engine, backend } = await harness({ model, mesh: clientMesh([book]) });
    await engine.start();
    const { runId } = await submit(engine);
    await reaches(backend, runId, "suspended");
    await engine.resumeRun(runId, approval("approve", { tool_call_id: "a" }), "key");
    while ((await backend.waits({ runId })).length < 2) await new Promise((resolve) => setImmediate(resolve));
    await reaches(backend, runId, "suspended");
    expect(await engine.resumeRun(runId, approval("approve", { tool_call_id: "a" }), "key")).toMatchObject({
      status: "repeated",
    });
    expect(await engine.resumeRun(runId, approval("reject", { tool_call_id: "a" }), "key")).toMatchObject({
      status: "refused",
      code: "tool_results_mismatch",
    });
    await engine.resumeRun(runId, approval("reject", { tool_call_id: "b" }), "key");
    await engine.waitForRun(runId, soon());
    expect(bodies).toHaveLength(1);
  });

  it("is not there to be had in a conversation", async () => {
    const { bodies, tool: book } = await bookingService();
    const model = strict(scripted(calls(call("book", {}, "c")), says("A pity.")));
    const { engine } = await harness({ model, mesh: clientMesh([book]) });
    await engine.start();
    const { runId } = await engine.submit({ message: "go" });
    await engine.waitForRun(runId, soon());
    expect(toolTexts(model, 1)[0]).toContain("needs an approval");
    expect(bodies).toEqual([]);
  });

  it("that nobody gives ends the run at its own deadline", async () => {
    const { tool: book } = await bookingService();
    const clock = createFakeClock();
    const model = strict(scripted(calls(call("book", {}, "c"))));
    const { engine, backend } = await harness({ model, mesh: clientMesh([book]), clock });
    await engine.start();
    const { runId } = await submit(engine, { timeoutMs: 90_000 });
    await reaches(backend, runId, "suspended");
    await clock.advance(90_001);
    expect(await reaches(backend, runId, "timed_out")).toMatchObject({
      failure: { class: "timeout", detail: "approval_deadline" },
    });
  });
});

describe("a tool of the mesh", () => {
  it("that fails says so, and an answer that is no success, too", async () => {
    const { tool: book } = await bookingService(500);
    const free = { ...book, requiresApproval: false };
    const away = { ...free, name: "away", url: "http://127.0.0.1:1/" };
    const metadata = { ...free, name: "metadata", url: "http://169.254.169.254/latest" };
    const model = strict(
      scripted(calls(call("book", {}, "a"), call("away", {}, "b"), call("metadata", {}, "c")), says("Oh.")),
    );
    const { engine } = await harness({ model, mesh: clientMesh([free, away, metadata]) });
    await engine.start();
    const { runId } = await engine.submit({ message: "go" });
    await engine.waitForRun(runId, soon());
    expect(toolTexts(model, 1)).toEqual([
      "error: the tool answered with the status 500. booked",
      "error: the tool could not be reached. Nothing was sent.",
      "error: the tool's address is not allowed. Nothing was sent.",
    ]);
  });
});

describe("a start with an open wait", () => {
  it("leaves one that is in time to its deadline, by the clock of this process", async () => {
    const clock = createFakeClock();
    await using disk = await createDisk(clock);
    const first = await disk.open();
    const before = await harness({
      model: strict(scripted(calls(call("highlight", {}, "a")))),
      mesh: clientMesh(),
      clock,
      backend: first,
    });
    await before.engine.start();
    const { runId } = await submit(before.engine);
    await reaches(first, runId, "suspended");
    await before.engine.stop({ graceMs: 0 });
    const backend = await disk.open();
    const { engine } = await harness({ model: strict(scripted()), mesh: clientMesh(), clock, backend });
    await engine.start();
    clock.setWallClock(clock.nowMs() - 3_600_000);
    await clock.advance(59_999);
    expect((await backend.run(runId))?.status).toBe("suspended");
    await clock.advance(2);
    await reaches(backend, runId, "timed_out");
    await engine.stop({ graceMs: 0 });
  });
});

describe("a run that waits", () => {
  it("answered and expiring at the same moment has one end, every time", async () => {
    let accepted = 0;
    for (let round = 0; round < 40; round++) {
      const clock = createFakeClock();
      const backend = await memoryBackend(clock);
      const model = strict(scripted(calls(call("highlight", {}, "a")), says("Done.")));
      const { engine } = await harness({ model, mesh: clientMesh(), clock, backend });
      await engine.start();
      const { runId, sessionId } = await submit(engine);
      await reaches(backend, runId, "suspended");
      await clock.advance(59_999 + (round % 3));
      const [resumed] = await Promise.all([
        engine.resumeRun(runId, answer(["a", "x"]), "key"),
        clock.advance(1 + (round % 2)),
      ]);
      const run = await reaches(backend, runId, resumed.status === "accepted" ? "succeeded" : "timed_out");
      if (resumed.status === "accepted") accepted++;
      expect(model.requests).toHaveLength(run.status === "succeeded" ? 2 : 1);
      checkHistory(await backend.messages(sessionId));
      await engine.stop({ graceMs: 0 });
    }
    expect(accepted).toBeGreaterThan(0);
    expect(accepted).toBeLessThan(40);
  });

  it("takes no answer after its deadline, also where nobody has ended it yet; nothing changes", async () => {
    const clock = createFakeClock();
    const backend = await memoryBackend(clock);
    const model = strict(scripted(calls(call("highlight", {}, "a"))));
    const before = await harness({ model, mesh: clientMesh(), clock, backend });
    await before.engine.start();
    const { runId } = await submit(before.engine);
    await reaches(backend, runId, "suspended");
    await before.engine.stop({ graceMs: 0 });
    clock.setWallClock(clock.nowMs() + 60_001);
    const { engine } = await harness({ model: strict(scripted()), mesh: clientMesh(), clock, backend });
    const taken = await engine.resumeRun(runId, answer(["a", "x"]), "key");
    expect(taken).toMatchObject({ status: "refused", code: "suspension_expired" });
    expect(await backend.run(runId)).toMatchObject({ status: "suspended" });
  });

  it("ends with its session", async () => {
    const model = strict(scripted(calls(call("highlight", {}, "a"))));
    const { engine, backend } = await harness({ model, mesh: clientMesh() });
    await engine.start();
    const { runId, sessionId } = await submit(engine);
    await reaches(backend, runId, "suspended");
    expect(await engine.isRunning(sessionId)).toBe(true);
    await engine.endSession(sessionId);
    expect(await backend.run(runId)).toMatchObject({ status: "cancelled" });
    expect((await backend.calls({ runId })).map(({ state }) => state)).toEqual(["used"]);
  });

  it("is waited for by whoever waits for its end", async () => {
    const model = strict(scripted(calls(call("highlight", {}, "a")), says("Done.")));
    const { engine, backend } = await harness({ model, mesh: clientMesh() });
    await engine.start();
    const { runId } = await submit(engine);
    const ended = engine.waitForRun(runId, soon());
    await reaches(backend, runId, "suspended");
    await engine.resumeRun(runId, answer(["a", "x"]), "key");
    expect(await ended).toMatchObject({ status: "succeeded", reply: "Done." });
  });

  it("goes on although its tool is gone by then", async () => {
    const model = strict(scripted(calls(call("highlight", {}, "a")), says("Done.")));
    const { engine, backend } = await harness({ model, mesh: clientMesh() });
    await engine.start();
    const { runId } = await submit(engine);
    await reaches(backend, runId, "suspended");
    engine.swapMesh(clientMesh([]));
    await engine.resumeRun(runId, answer(["a", "marked"]), "key");
    await engine.waitForRun(runId, soon());
    expect(toolTexts(model, 1)).toEqual(["marked"]);
  });
});
