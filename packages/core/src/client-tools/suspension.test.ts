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
  done,
  FunctionModel,
  harness,
  memoryBackend,
  mortalBackend,
  says,
  scripted,
  tool,
} from "../runs/testing/index.ts";
import type { Backend, RunRecord } from "../storage/contract.ts";
import { answer, approval, BOOK, clientMesh, HIGHLIGHT, strict, submit } from "./test-runs.ts";

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

async function frameTypes(backend: Backend, runId: string): Promise<readonly string[]> {
  const frames = await backend.frames(runId);
  expect(frames.map(({ seq }) => seq)).toEqual(frames.map((_, index) => index + 1));
  return frames.map(({ type }) => type);
}

describe("E.10/3: a process that dies at any commit", { timeout: 60_000 }, () => {
  const MIXED = calls(call("note", {}, "a"), call("highlight", { selector: "#price" }, "b"));

  async function play(atCommit: number, stored: boolean) {
    const clock = createFakeClock();
    await using disk = await createDisk(clock);
    let notes = 0;
    const note = tool("note", () => done(`noted ${++notes}`));
    const model = () =>
      strict(
        new FunctionModel(({ messages }) => {
          const turn = messages.filter(({ role }) => role === "assistant").length;
          return turn === 0 ? MIXED : says("The end.");
        }),
      );
    const idempotency = { key: "one", digest: "one" };
    let acceptances = 0;

    /** A client that never gives up: submits once, answers whenever the run waits, follows to the end. */
    const live = async (store: Backend, seen: Backend) => {
      const { engine } = await harness({ model: model(), tools: [note], mesh: clientMesh(), clock, backend: store });
      await engine.start();
      const { runId } = await submit(engine, { idempotency });
      for (;;) {
        const run = await seen.run(runId);
        if (run?.status === "succeeded") return run;
        if (run?.status === "suspended") {
          const resumed = await engine.resumeRun(runId, answer(["b", "marked"]), "key");
          if (resumed.status === "refused") throw new Error(resumed.code);
          if (resumed.status === "accepted") acceptances++;
        }
        await new Promise((resolve) => setImmediate(resolve));
      }
    };

    const first = await disk.open();
    const mortal = mortalBackend(first, { atCommit, stored });
    const lived = live(mortal.backend, first).catch(() => "died" as const);
    const how = await Promise.race([mortal.died.then(() => "died" as const), lived]);
    const reopened = how === "died" ? await disk.open() : first;
    const run = how === "died" ? await live(reopened, reopened) : how;
    return {
      died: how === "died",
      run,
      notes,
      acceptances,
      messages: await reopened.messages(run.sessionId),
      frames: await frameTypes(reopened, run.id),
      calls: await reopened.calls({ runId: run.id }),
      waits: await reopened.waits({ runId: run.id }),
    };
  }

  it("loses nothing and executes nothing twice; the history is closed", async () => {
    for (let atCommit = 1; ; atCommit++) {
      let died = false;
      for (const stored of [true, false]) {
        const played = await play(atCommit, stored);
        died ||= played.died;
        checkHistory(played.messages);
        expect(played.run).toMatchObject({ status: "succeeded", reply: "The end." });
        expect(played.notes).toBeLessThanOrEqual(1);
        const [note, marked] = played.messages.flatMap(({ message }) =>
          message.role === "tool" ? [message.content] : [],
        );
        expect(marked).toBe("marked");
        if (played.notes === 1 && note !== "noted 1") expect(note).toMatch(/may have happened/);
        expect(played.frames.filter((type) => type === "suspend")).toHaveLength(1);
        expect(played.frames.filter((type) => type === "resume")).toHaveLength(1);
        expect(played.frames.at(-1)).toBe("run.end");
        expect(played.calls.map(({ state }) => state)).toEqual(["used"]);
        expect(played.waits.map(({ state }) => state)).toEqual(["continued"]);
      }
      if (!died) {
        // Submitted and begun; answer and wait; resume; taken up; results; reply.
        expect(atCommit).toBe(7);
        break;
      }
    }
  });
});

describe("E.10/8: a turn with both kinds of tools", () => {
  it("suspends before anything executes, asks about the client's calls only, and keeps the asked order", async () => {
    const { bodies, tool: book } = await bookingService();
    let notes = 0;
    const note = tool("note", () => done(`noted ${++notes}`));
    const model = strict(
      scripted(calls(call("note", {}, "a"), call("highlight", {}, "b"), call("book", { at: "9" }, "c")), says("Done.")),
    );
    const { engine, backend } = await harness({ model, tools: [note], mesh: clientMesh([HIGHLIGHT, book]) });
    await engine.start();
    const { runId } = await submit(engine);
    await reaches(backend, runId, "suspended");
    const [asked] = await backend.frames(runId, { types: ["suspend"] });
    expect(asked?.data).toMatchObject({ prompt: { tool_calls: [{ id: "b", name: "highlight" }] } });
    expect([notes, bodies.length]).toEqual([0, 0]);

    expect(await engine.resumeRun(runId, answer(["b", "marked"]), "key")).toMatchObject({ status: "accepted" });
    for (;;) {
      const frames = await backend.frames(runId, { types: ["suspend"] });
      if (frames.length === 2) break;
      await new Promise((resolve) => setImmediate(resolve));
    }
    await reaches(backend, runId, "suspended");
    const held = (await backend.frames(runId, { types: ["suspend"] }))[1];
    expect(held?.data).toMatchObject({
      resume_contract: "approval",
      prompt: { reason: "approval", tool_calls: [{ id: "c", name: "book", arguments: { at: "9" } }] },
    });
    expect([notes, bodies.length]).toEqual([0, 0]);

    // E.10/5: the 202 of the first resume was lost, and it is sent again while the run waits for an approval.
    expect(await engine.resumeRun(runId, answer(["b", "marked"]), "key")).toMatchObject({ status: "repeated" });
    expect(await engine.resumeRun(runId, answer(["b", "other"]), "key")).toMatchObject({
      status: "refused",
      code: "resume_contract_mismatch",
    });
    expect((await backend.run(runId))?.status).toBe("suspended");

    expect(await engine.resumeRun(runId, approval("approve"), "key")).toMatchObject({ status: "accepted" });
    expect(await engine.waitForRun(runId, soon())).toMatchObject({ status: "succeeded", reply: "Done." });
    expect(toolTexts(model, 1)).toEqual(["noted 1", "marked", "booked"]);
    expect(bodies).toEqual(['{"at":"9"}']);
    expect((await backend.calls({ runId })).map(({ state }) => state)).toEqual(["used", "used"]);
    expect(await engine.resumeRun(runId, approval("approve"), "key")).toMatchObject({ status: "repeated" });
  });
});

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

describe("E.10/16: a start with an expired open wait", () => {
  it("ends the run timed_out, once", async () => {
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
    const { runId, sessionId } = await submit(before.engine);
    await reaches(first, runId, "suspended");
    await before.engine.stop({ graceMs: 0 });

    clock.setWallClock(clock.nowMs() + 3_600_000);
    for (let start = 0; start < 2; start++) {
      const backend = await disk.open();
      const { engine } = await harness({ model: strict(scripted()), mesh: clientMesh(), clock, backend });
      await engine.start();
      expect(await backend.run(runId)).toMatchObject({
        status: "timed_out",
        failure: { class: "timeout", detail: "client_tool_deadline" },
      });
      expect((await backend.frames(runId, { types: ["run.end"] })).length).toBe(1);
      expect((await backend.waits({ runId })).map(({ state }) => state)).toEqual(["expired"]);
      checkHistory(await backend.messages(sessionId));
      await engine.stop({ graceMs: 0 });
    }
  });

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
