/** Tools that the client executes: nobody answers, mixed turns, replays, conversations. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Secret } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { expect, it, onTestFinished } from "vitest";
import { asks, HIGHLIGHT, isType, type RunsServer, says, toolTexts } from "../../packages/server/src/test-runs.ts";
import { result, runsWorlds } from "../../packages/server/src/testing/runs-world.ts";
import { startHook } from "../support/hook.ts";
import { describeOnBothStores } from "../support/stores.ts";
import { cites } from "./cites.ts";

describeOnBothStores("client-executed tools, when nobody answers", (open) => {
  const { waiting } = runsWorlds(open);

  it(
    cites(
      "the run ends timed_out, told by run.end and to callback_url; the model gets no invented answer",
      "client.nobody.1",
      "client.nobody.2",
      "client.nobody.3a",
      "client.nobody.3b",
    ),
    async () => {
      const hook = await startHook();
      onTestFinished(() => hook.close());
      const clock = createFakeClock();
      const callbacks = { secret: new Secret("webhook-secret"), allow: ["http://127.0.0.1:*"] };
      const { server, runId } = await waiting([], { clock, server: { callbacks } }, { callback_url: hook.url });
      expect(JSON.parse((await hook.next()).body)).toMatchObject({ event: "run.suspended", run_id: runId });
      await clock.advance(120_000);
      expect((await server.state(runId)).status).toBe("suspended");
      const ended = server.frames(runId, isType("run.end"));
      await clock.advance(1);
      const end = (await ended).at(-1);
      const timedOut = { status: "timed_out", failure_class: "timeout", failure_detail: "client_tool_deadline" };
      expect(end?.data).toMatchObject({ ...timedOut, output: null });
      expect(await server.state(runId)).toMatchObject({ ...timedOut, suspension: null });
      expect(JSON.parse((await hook.next()).body)).toMatchObject({ event: "run.ended", run_id: runId, frame: end });
      expect(server.requests).toHaveLength(1);
    },
  );
});

/** A tool of the platform, and how often it was called. */
async function platformTool(name: string, effect: "read" | "write") {
  const calls: string[] = [];
  const server = createServer((_, response) => {
    calls.push(name);
    response.end(`${name} done`);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const tool = { ...HIGHLIGHT, kind: "http", name, effect, url, requiresApproval: effect === "write" } as const;
  return { tool, calls };
}

function _approve(server: RunsServer, runId: string) {
  const json = { contract: "approval", value: { decision: "approve" } };
  return server.call("POST", `/runs/${runId}/resume`, { json });
}

describeOnBothStores("client-executed tools, a turn with both kinds of tools", (open) => {
  const { start } = runsWorlds(open);

  it(
    cites(
      "suspends before anything executes, asks about the client's calls only, then runs the rest, in asked order",
      "client.mixed.1",
      "client.mixed.2a",
      "client.mixed.2b",
      "client.mixed.3a",
      "client.mixed.3b",
    ),
    async () => {
      const { tool, calls } = await platformTool("lookup", "read");
      const turn = asks(["lookup"], ["highlight"], ["lookup"], ["highlight"]);
      const server = await start([turn, says("Done.")], {
        declaredTools: [HIGHLIGHT, tool],
        agents: { helper: { tools: ["highlight", "lookup"] } },
      });
      const runId = await server.submit();
      const suspend = (await server.frames(runId, isType("suspend"))).at(-1);
      expect(suspend?.data).toMatchObject({ prompt: { tool_calls: [{ id: "call-2" }, { id: "call-4" }] } });
      expect(calls).toEqual([]);
      const answered = await server.resume(runId, [result("call-4", "second"), result("call-2", "first")]);
      expect(answered.status).toBe(202);
      await server.frames(runId, isType("run.end"));
      expect(calls).toEqual(["lookup", "lookup"]);
      expect(toolTexts(server.requests[1])).toEqual(["lookup done", "first", "lookup done", "second"]);
      expect(server.requests).toHaveLength(2);
    },
  );
});

describeOnBothStores("client-executed tools, a replay", (open) => {
  const { waiting } = runsWorlds(open);

  it(
    cites(
      "is a new run of the same input that never waits; a new run with suspend has the cycle again",
      "client.replay.1a",
      "client.replay.1b",
      "client.replay.2",
      "client.replay.3",
    ),
    async () => {
      const answers = [says("Marked."), asks(["highlight"]), asks(["highlight"])];
      const { server, runId } = await waiting(answers, {}, { session_key: "v" });
      await server.resume(runId, [result("call-1")]);
      await server.frames(runId, isType("run.end"));
      const { status, body } = await server.call("POST", `/runs/${runId}/replay`);
      expect(status).toBe(202);
      expect(body.run_id).not.toBe(runId);
      const frames = await server.frames(body.run_id, () => false);
      expect(frames.map(({ type }) => type)).not.toContain("suspend");
      expect(frames.at(-1)?.data).toMatchObject({
        status: "succeeded",
        output: { result: { client_tool_calls: [{ id: "call-1" }] } },
      });
      expect(await server.state(body.run_id)).toMatchObject({ client_tools: "end", replay_of: runId });
      expect(server.requests[2]?.messages.at(-1)).toEqual({ role: "user", content: "where is the price?" });
      expect(server.requests[2]?.tools).toEqual([]);
      const anew = await server.submit();
      expect((await server.frames(anew, isType("suspend"))).at(-1)?.type).toBe("suspend");
    },
  );
});

describeOnBothStores("client-executed tools, a conversation", (open) => {
  const { waiting } = runsWorlds(open);

  it(
    cites(
      "has the call and the answer in its history exactly as they happened, for the next run with its key",
      "client.conversations.1",
      "client.conversations.2a",
      "client.conversations.2b",
    ),
    async () => {
      const answers = [says("Marked."), says("As I said.")];
      const { server, runId } = await waiting(answers, {}, { session_key: "visitor-42" });
      await server.resume(runId, [result("call-1", "no such element", { is_error: true })]);
      await server.frames(runId, isType("run.end"));
      const { session_id } = await server.state(runId);
      const next = await server.submit({ session_key: "visitor-42", client_tools: "end" });
      await server.frames(next, isType("run.end"));
      expect((await server.state(next)).session_id).toBe(session_id);
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
      const history = (await server.call("GET", `/api/sessions/${session_id}/history`)).body.messages;
      expect(history).toContainEqual(expect.objectContaining({ role: "tool", content: "error: no such element" }));
    },
  );
});
