/** The rules by which an executor answers what a run is suspended for. */
import type { Suspension } from "@leafmesh/protocol";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { newExecutor } from "../../testing/bridge.ts";
import { MeshDouble, type Reply } from "../../testing/mesh-double.ts";
import { createMemoryCallLedger } from "./entries.ts";
import { type ClientTool, image, ToolError } from "./tool.ts";

const STREAM = "/runs/r/stream";

let mesh: MeshDouble;
/** What `/state` says, and how `/resume` answers. */
let waitsFor: Suspension | null;
let status: string;
let resume: (tries: number) => Reply;
beforeEach(async () => {
  mesh = await new MeshDouble().start();
  waitsFor = null;
  status = "suspended";
  resume = () => ({ status: 202, body: { run_id: "r", session_id: "s", status: "queued" } });
  mesh.answer = ({ path }) => (path.endsWith("/resume") ? resume(resumes().length) : { status: 200, body: runState() });
});
afterEach(() => mesh.close());

const resumes = () => mesh.posted.filter(({ path }) => path === "/runs/r/resume");
const results = () => resumes().map(({ body }) => body.value.tool_results);

function runState() {
  const at = new Date(0).toISOString();
  const ended = { started_at: at, finished_at: null, replay_of: null, output: null, error: null };
  const failure = { failure_class: null, failure_detail: null };
  const ids = { run_id: "r", session_id: "s", agent_slug: "guide" };
  return {
    ...ids,
    status,
    client_tools: "suspend",
    created_at: at,
    deadline_at: at,
    suspension: waitsFor,
    ...ended,
    ...failure,
  };
}

function suspension(calls: readonly [id: string, name: string][], timeoutS = 60): Suspension {
  return {
    kind: "external_wait",
    resume_contract: "result",
    deadline_at: new Date(Date.now() + timeoutS * 1000).toISOString(),
    prompt: {
      reason: "client_tools",
      timeout_s: timeoutS,
      tool_calls: calls.map(([id, name]) => ({ id, name, arguments: { of: id } })),
    },
  };
}

function append(seq: number, type: string, data: object = {}): void {
  mesh.append(STREAM, seq, { protocol: 2, seq, run_id: "r", type, segment_id: null, data });
}

function suspend(seq: number, calls: readonly [string, string][], timeoutS?: number): Suspension {
  waitsFor = suspension(calls, timeoutS);
  append(seq, "suspend", waitsFor);
  return waitsFor;
}

function end(seq: number): void {
  status = "succeeded";
  append(seq, "run.end", { status });
}

const tools = (run: ClientTool["run"]) => ({ tools: { act: { description: "Acts.", parameters: {}, run } } });

describe("a suspension", () => {
  it("is answered once for all its calls, one after the other, as the model asked", async () => {
    const order: string[] = [];
    const { executor, client } = newExecutor(mesh, {
      ...tools(async (args, { call }) => {
        order.push(`begin ${call.key}`);
        await new Promise((turn) => setImmediate(turn));
        order.push(`end ${call.key}`);
        return args;
      }),
    });
    const served = executor.serveRun(client.run("r"));
    append(1, "run.start");
    suspend(2, [
      ["call_0", "act"],
      ["call_1", "act"],
    ]);
    await mesh.until(() => resumes().length === 1);
    end(3);
    expect(await served).toMatchObject({ status: "succeeded" });
    await executor.idle();
    expect(order).toEqual(["begin r/2/call_0", "end r/2/call_0", "begin r/2/call_1", "end r/2/call_1"]);
    expect(resumes()[0]?.body).toEqual({
      contract: "result",
      value: {
        tool_results: [
          { tool_call_id: "call_0", content: '{"of":"call_0"}', is_error: false },
          { tool_call_id: "call_1", content: '{"of":"call_1"}', is_error: false },
        ],
      },
    });
    await executor.close();
  });

  it.each([
    ["a text", () => "highlighted 1 element", { content: "highlighted 1 element", is_error: false }],
    ["nothing", () => undefined, { content: "done", is_error: false }],
    [
      "an error",
      () => {
        throw new ToolError("no_element", "There is no #price");
      },
      { content: "error: no_element: There is no #price", is_error: true },
    ],
    ["an image", () => image(new Uint8Array(1), "image/png"), { content: /^error: image_not_taken: /, is_error: true }],
    ["too much", () => "x".repeat(100_001), { content: /^error: result_too_large: /, is_error: true }],
  ])("takes %s as text", async (_what, run, expected) => {
    const { executor, client } = newExecutor(mesh, tools(run));
    void executor.serveRun(client.run("r")).catch(() => {});
    suspend(1, [["call_0", "act"]]);
    await mesh.until(() => resumes().length === 1);
    const content = typeof expected.content === "string" ? expected.content : expect.stringMatching(expected.content);
    expect(results()).toEqual([[{ tool_call_id: "call_0", content, is_error: expected.is_error }]]);
    await executor.close();
  });

  it("names a tool that is not there, and runs the others", async () => {
    const { executor, client } = newExecutor(
      mesh,
      tools(() => "ok"),
    );
    void executor.serveRun(client.run("r")).catch(() => {});
    suspend(1, [
      ["a", "missing"],
      ["b", "act"],
    ]);
    await mesh.until(() => resumes().length === 1);
    expect(results()[0]).toMatchObject([
      { content: "error: unknown_tool: This client has no tool missing", is_error: true },
      { content: "ok", is_error: false },
    ]);
    await executor.close();
  });

  it("of the backlog that is answered already is not run", async () => {
    const answered = suspend(1, [["call_0", "act"]]);
    append(2, "resume", { kind: answered.kind, resolved_by: "human" });
    waitsFor = null;
    const { executor, client, ran, types } = newExecutor(
      mesh,
      tools(() => ran.push(1)),
    );
    const served = executor.serveRun(client.run("r"));
    end(3);
    await served;
    await executor.idle();
    expect([ran, resumes(), types()]).toEqual([[], [], ["repeated"]]);
    await executor.close();
  });

  it("of the backlog whose ids have come back in a later one is not taken for it", async () => {
    const { executor, client, ran } = newExecutor(
      mesh,
      tools((_args, { call }) => ran.push(call.key)),
    );
    append(1, "suspend", suspension([["call_0", "act"]], 10));
    append(2, "resume");
    suspend(3, [["call_0", "act"]]);
    void executor.serveRun(client.run("r")).catch(() => {});
    await mesh.until(() => resumes().length === 1);
    await executor.idle();
    expect(ran).toEqual(["r/3/call_0"]);
    await executor.close();
  });

  it("with an id that was used before is a new call", async () => {
    const { executor, client, ran } = newExecutor(
      mesh,
      tools((_args, { call }) => ran.push(call.key)),
    );
    const served = executor.serveRun(client.run("r"));
    suspend(1, [["call_0", "act"]]);
    await mesh.until(() => resumes().length === 1);
    append(2, "resume");
    suspend(3, [["call_0", "act"]]);
    await mesh.until(() => resumes().length === 2);
    end(4);
    await served;
    expect(ran).toEqual(["r/1/call_0", "r/3/call_0"]);
    await executor.close();
  });

  it("that waits for an approval is reported, not answered", async () => {
    const { executor, client, events } = newExecutor(
      mesh,
      tools(() => 1),
    );
    const served = executor.serveRun(client.run("r"));
    const approval = { ...suspension([["call_0", "pay"]]), resume_contract: "approval" };
    append(1, "suspend", { ...approval, prompt: { ...approval.prompt, reason: "approval" } });
    end(2);
    await served;
    expect(events.find(({ type }) => type === "approval_wanted")).toMatchObject({ runId: "r" });
    expect(resumes()).toEqual([]);
    await executor.close();
  });

  it("stops what runs when the run ends without it", async () => {
    const stopped = Promise.withResolvers<unknown>();
    const started = Promise.withResolvers<void>();
    const { executor, client } = newExecutor(
      mesh,
      tools((_args, { signal }) => {
        started.resolve();
        signal.addEventListener("abort", () => stopped.resolve(signal.reason));
        return new Promise(() => {});
      }),
    );
    const served = executor.serveRun(client.run("r"));
    suspend(1, [["call_0", "act"]]);
    await started.promise;
    status = "timed_out";
    append(2, "run.end", { status });
    expect(await stopped.promise).toMatchObject({ stopCause: "settled" });
    expect(await served).toMatchObject({ status: "timed_out" });
    await executor.close();
  });
});

describe("a resume", () => {
  it("whose 202 was lost is sent again with exactly the same results, and nothing is run again", async () => {
    resume = (tries) =>
      tries === 1 ? "cut" : { status: 202, body: { run_id: "r", session_id: "s", status: "queued" } };
    const { executor, client, ran, types } = newExecutor(
      mesh,
      tools(() => ran.push(1)),
    );
    const served = executor.serveRun(client.run("r"));
    suspend(1, [["call_0", "act"]]);
    await mesh.until(() => resumes().length === 2);
    end(2);
    await served;
    await executor.idle();
    expect(results()[1]).toEqual(results()[0]);
    expect(ran).toHaveLength(1);
    expect(types()).toEqual(["started", "answered", "delivered"]);
    await executor.close();
  });

  it.each([
    [409, "suspension_expired"],
    [409, "not_suspended"],
    [409, "resume_contract_mismatch"],
    [422, "tool_results_mismatch"],
    [422, "validation_failed"],
    [404, "no_such_run"],
  ])("that is refused with %i %s is final, and says why", async (refused, code) => {
    const details = { errors: [{ field: "value.tool_results", code: "missing_tool_result", value: "call_0" }] };
    resume = () => ({ status: refused, body: { code, message: "No.", details } });
    const { executor, client, events } = newExecutor(
      mesh,
      tools(() => 1),
    );
    void executor.serveRun(client.run("r")).catch(() => {});
    suspend(1, [["call_0", "act"]]);
    await mesh.until(() => resumes().length === 1);
    await executor.idle();
    expect(resumes()).toHaveLength(1);
    expect(events.at(-1)).toMatchObject({ type: "refused", error: { status: refused, code, message: "No.", details } });
    await executor.close();
  });
});

describe("after a restart", () => {
  it("results that are known are sent, and what was begun has an unknown outcome", async () => {
    const ledger = createMemoryCallLedger();
    await ledger.put({ id: "r/1/a", at: 1, state: "answered", answer: { status: "ok", result: "from before" } });
    await ledger.put({ id: "r/1/b", at: 1, state: "started" });
    const { executor, client, ran } = newExecutor(mesh, { ledger, ...tools((_args, { call }) => ran.push(call.key)) });
    suspend(1, [
      ["a", "act"],
      ["b", "act"],
      ["c", "act"],
    ]);
    void executor.serveRun(client.run("r")).catch(() => {});
    await mesh.until(() => resumes().length === 1);
    expect(results()[0]).toMatchObject([
      { tool_call_id: "a", content: "from before", is_error: false },
      { tool_call_id: "b", content: expect.stringMatching(/^error: outcome_unknown: /), is_error: true },
      { tool_call_id: "c", content: "1", is_error: false },
    ]);
    expect(ran).toEqual(["r/1/c"]);
    await executor.close();
  });
});
