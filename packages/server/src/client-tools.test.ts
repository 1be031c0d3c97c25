/** What the routes of runs do beyond the contract of client-executed tools, which tests/contracts holds. */
import { createFakeClock } from "@leafmesh/testkit";
import { describe, expect, it } from "vitest";
import { isType, says, toolTexts } from "./test-runs.ts";
import { result, runsWorlds } from "./testing/runs-world.ts";

const { start, waiting } = runsWorlds();

describe("a run's stream", () => {
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

describe("results", () => {
  it("of 64 calls with 100 000 characters each fit", async () => {
    const { server, runId } = await waiting();
    const results = Array.from({ length: 64 }, (_, index) => result(`call-${index + 1}`, "\u{1f33f}".repeat(100_000)));
    const { status, body } = await server.resume(runId, results);
    expect([status, body.code]).toEqual([422, "tool_results_mismatch"]);
  });

  it("are told 404 for a run that does not exist", async () => {
    const server = await start([]);
    const { status, body } = await server.resume("run_none", [result("call-1")]);
    expect(status).toBe(404);
    expect(body).toEqual({ code: "no_such_run", message: expect.any(String) });
  });

  it("an answer exactly at the deadline is in time", async () => {
    const clock = createFakeClock();
    const { server, runId } = await waiting(undefined, { clock });
    await clock.advance(120_000);
    expect((await server.resume(runId, [result("call-1")])).status).toBe(202);
  });
});

describe("conversations", () => {
  it("the next message of the conversation finds a closed history", async () => {
    const clock = createFakeClock();
    const { server, runId } = await waiting([says("I could not see.")], { clock }, { session_key: "v" });
    const ended = server.frames(runId, isType("run.end"));
    await clock.advance(120_001);
    await ended;
    const next = await server.submit({ session_key: "v" });
    await server.frames(next, isType("run.end"));
    expect(toolTexts(server.requests[1])).toEqual([
      "error: nobody answered before the deadline. It may have happened; check before repeating it.",
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
