/** Tools that the client executes: submit, stream, suspend, resume. */
import { createFakeClock } from "@leafmesh/testkit";
import { expect, it } from "vitest";
import { asks, isType, type RunsServer, says, toolTexts } from "../../packages/server/src/test-runs.ts";
import { result, runsWorlds } from "../../packages/server/src/testing/runs-world.ts";
import { startHook } from "../support/hook.ts";
import { describeOnBothStores } from "../support/stores.ts";
import { cites } from "./cites.ts";

/** As it stands on the page. */
const HIGHLIGHT = `{
        "slug": "highlight",
        "kind": "http",
        "client_owned": true,
        "effect": "read",
        "description": "Highlight an element of the page the visitor is looking at.",
        "input_schema": {
          "type": "object",
          "properties": {"selector": {"type": "string"}},
          "required": ["selector"]
        },
        "config": {"schema_version": 1}
      }`;

function post(server: RunsServer, path: string, raw: string, key = "cobre-key") {
  return server.call("POST", path, { raw, headers: { "content-type": "application/json", "X-Api-Key": key } });
}

describeOnBothStores("client-executed tools, the cycle", (open) => {
  const { start, waiting } = runsWorlds(open);

  it(
    cites(
      "is submit, stream, suspend, resume, with the page's own requests and frames",
      "client.intro.4",
      "client.intro.5",
      "client.intro.6a",
      "client.intro.6b",
      "client.intro.7",
      "client.declare.1",
      "client.declare.2",
      "client.declare.3b",
      "client.declare.sample",
      "client.declare.4",
      "client.submit.sample",
      "client.submit.client_tools",
      "client.stream.1",
      "client.stream.2a",
      "client.stream.2b",
      "client.stream.sample",
      "client.stream.3",
      "client.stream.4a",
      "client.stream.4b",
      "client.stream.5",
      "client.resume.1",
      "client.resume.sample",
      "client.resume.2a",
      "client.resume.6",
      "client.resume.7",
      "client.resume.sample-frame",
      "client.resume.8",
    ),
    async () => {
      const server = await start([asks(["highlight"]), says("It is marked.")], {
        apiKeys: ["cobre-key"],
        declaredTools: [],
        agents: { "site-guide": { tools: ["highlight"] } },
      });
      const declared = await post(server, "/tools", HIGHLIGHT);
      expect([declared.status, declared.body]).toEqual([201, { ...JSON.parse(HIGHLIGHT), source: "api" }]);
      const submitted = await post(
        server,
        "/runs",
        `{
          "agent_slug": "site-guide",
          "session_key": "visitor-42",
          "input": {"message": "where is the price?"},
          "client_tools": "suspend",
          "client_tool_timeout_s": 60
        }`,
      );
      expect(submitted.status).toBe(202);
      const runId: string = submitted.body.run_id;

      let resumed: ReturnType<typeof post> | undefined;
      const answer = `{
        "contract": "result",
        "value": {
          "tool_results": [
            {"tool_call_id": "call-1", "content": "highlighted 1 element", "is_error": false}
          ]
        }
      }`;
      const frames = await server.frames(
        runId,
        (frame) => {
          if (frame.type === "suspend") resumed = post(server, `/runs/${runId}/resume`, answer);
          return false;
        },
        { "x-api-key": "cobre-key" },
      );
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
      expect([answered?.status, answered?.body]).toEqual([
        202,
        { run_id: runId, session_id: submitted.body.session_id, status: "queued" },
      ]);
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
      expect(frames[3]).toMatchObject({
        protocol: 2,
        type: "resume",
        data: { kind: "external_wait", resolved_by: "human" },
      });
      expect(frames.at(-1)?.data).toMatchObject({ status: "succeeded", failure_class: null, failure_detail: null });
      const { description, input_schema: parameters } = JSON.parse(HIGHLIGHT);
      expect(server.requests[0]?.tools).toEqual([{ name: "highlight", description, parameters }]);
      expect(toolTexts(server.requests[1])).toEqual(["highlighted 1 element"]);
      expect(server.requests).toHaveLength(2);
    },
  );

  it(cites("never calls what a config might lead to", "client.declare.3a", "client.intro.4"), async () => {
    const hook = await startHook();
    try {
      let called = false;
      void hook.next().then(() => {
        called = true;
      });
      const server = await start([asks(["highlight"]), says("Marked.")], {
        declaredTools: [],
        agents: { helper: { tools: ["highlight"] } },
      });
      const tool = JSON.parse(HIGHLIGHT);
      const json = { ...tool, config: { schema_version: 1, url: hook.url } };
      const refused = await server.call("POST", "/tools", { json });
      expect([refused.status, refused.body.details.errors[0].field]).toEqual([422, "config.url"]);
      expect((await server.call("POST", "/tools", { json: tool })).status).toBe(201);
      const runId = await server.submit();
      await server.frames(runId, isType("suspend"));
      await server.resume(runId, [result("call-1")]);
      await server.frames(runId, isType("run.end"));
      expect(called).toBe(false);
    } finally {
      await hook.close();
    }
  });

  it(
    cites(
      "can be followed without a stream: the same frame in events, the pending suspension in the state",
      "client.stream.6a",
      "client.stream.6b",
    ),
    async () => {
      const { server, runId, suspend } = await waiting();
      const { body } = await server.call("GET", `/runs/${runId}/events?type=suspend`);
      expect(body).toEqual({ events: [suspend], has_more: false });
      const state = await server.state(runId);
      expect(state).toMatchObject({
        run_id: runId,
        status: "suspended",
        agent_slug: "helper",
        client_tools: "suspend",
      });
      expect(state.suspension).toEqual(suspend?.data);
      await server.resume(runId, [result("call-1")]);
      await server.frames(runId, isType("run.end"));
      expect(await server.state(runId)).toMatchObject({
        status: "succeeded",
        suspension: null,
        output: { result: { message: "It is marked." } },
      });
    },
  );
});

describeOnBothStores("client-executed tools, submitting", (open) => {
  const { start, waiting } = runsWorlds(open);

  it(
    cites(
      "without suspend the model is not shown client-owned tools",
      "client.submit.2a",
      "client.submit.client_tools-default",
    ),
    async () => {
      for (const client_tools of ["end", undefined]) {
        const server = await start([says("Somewhere.")]);
        const runId = await server.submit({ client_tools });
        await server.frames(runId, isType("run.end"));
        expect(server.requests[0]?.tools).toEqual([]);
        expect((await server.state(runId)).client_tools).toBe("end");
      }
    },
  );

  it(
    cites(
      "without suspend a call ends the run, with the calls in output.result.client_tool_calls",
      "client.submit.2b",
      "client.submit.client_tools-default",
    ),
    async () => {
      const server = await start([asks(["highlight"]), says("Next.")]);
      const runId = await server.submit({ client_tools: undefined, session_key: "visitor-42" });
      const frames = await server.frames(runId, () => false);
      const client_tool_calls = [{ id: "call-1", name: "highlight", arguments: { selector: "#price" } }];
      expect(frames.at(-1)?.data).toMatchObject({ status: "succeeded", output: { result: { client_tool_calls } } });
      expect(await server.state(runId)).toMatchObject({ output: { result: { client_tool_calls } } });
      expect(frames.map(({ type }) => type)).not.toContain("suspend");
      const next = await server.submit({ client_tools: "end", session_key: "visitor-42" });
      await server.frames(next, isType("run.end"));
      expect(toolTexts(server.requests[1])).toEqual(["error: not executed, returned to the caller"]);
    },
  );

  it(
    cites(
      "is opt-in for each run: one with suspend does not make the next one of its conversation wait",
      "client.submit.1",
      "client.submit.client_tools",
      "client.conversations.3",
    ),
    async () => {
      const { server, runId } = await waiting([says("Marked."), says("Again.")], {}, { session_key: "v" });
      await server.resume(runId, [result("call-1")]);
      await server.frames(runId, isType("run.end"));
      const next = await server.submit({ session_key: "v", client_tools: undefined });
      await server.frames(next, isType("run.end"));
      expect(server.requests.map(({ tools }) => tools.map(({ name }) => name))).toEqual([
        ["highlight", "scroll"],
        ["highlight", "scroll"],
        [],
      ]);
    },
  );

  it(
    cites(
      "takes 5 to 900 seconds of wait, with suspend only",
      "client.submit.timeout-range",
      "client.submit.timeout-only",
    ),
    async () => {
      const server = await start([says("a"), says("b")]);
      const submit = (more: object) =>
        server.call("POST", "/runs", { json: { agent_slug: "helper", input: { message: "hi" }, ...more } });
      for (const more of [
        { client_tool_timeout_s: 60 },
        { client_tools: "end", client_tool_timeout_s: 60 },
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
      for (const client_tool_timeout_s of [5, 900]) {
        expect((await submit({ client_tools: "suspend", client_tool_timeout_s })).status).toBe(202);
      }
    },
  );

  it.each([
    [120, {}],
    [60, { client_tool_timeout_s: 60 }],
  ])(
    cites("waits %d seconds when told %j", "client.submit.timeout-default", "client.submit.timeout"),
    async (seconds, more) => {
      const clock = createFakeClock();
      const { server, runId, suspend } = await waiting([], { clock }, more);
      expect(suspend?.data).toMatchObject({ prompt: { timeout_s: seconds } });
      expect(Date.parse(String(suspend?.data.deadline_at))).toBe(clock.nowMs() + seconds * 1_000);
      await clock.advance(seconds * 1_000);
      expect((await server.state(runId)).status).toBe("suspended");
      const ended = server.frames(runId, isType("run.end"));
      await clock.advance(1);
      expect((await ended).at(-1)?.data.status).toBe("timed_out");
    },
  );

  it(
    cites(
      "never waits longer than the run's own deadline, and announces the shorter wait",
      "client.submit.4a",
      "client.submit.4b",
    ),
    async () => {
      const clock = createFakeClock();
      const more = { client_tool_timeout_s: 900, timeout_s: 20 };
      const { server, runId, suspend } = await waiting([], { clock }, more);
      expect(suspend?.data).toMatchObject({ prompt: { timeout_s: 20 } });
      expect(suspend?.data.deadline_at).toBe((await server.state(runId)).deadline_at);
      const ended = server.frames(runId, isType("run.end"));
      await clock.advance(20_001);
      expect((await ended).at(-1)?.data).toMatchObject({ status: "timed_out", failure_detail: "client_tool_deadline" });
    },
  );
});
