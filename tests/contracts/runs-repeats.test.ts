import { expect, it } from "vitest";
import { asks, isType, says, toolTexts } from "../../packages/server/src/test-runs.ts";
import { result, runsWorlds } from "../../packages/server/src/testing/runs-world.ts";
import { describeOnBothStores } from "../support/stores.ts";
import { cites } from "./cites.ts";

describeOnBothStores("client-executed tools, the same results again", (open) => {
  const { start, waiting } = runsWorlds(open);

  it(
    cites(
      "are a 202 that does nothing, in any order and as text or block, also after the run's end",
      "client.refuse.4",
      "client.refuse.5",
      "client.refuse.6b",
      "client.refuse.6c",
      "client.refuse.7c",
    ),
    async () => {
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
      expect((await server.call("GET", `/runs/${runId}/events`)).body.events).toEqual(frames);
      expect(server.requests).toHaveLength(2);
    },
  );

  it(cites("are a 202 also when they are sent at once", "client.refuse.4", "client.refuse.6b"), async () => {
    const { server, runId } = await waiting();
    const sent = await Promise.all([1, 2, 3, 4].map(() => server.resume(runId, [result("call-1")])));
    expect(sent.map(({ status }) => status)).toEqual([202, 202, 202, 202]);
    const frames = await server.frames(runId, isType("run.end"));
    expect(frames.filter(({ type }) => type === "resume")).toHaveLength(1);
    expect(server.requests).toHaveLength(2);
  });

  it(
    cites(
      "are checked against every wait that was answered, also while the run waits for new calls",
      "client.refuse.6a",
      "client.refuse.6b",
      "client.refuse.6c",
      "client.refuse.7a",
      "client.refuse.different-waiting",
    ),
    async () => {
      const call = (id: string) => asks(["highlight", undefined, id]);
      const server = await start([call("a"), call("b"), call("c"), says("Done.")]);
      const runId = await server.submit();
      await server.frames(runId, isType("suspend"));
      await server.resume(runId, [result("a", "first")]);
      await server.frames(runId, isType("suspend", 2));
      await server.resume(runId, [result("b", "second")]);
      const frames = await server.frames(runId, isType("suspend", 3));
      for (const earlier of [result("a", "first"), result("b", "second")]) {
        const again = await server.resume(runId, [earlier]);
        expect([again.status, again.body.status]).toEqual([202, "suspended"]);
      }
      const different = await server.resume(runId, [result("a", "other")]);
      expect([different.status, different.body.code]).toEqual([422, "tool_results_mismatch"]);
      expect((await server.call("GET", `/runs/${runId}/events`)).body.events).toEqual(frames);
      expect((await server.resume(runId, [result("c", "third")])).status).toBe(202);
      await server.frames(runId, isType("run.end"));
      expect(toolTexts(server.requests[3])).toEqual(["first", "second", "third"]);
    },
  );
});

describeOnBothStores("client-executed tools, no repeat is", (open) => {
  const { waiting } = runsWorlds(open);

  it(
    cites(
      "a different answer to a wait that was answered, which is not_suspended when the run does not wait",
      "client.refuse.different",
      "client.refuse.not-suspended",
    ),
    async () => {
      const { server, runId } = await waiting();
      await server.resume(runId, [result("call-1", "a")]);
      await server.frames(runId, isType("run.end"));
      for (const other of [result("call-1", "b"), result("call-1", "a", { is_error: true })]) {
        const { status, body } = await server.resume(runId, [other]);
        expect([status, body.code]).toEqual([409, "not_suspended"]);
      }
    },
  );
});
