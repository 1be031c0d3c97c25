/** What "Tools your client executes" promises, over real HTTP. */

import type { ModelAnswer } from "@leafmesh/core";
import { createFakeClock, type FakeClock } from "@leafmesh/testkit";
import { afterEach, describe, expect, it } from "vitest";
import { asks, isType, type RunsServer, says, startRunsServer, toolTexts } from "./test-runs.ts";
import type { TestServerOptions } from "./test-server.ts";

const open: RunsServer[] = [];
afterEach(async () => {
  for (const server of open.splice(0)) await server.close();
});

async function start(answers: readonly ModelAnswer[], options: Omit<TestServerOptions, "answer"> = {}) {
  const server = await startRunsServer(answers, options);
  open.push(server);
  return server;
}

const result = (tool_call_id: string, content: unknown = "highlighted 1 element", more = {}) => ({
  tool_call_id,
  content,
  ...more,
});

/** A run that waits for `call-1` of `highlight`. */
async function waiting(answers: readonly ModelAnswer[] = [says("It is marked.")], options = {}, more = {}) {
  const server = await start([asks(["highlight"]), ...answers], options);
  const runId = await server.submit(more);
  const frames = await server.frames(runId, isType("suspend"));
  return { server, runId, suspend: frames.at(-1) };
}

describe("the cycle", () => {
  it("suspends with everything that is needed to execute the calls, and the stream stays open", async () => {
    const server = await start([asks(["highlight"]), says("It is marked.")]);
    const runId = await server.submit({ session_key: "visitor-42", client_tool_timeout_s: 60 });
    let resumed: ReturnType<RunsServer["resume"]> | undefined;
    const frames = await server.frames(runId, (frame) => {
      if (frame.type === "suspend") resumed = server.resume(runId, [result("call-1", undefined, { is_error: false })]);
      return false;
    });
    const suspend = frames.find(({ type }) => type === "suspend");
    expect(suspend).toEqual({
      protocol: 2,
      seq: suspend?.seq,
      run_id: runId,
      type: "suspend",
      segment_id: null,
      data: {
        kind: "external_wait",
        resume_contract: "result",
        deadline_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+\+00:00$/),
        prompt: {
          reason: "client_tools",
          timeout_s: 60,
          tool_calls: [{ id: "call-1", name: "highlight", arguments: { selector: "#price" } }],
        },
      },
    });
    const answered = await resumed;
    expect(answered?.status).toBe(202);
    expect(answered?.body).toEqual({ run_id: runId, session_id: expect.any(String), status: "queued" });
    expect(frames.map(({ seq }) => seq)).toEqual(frames.map((_, index) => index + 1));
    expect(frames.map(({ type }) => type)).toEqual([
      "run.start",
      "tool.call",
      "suspend",
      "resume",
      "tool.result",
      "message",
      "run.end",
    ]);
    expect(frames[3]?.data).toEqual({ kind: "external_wait", resolved_by: "human" });
    expect(frames.at(-1)?.data).toMatchObject({ status: "succeeded", failure_class: null, failure_detail: null });
    expect(toolTexts(server.requests[1])).toEqual(["highlighted 1 element"]);
  });

  it("shows the description and the input schema to the model as they are", async () => {
    const { server } = await waiting();
    expect(server.requests[0]?.tools.map(({ name }) => name)).toEqual(["highlight", "scroll"]);
    expect(server.requests[0]?.tools[0]).toEqual({
      name: "highlight",
      description: "Highlight an element of the page the visitor is looking at.",
      parameters: { type: "object", properties: { selector: { type: "string" } }, required: ["selector"] },
    });
  });

  it("has the same frame in events, and the pending suspension in the state", async () => {
    const { server, runId, suspend } = await waiting();
    const { body } = await server.call("GET", `/runs/${runId}/events?type=suspend`);
    expect(body).toEqual({ events: [suspend], has_more: false });
    const state = await server.state(runId);
    expect(state).toMatchObject({ run_id: runId, status: "suspended", agent_slug: "helper", client_tools: "suspend" });
    expect(state.suspension).toEqual(suspend?.data);
    await server.resume(runId, [result("call-1")]);
    await server.frames(runId, isType("run.end"));
    expect(await server.state(runId)).toMatchObject({
      status: "succeeded",
      suspension: null,
      output: { result: { message: "It is marked." } },
    });
  });

  it("waits 120 seconds unless told otherwise", async () => {
    const { suspend } = await waiting();
    expect(suspend?.data).toMatchObject({ prompt: { timeout_s: 120 } });
  });

  it("announces the shorter wait when the run's own deadline cuts it", async () => {
    const clock = createFakeClock();
    const { server, runId, suspend } = await waiting([], { clock }, { client_tool_timeout_s: 900, timeout_s: 20 });
    expect(suspend?.data).toMatchObject({ prompt: { timeout_s: 20 } });
    expect(suspend?.data.deadline_at).toBe((await server.state(runId)).deadline_at);
  });

  it("resumes a stream after Last-Event-ID or after_seq, and ends one that is past the end", async () => {
    const { server, runId } = await waiting();
    await server.resume(runId, [result("call-1")]);
    const all = await server.frames(runId, () => false);
    expect((await server.frames(runId, () => false, { "last-event-id": "3" })).map(({ seq }) => seq)).toEqual([
      4, 5, 6, 7,
    ]);
    expect((await server.frames(runId, () => false, {}, "?after_seq=5")).map(({ seq }) => seq)).toEqual([6, 7]);
    expect(await server.frames(runId, () => false, { "last-event-id": String(all.length) })).toEqual([]);
    const page = await server.call("GET", `/runs/${runId}/events?after_seq=2&limit=2`);
    expect(page.body).toEqual({ events: all.slice(2, 4), has_more: true });
  });
});

describe("without suspend", () => {
  it("the model is not shown client-owned tools", async () => {
    const server = await start([says("Somewhere.")]);
    const runId = await server.submit({ client_tools: "end" });
    await server.frames(runId, isType("run.end"));
    expect(server.requests[0]?.tools).toEqual([]);
  });

  it("a call to one ends the run with the calls in output.result.client_tool_calls", async () => {
    const server = await start([asks(["highlight"]), says("Next.")]);
    const runId = await server.submit({ client_tools: undefined, session_key: "visitor-42" });
    const frames = await server.frames(runId, () => false);
    const client_tool_calls = [{ id: "call-1", name: "highlight", arguments: { selector: "#price" } }];
    expect(frames.at(-1)?.data).toMatchObject({ status: "succeeded", output: { result: { client_tool_calls } } });
    expect(await server.state(runId)).toMatchObject({ output: { result: { client_tool_calls } } });
    const next = await server.submit({ client_tools: "end", session_key: "visitor-42" });
    await server.frames(next, isType("run.end"));
    expect(toolTexts(server.requests[1])).toEqual(["error: not executed, returned to the caller"]);
  });

  it("client_tool_timeout_s is only valid with suspend, from 5 to 900", async () => {
    const server = await start([]);
    const submit = (more: object) =>
      server.call("POST", "/runs", { json: { agent_slug: "helper", input: { message: "hi" }, ...more } });
    for (const more of [
      { client_tool_timeout_s: 60 },
      { client_tools: "suspend", client_tool_timeout_s: 4.9 },
      { client_tools: "suspend", client_tool_timeout_s: 901 },
    ]) {
      const { status, body } = await submit(more);
      expect(status).toBe(422);
      expect(body).toMatchObject({
        code: "validation_failed",
        details: { errors: [{ field: "client_tool_timeout_s" }] },
      });
    }
  });
});

describe("results", () => {
  it.each([
    ["a text", "marked", false, "marked"],
    [
      "text blocks",
      [
        { type: "text", text: "one" },
        { type: "text", text: "two" },
      ],
      false,
      "one\ntwo",
    ],
    ["a failure", "no such element", true, "error: no such element"],
    ["a failure that says so", "Error: gone", true, "Error: gone"],
    ["a failure that says so after a space", " ERRORS everywhere", true, " ERRORS everywhere"],
    ["100 000 characters", "x".repeat(100_000), true, `error: ${"x".repeat(100_000)}`],
  ])("%s reads as it should", async (_, content, is_error, read) => {
    const { server, runId } = await waiting([says("Fine.")], { limits: { toolResultMaxChars: 100_000 } });
    expect((await server.resume(runId, [result("call-1", content, { is_error })])).status).toBe(202);
    await server.frames(runId, isType("run.end"));
    expect(toolTexts(server.requests[1])).toEqual([read]);
  });

  it("that do not name exactly the pending calls are refused, each with its place, and change nothing", async () => {
    const server = await start([asks(["highlight"], ["scroll"]), says("Both.")]);
    const runId = await server.submit();
    await server.frames(runId, isType("suspend"));
    const { status, body } = await server.resume(runId, [result("call-1"), result("call-1"), result("call-9")]);
    expect(status).toBe(422);
    expect(body).toEqual({
      code: "tool_results_mismatch",
      message: expect.any(String),
      details: {
        errors: [
          { field: "value.tool_results[1].tool_call_id", code: "duplicate_tool_result", value: "call-1" },
          { field: "value.tool_results[2].tool_call_id", code: "unexpected_tool_result", value: "call-9" },
          { field: "value.tool_results", code: "missing_tool_result", value: "call-2" },
        ],
        pending_tool_call_ids: ["call-1", "call-2"],
      },
    });
    expect((await server.state(runId)).status).toBe("suspended");
    expect((await server.resume(runId, [result("call-2", "second"), result("call-1", "first")])).status).toBe(202);
    await server.frames(runId, isType("run.end"));
    expect(toolTexts(server.requests[1])).toEqual(["first", "second"]);
    expect(server.requests).toHaveLength(2);
  });

  it.each([
    ["no value", undefined, "value"],
    ["another value", { results: [] }, "value.tool_results"],
    ["an empty list", { tool_results: [] }, "value.tool_results"],
    ["more than 64", { tool_results: Array(65).fill(result("call-1")) }, "value.tool_results"],
    ["no id", { tool_results: [{ content: "x" }] }, "value.tool_results.0.tool_call_id"],
    ["an unknown key", { tool_results: [result("call-1", "x", { extra: 1 })] }, "value.tool_results.0.extra"],
    ["a number", { tool_results: [result("call-1", 7)] }, "value.tool_results.0.content"],
    ["an image", { tool_results: [result("call-1", [{ type: "image" }])] }, "value.tool_results.0.content"],
    ["too much", { tool_results: [result("call-1", "x".repeat(100_001))] }, "value.tool_results.0.content"],
  ])("of a wrong shape (%s) are refused with dots in the field", async (_, value, field) => {
    const { server, runId } = await waiting();
    const { status, body } = await server.call("POST", `/runs/${runId}/resume`, {
      json: { contract: "result", value },
    });
    expect(status).toBe(422);
    expect(body.code).toBe("validation_failed");
    expect(body.details.errors[0]).toMatchObject({ field, code: expect.any(String), message: expect.any(String) });
    expect((await server.state(runId)).status).toBe("suspended");
  });

  it("of 64 calls with 100 000 characters each fit", async () => {
    const { server, runId } = await waiting();
    const results = Array.from({ length: 64 }, (_, index) => result(`call-${index + 1}`, "\u{1f33f}".repeat(50_000)));
    const { status, body } = await server.resume(runId, results);
    expect([status, body.code]).toEqual([422, "tool_results_mismatch"]);
  });

  it("under another contract are refused", async () => {
    const { server, runId } = await waiting();
    for (const contract of ["approval", "input"]) {
      const json = { contract, value: { decision: "approve" } };
      const { status, body } = await server.call("POST", `/runs/${runId}/resume`, { json });
      expect([status, body.code]).toEqual([409, "resume_contract_mismatch"]);
    }
  });

  it("are told 404 for a run that does not exist", async () => {
    const server = await start([]);
    const { status, body } = await server.resume("run_none", [result("call-1")]);
    expect(status).toBe(404);
    expect(body).toEqual({ code: "no_such_run", message: expect.any(String) });
  });
});

describe("the same results again", () => {
  it("are a 202 that does nothing, in any order and as text or block, also after the run's end", async () => {
    const server = await start([asks(["highlight"], ["scroll"]), says("Both.")]);
    const runId = await server.submit();
    await server.frames(runId, isType("suspend"));
    await server.resume(runId, [result("call-1", "a"), result("call-2", "b")]);
    const frames = await server.frames(runId, isType("run.end"));
    const again = await server.resume(runId, [
      result("call-2", [{ type: "text", text: "b" }], { is_error: false }),
      result("call-1", "a"),
    ]);
    expect([again.status, again.body.status]).toEqual([202, "succeeded"]);
    expect((await server.call("GET", `/runs/${runId}/events`)).body.events).toHaveLength(frames.length);
    expect(server.requests).toHaveLength(2);
  });

  it("but different ones are refused as not_suspended", async () => {
    const { server, runId } = await waiting();
    await server.resume(runId, [result("call-1", "a")]);
    await server.frames(runId, isType("run.end"));
    for (const other of [result("call-1", "b"), result("call-1", "a", { is_error: true })]) {
      const { status, body } = await server.resume(runId, [other]);
      expect([status, body.code]).toEqual([409, "not_suspended"]);
    }
  });

  it("of an earlier wait are accepted while the run waits for other calls", async () => {
    const server = await start([asks(["highlight", undefined, "a"]), asks(["scroll", undefined, "b"]), says("Done.")]);
    const runId = await server.submit();
    await server.frames(runId, isType("suspend"));
    await server.resume(runId, [result("a", "first")]);
    await server.frames(runId, isType("suspend", 2));
    const again = await server.resume(runId, [result("a", "first")]);
    expect([again.status, again.body.status]).toEqual([202, "suspended"]);
    const different = await server.resume(runId, [result("a", "other")]);
    expect([different.status, different.body.code]).toEqual([422, "tool_results_mismatch"]);
    expect((await server.resume(runId, [result("b", "second")])).status).toBe(202);
    await server.frames(runId, isType("run.end"));
    expect(toolTexts(server.requests[2])).toEqual(["first", "second"]);
  });

  it("E.10/6: answer the current call when its id came back in a later turn", async () => {
    const server = await start([
      asks(["highlight", undefined, "call_0"]),
      asks(["highlight", undefined, "call_0"]),
      says("Done."),
    ]);
    const runId = await server.submit();
    await server.frames(runId, isType("suspend"));
    await server.resume(runId, [result("call_0", "same")]);
    await server.frames(runId, isType("suspend", 2));
    const taken = await server.resume(runId, [result("call_0", "same")]);
    expect([taken.status, taken.body.status]).toEqual([202, "queued"]);
    await server.frames(runId, isType("run.end"));
    expect(toolTexts(server.requests[2])).toEqual(["same", "same"]);
  });

  it("E.10/6: are a repeat when they do not fit the current wait", async () => {
    const two = asks(["highlight", undefined, "call_0"], ["scroll", undefined, "call_1"]);
    const server = await start([asks(["highlight", undefined, "call_0"]), two, says("Done.")]);
    const runId = await server.submit();
    await server.frames(runId, isType("suspend"));
    await server.resume(runId, [result("call_0", "same")]);
    await server.frames(runId, isType("suspend", 2));
    const again = await server.resume(runId, [result("call_0", "same")]);
    expect([again.status, again.body.status]).toEqual([202, "suspended"]);
  });
});

describe("when nobody answers", () => {
  const expire = async (clock: FakeClock, server: RunsServer, runId: string) => {
    const ended = server.frames(runId, isType("run.end"));
    await clock.advance(120_001);
    return (await ended).at(-1);
  };

  it("the run ends timed_out, and run.end reports it; the model gets no invented answer", async () => {
    const clock = createFakeClock();
    const { server, runId } = await waiting([], { clock });
    await clock.advance(120_000);
    expect((await server.state(runId)).status).toBe("suspended");
    const end = await expire(clock, server, runId);
    expect(end?.data).toMatchObject({
      status: "timed_out",
      failure_class: "timeout",
      failure_detail: "client_tool_deadline",
      output: null,
    });
    expect(await server.state(runId)).toMatchObject({
      status: "timed_out",
      failure_class: "timeout",
      failure_detail: "client_tool_deadline",
      suspension: null,
    });
    expect(server.requests).toHaveLength(1);
    const late = await server.resume(runId, [result("call-1")]);
    expect([late.status, late.body.code]).toEqual([409, "not_suspended"]);
  });

  it("an answer exactly at the deadline is in time", async () => {
    const clock = createFakeClock();
    const { server, runId } = await waiting(undefined, { clock });
    await clock.advance(120_000);
    expect((await server.resume(runId, [result("call-1")])).status).toBe(202);
  });

  it("the next message of the conversation finds a closed history", async () => {
    const clock = createFakeClock();
    const { server, runId } = await waiting([says("I could not see.")], { clock }, { session_key: "v" });
    await expire(clock, server, runId);
    const next = await server.submit({ session_key: "v" });
    await server.frames(next, isType("run.end"));
    expect(toolTexts(server.requests[1])).toEqual([
      "error: nobody answered before the deadline. It may have happened; check before repeating it.",
    ]);
  });
});

describe("cancelling", () => {
  it("E.10/9: a run that waits, then a result, then a new message: nobody refuses the history", async () => {
    const { server, runId } = await waiting([says("All right.")], {}, { session_key: "v" });
    const cancelled = await server.call("POST", `/runs/${runId}/cancel`);
    expect([cancelled.status, cancelled.body.status]).toEqual([200, "cancelled"]);
    const end = (await server.frames(runId, () => false)).at(-1);
    expect(end).toMatchObject({ type: "run.end", data: { status: "cancelled" } });
    const late = await server.resume(runId, [result("call-1")]);
    expect([late.status, late.body.code]).toEqual([409, "not_suspended"]);
    const next = await server.submit({ session_key: "v" });
    await server.frames(next, isType("run.end"));
    expect(toolTexts(server.requests[1])[0]).toMatch(/^error: the run ended before an answer came/);
    const again = await server.call("POST", `/runs/${runId}/cancel`);
    expect([again.status, again.body.status]).toEqual([200, "cancelled"]);
  });
});

describe("conversations", () => {
  it("the next run with the same session_key sees the call and the answer exactly as they happened", async () => {
    const { server, runId } = await waiting([says("Marked."), says("As I said.")], {}, { session_key: "visitor-42" });
    await server.resume(runId, [result("call-1", "no such element", { is_error: true })]);
    await server.frames(runId, isType("run.end"));
    const next = await server.submit({ session_key: "visitor-42", client_tools: "end" });
    await server.frames(next, isType("run.end"));
    expect(server.requests[2]?.messages.slice(1)).toEqual([
      { role: "user", content: "where is the price?" },
      {
        role: "assistant",
        content: null,
        toolCalls: [{ id: "call-1", name: "highlight", arguments: '{"selector":"#price"}' }],
      },
      { role: "tool", toolCallId: "call-1", content: "error: no such element" },
      { role: "assistant", content: "Marked." },
      { role: "user", content: "where is the price?" },
    ]);
  });

  it("a message that comes while a run waits is answered after it", async () => {
    const { server, runId } = await waiting([says("First."), says("Second.")], {}, { session_key: "v" });
    const next = await server.submit({ session_key: "v", input: { message: "and the size?" } });
    const ended = server.frames(next, isType("run.end"));
    await server.call("GET", `/runs/${next}/state`);
    expect((await server.state(next)).status).toBe("queued");
    await server.resume(runId, [result("call-1")]);
    await ended;
    expect(server.requests.at(-1)?.messages.at(-1)).toEqual({ role: "user", content: "and the size?" });
    expect((await server.state(next)).output.result.message).toBe("Second.");
  });

  it("sessions of two keys are two, and a key is its owner's", async () => {
    const server = await start([says("a"), says("b"), says("c")], { apiKeys: ["one", "two"] });
    const submit = async (key: string, session_key: string) => {
      const json = { agent_slug: "helper", session_key, input: { message: "hi" } };
      return (await server.call("POST", "/runs", { json, headers: { "x-api-key": key } })).body;
    };
    const [first, second, third] = [await submit("one", "v"), await submit("one", "w"), await submit("two", "v")];
    expect(new Set([first.session_id, second.session_id, third.session_id]).size).toBe(3);
    expect((await submit("one", "v")).session_id).toBe(first.session_id);
    const headers = { "x-api-key": "two" };
    for (const path of ["state", "events", "stream"]) {
      const { status, body } = await server.call("GET", `/runs/${first.run_id}/${path}`, { headers });
      expect([status, body.code]).toEqual([404, "no_such_run"]);
    }
    const unauthorized = await server.call("GET", `/runs/${first.run_id}/state`);
    expect([unauthorized.status, unauthorized.body.code]).toEqual([401, "unauthorized"]);
  });
});

describe("replaying", () => {
  it("makes a new run of the same input that never waits", async () => {
    const { server, runId } = await waiting([says("Marked."), asks(["highlight"])], {}, { session_key: "v" });
    await server.resume(runId, [result("call-1")]);
    await server.frames(runId, isType("run.end"));
    const { status, body } = await server.call("POST", `/runs/${runId}/replay`);
    expect(status).toBe(202);
    const end = (await server.frames(body.run_id, () => false)).at(-1);
    expect(end?.data).toMatchObject({
      status: "succeeded",
      output: { result: { client_tool_calls: [{ id: "call-1" }] } },
    });
    expect(await server.state(body.run_id)).toMatchObject({ client_tools: "end", replay_of: runId });
    expect(server.requests[2]?.messages.at(-1)).toEqual({ role: "user", content: "where is the price?" });
  });
});

describe("submitting", () => {
  it("takes the same request once for an Idempotency-Key", async () => {
    const server = await start([says("Once.")]);
    const json = { agent_slug: "helper", session_key: "v", input: { message: "hi" } };
    const headers = { "idempotency-key": "abc" };
    const answers = await Promise.all([1, 2, 3].map(() => server.call("POST", "/runs", { json, headers })));
    expect(new Set(answers.map(({ body }) => body.run_id)).size).toBe(1);
    const other = { ...json, input: { message: "other" } };
    const refused = await server.call("POST", "/runs", { json: other, headers });
    expect([refused.status, refused.body.code]).toEqual([409, "idempotency_conflict"]);
    await server.frames(answers[0]?.body.run_id, isType("run.end"));
    expect(server.requests).toHaveLength(1);
  });

  it("names what is wrong, and stores nothing", async () => {
    const server = await start([]);
    const submit = (json: unknown) => server.call("POST", "/runs", { json });
    const unknown = await submit({ agent_slug: "nobody", input: { message: "hi" } });
    expect([unknown.status, unknown.body.code]).toEqual([404, "no_such_agent"]);
    const misspelled = await submit({ agent_slug: "helper", input: { message: "hi" }, client_tool: "suspend" });
    expect(misspelled.body.details.errors[0]).toMatchObject({ field: "client_tool", code: "unknown_field" });
    const devices = Array.from({ length: 17 }, (_, index) => ({ id: `d${index}`, push_token: "t" }));
    expect((await submit({ agent_slug: "helper", input: { message: "hi" }, devices })).status).toBe(400);
    expect((await server.call("GET", "/api/sessions")).body.sessions).toEqual([]);
  });
});
