/** Tools that the client executes: what a resume takes, how the model reads it, and what is refused. */
import { createFakeClock } from "@leafmesh/testkit";
import { expect, it } from "vitest";
import { asks, HIGHLIGHT, isType, says, toolTexts } from "../../packages/server/src/test-runs.ts";
import { result, runsWorlds } from "../../packages/server/src/testing/runs-world.ts";
import { describeOnBothStores } from "../support/stores.ts";
import { cites } from "./cites.ts";

/** A tool of the platform at an address where nobody is. */
const AWAY = { ...HIGHLIGHT, kind: "http", name: "away", url: "http://127.0.0.1:1/", requiresApproval: false } as const;

describeOnBothStores("client-executed tools, results", (open) => {
  const { start } = runsWorlds(open);

  const read = [
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
    ["a failure in blocks", [{ type: "text", text: "gone" }], true, "error: gone"],
    ["a failure that says so", "error 404", true, "error 404"],
    ["a failure that says so with a capital", "Error: gone", true, "Error: gone"],
    ["a failure that says so after a space", " ERRORS everywhere", true, " ERRORS everywhere"],
    ["a success that begins with error", "errors: 0", false, "errors: 0"],
    ["100 000 characters", "x".repeat(100_000), true, `error: ${"x".repeat(100_000)}`],
    ["100 000 characters of two units each", "\u{1f33f}".repeat(100_000), false, "\u{1f33f}".repeat(100_000)],
  ] as const;

  it(
    cites(
      "that are texts or blocks are read as they should, with error: in front of those that failed",
      "client.resume.2a",
      "client.resume.2b",
      "client.resume.2c",
      "client.resume.3",
      "client.resume.4a",
      "client.resume.5",
    ),
    async () => {
      const calls = read.map((_, index) => ["highlight", {}, `call-${index}`] as const);
      const server = await start([asks(...calls), says("Fine.")], {
        limits: { toolResultMaxChars: 300_000 },
        agents: { helper: { tools: ["highlight"], maxToolCallsPerMessage: 64 } },
      });
      const runId = await server.submit();
      await server.frames(runId, isType("suspend"));
      const results = read.map(([, content, is_error], index) => result(`call-${index}`, content, { is_error }));
      expect((await server.resume(runId, results)).status).toBe(202);
      await server.frames(runId, isType("run.end"));
      const texts = toolTexts(server.requests[1]);
      for (const [index, [what, , , text]] of read.entries()) expect([what, texts[index]]).toEqual([what, text]);
      expect(texts).toHaveLength(read.length);
    },
  );

  it(cites("may be 64, one for each call of a turn", "client.resume.1", "client.resume.2d"), async () => {
    const calls = Array.from({ length: 64 }, (_, index) => ["highlight", {}, `call-${index}`] as const);
    const server = await start([asks(...calls), says("All.")], {
      agents: { helper: { tools: ["highlight"], maxToolCallsPerMessage: 64 } },
    });
    const runId = await server.submit();
    await server.frames(runId, isType("suspend"));
    const results = calls.map(([, , id]) => result(id, `done ${id}`));
    expect((await server.resume(runId, results)).status).toBe(202);
    await server.frames(runId, isType("run.end"));
    expect(toolTexts(server.requests[1])).toEqual(calls.map(([, , id]) => `done ${id}`));
  });

  it(
    cites(
      "that failed read like any failed tool call, and the model can try something else",
      "client.resume.3",
      "client.resume.4a",
      "client.resume.4b",
      "client.resume.4c",
    ),
    async () => {
      const retry = asks(["highlight", { selector: "#cost" }, "call-9"]);
      const server = await start([asks(["highlight"], ["away"]), retry, says("It is there.")], {
        declaredTools: [HIGHLIGHT, AWAY],
        agents: { helper: { tools: ["highlight", "away"] } },
      });
      const runId = await server.submit();
      await server.frames(runId, isType("suspend"));
      await server.resume(runId, [result("call-1", "no such element", { is_error: true })]);
      const second = (await server.frames(runId, isType("suspend", 2))).at(-1);
      expect(second?.data).toMatchObject({
        prompt: { tool_calls: [{ id: "call-9", arguments: { selector: "#cost" } }] },
      });
      const [own, platforms] = toolTexts(server.requests[1]);
      expect(own).toBe("error: no such element");
      expect(platforms).toMatch(/^error: /);
      await server.resume(runId, [result("call-9")]);
      expect((await server.frames(runId, isType("run.end"))).at(-1)?.data.status).toBe("succeeded");
    },
  );
});

describeOnBothStores("client-executed tools, a resume is refused", (open) => {
  const { start, waiting, store } = runsWorlds(open);

  it(
    cites(
      "when the results do not name exactly the pending calls, each with its place; nothing changes",
      "client.refuse.mismatch",
      "client.refuse.mismatch-errors",
      "client.refuse.mismatch-pending",
      "client.refuse.1a",
      "client.refuse.1b",
      "client.refuse.2",
      "client.refuse.3-brackets",
      "client.refuse.3-missing",
    ),
    async () => {
      const server = await start([asks(["highlight"], ["scroll"]), says("Both.")]);
      const runId = await server.submit();
      await server.frames(runId, isType("suspend"));
      const before = (await server.call("GET", `/runs/${runId}/events`)).body;
      const { status, body } = await server.resume(runId, [result("call-1"), result("call-1"), result("call-9")]);
      expect([status, body]).toEqual([
        422,
        {
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
        },
      ]);
      expect((await server.resume(runId, [result("call-2")])).body.details.errors).toEqual([
        { field: "value.tool_results", code: "missing_tool_result", value: "call-1" },
      ]);
      expect((await server.state(runId)).status).toBe("suspended");
      expect((await server.call("GET", `/runs/${runId}/events`)).body).toEqual(before);
      expect((await server.resume(runId, [result("call-2", "second"), result("call-1", "first")])).status).toBe(202);
      await server.frames(runId, isType("run.end"));
      expect(toolTexts(server.requests[1])).toEqual(["first", "second"]);
      expect(server.requests).toHaveLength(2);
    },
  );

  const shapes: readonly (readonly [what: string, value: unknown, field: string])[] = [
    ["without a value", undefined, "value"],
    ["with a value that is a list", [result("call-1")], "value"],
    ["with another value", { results: [] }, "value.tool_results"],
    ["with a key beside tool_results", { tool_results: [result("call-1")], more: 1 }, "value.more"],
    ["with an empty list", { tool_results: [] }, "value.tool_results"],
    ["with more than 64 results", { tool_results: Array(65).fill(result("call-1")) }, "value.tool_results"],
    ["without an id", { tool_results: [{ content: "x" }] }, "value.tool_results.0.tool_call_id"],
    [
      "with an id that is a number",
      { tool_results: [{ tool_call_id: 1, content: "x" }] },
      "value.tool_results.0.tool_call_id",
    ],
    ["with an unknown key", { tool_results: [result("call-1", "x", { extra: 1 })] }, "value.tool_results.0.extra"],
    ["with a number", { tool_results: [result("call-1", 7)] }, "value.tool_results.0.content"],
    ["with an image", { tool_results: [result("call-1", [{ type: "image" }])] }, "value.tool_results.0.content"],
    [
      "with 100 001 characters",
      { tool_results: [result("call-1", "x".repeat(100_001))] },
      "value.tool_results.0.content",
    ],
    [
      "with 100 001 characters of two units each",
      { tool_results: [result("call-1", "\u{1f33f}".repeat(100_001))] },
      "value.tool_results.0.content",
    ],
    [
      "with is_error as a text",
      { tool_results: [result("call-1", "x", { is_error: "no" })] },
      "value.tool_results.0.is_error",
    ],
  ];

  it(
    cites(
      "when the value has another shape or breaks a limit, with dots in the field; nothing changes",
      "client.refuse.shape-value",
      "client.refuse.shape-limit",
      "client.refuse.2",
      "client.refuse.3-dots",
      "client.refuse.1a",
      "client.refuse.1b",
      "client.resume.2c",
      "client.resume.2d",
    ),
    async () => {
      const { server, runId } = await waiting();
      for (const [what, value, field] of shapes) {
        const json = { contract: "result", value };
        const { status, body } = await server.call("POST", `/runs/${runId}/resume`, { json });
        expect([what, status, body.code]).toEqual([what, 422, "validation_failed"]);
        expect(body.details.errors[0]).toMatchObject({ field, code: expect.any(String), message: expect.any(String) });
        expect((await server.state(runId)).status).toBe("suspended");
      }
      expect((await server.resume(runId, [result("call-1")])).status).toBe(202);
    },
  );

  it(cites("when the contract is not result", "client.refuse.contract", "client.refuse.1a"), async () => {
    const { server, runId } = await waiting();
    for (const contract of ["approval", "input"]) {
      const json = { contract, value: { decision: "approve" } };
      const { status, body } = await server.call("POST", `/runs/${runId}/resume`, { json });
      expect([status, body.code]).toEqual([409, "resume_contract_mismatch"]);
    }
    expect((await server.state(runId)).status).toBe("suspended");
  });

  it(
    cites(
      "when the deadline has passed: suspension_expired while the run is being ended, not_suspended from then on",
      "client.refuse.expired",
      "client.refuse.not-suspended",
    ),
    async () => {
      const clock = createFakeClock();
      const opened = await store(clock);
      if (!opened) throw new Error("no store");
      const ending = Promise.withResolvers<void>();
      const mayEnd = Promise.withResolvers<void>();
      const backend: typeof opened.backend = {
        ...opened.backend,
        async commit(writes) {
          if (writes.some((write) => write.kind === "run.update" && write.patch.status === "timed_out")) {
            ending.resolve();
            await mayEnd.promise;
          }
          return opened.backend.commit(writes);
        },
      };
      const { server, runId } = await waiting([], { clock, backend });
      await clock.advance(120_001);
      await ending.promise;
      const late = await server.resume(runId, [result("call-1")]);
      expect([late.status, late.body.code]).toEqual([409, "suspension_expired"]);
      expect((await server.state(runId)).status).toBe("suspended");
      mayEnd.resolve();
      await server.frames(runId, isType("run.end"));
      const later = await server.resume(runId, [result("call-1")]);
      expect([later.status, later.body.code]).toEqual([409, "not_suspended"]);
      expect(server.requests).toHaveLength(1);
    },
  );

  it(cites("when the run does not wait", "client.refuse.not-suspended"), async () => {
    const server = await start([says("No tools needed.")]);
    const runId = await server.submit();
    await server.frames(runId, isType("run.end"));
    const { status, body } = await server.resume(runId, [result("call-1")]);
    expect([status, body.code]).toEqual([409, "not_suspended"]);
  });
});
