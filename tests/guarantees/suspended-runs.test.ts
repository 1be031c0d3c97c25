/** What suspended runs guarantee, over HTTP and on both stores. Numbers are those of the guarantees. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Secret } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { expect, it, onTestFinished } from "vitest";
import { asks, HIGHLIGHT, isType, says, toolTexts } from "../../packages/server/src/test-runs.ts";
import { result, runsWorlds } from "../../packages/server/src/testing/runs-world.ts";
import { cites } from "../contracts/cites.ts";
import { startHook } from "../support/hook.ts";
import { describeOnBothStores } from "../support/stores.ts";

/** A tool of the platform that nobody calls before a person has said so, and how often it was called. */
async function bookTool() {
  const calls: string[] = [];
  const server = createServer((_, response) => {
    calls.push("book");
    response.end("booked");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/book`;
  const tool = { ...HIGHLIGHT, kind: "http", name: "book", effect: "write", url, requiresApproval: true } as const;
  return { calls, tool };
}

const APPROVAL = { contract: "approval", value: { decision: "approve" } };

describeOnBothStores("guarantees of suspended runs", (open) => {
  const { start, waiting, store } = runsWorlds(open);

  it(
    cites(
      "5. a lost 202, the same results again while the run waits for an approval: 202, and nothing changes",
      "client.refuse.7b",
      "client.refuse.6c",
      "client.refuse.different-waiting",
    ),
    async () => {
      const { tool } = await bookTool();
      const server = await start([asks(["highlight"], ["book"]), says("Done.")], {
        declaredTools: [HIGHLIGHT, tool],
        agents: { helper: { tools: ["highlight", "book"] } },
      });
      const runId = await server.submit();
      await server.frames(runId, isType("suspend"));
      await server.resume(runId, [result("call-1", "marked")]);
      const frames = await server.frames(runId, isType("suspend", 2));
      expect(frames.at(-1)?.data).toMatchObject({ resume_contract: "approval" });
      const again = await server.resume(runId, [result("call-1", "marked")]);
      expect([again.status, again.body.status]).toEqual([202, "suspended"]);
      const different = await server.resume(runId, [result("call-1", "other")]);
      expect([different.status, different.body.code]).toEqual([409, "resume_contract_mismatch"]);
      expect((await server.call("GET", `/runs/${runId}/events`)).body.events).toEqual(frames);
      expect((await server.call("POST", `/runs/${runId}/resume`, { json: APPROVAL })).status).toBe(202);
      await server.frames(runId, isType("run.end"));
      expect(toolTexts(server.requests[1])).toEqual(["marked", "booked"]);
    },
  );

  it(
    cites(
      "6. call_0 in two turns: the first answer again is the second's answer where it fits, and a repeat where not",
      "client.refuse.same-id",
      "client.refuse.same-id-later",
    ),
    async () => {
      const one = asks(["highlight", undefined, "call_0"]);
      const two = asks(["highlight", undefined, "call_0"], ["scroll", undefined, "call_1"]);
      for (const [second, status, read] of [
        [one, "queued", ["same", "same"]],
        [two, "suspended", undefined],
      ] as const) {
        const server = await start([one, second, says("Done.")]);
        const runId = await server.submit();
        await server.frames(runId, isType("suspend"));
        await server.resume(runId, [result("call_0", "same")]);
        const frames = await server.frames(runId, isType("suspend", 2));
        const taken = await server.resume(runId, [result("call_0", "same")]);
        expect([taken.status, taken.body.status]).toEqual([202, status]);
        if (read) {
          await server.frames(runId, isType("run.end"));
          expect(toolTexts(server.requests[2])).toEqual(read);
        } else {
          expect((await server.call("GET", `/runs/${runId}/events`)).body.events).toEqual(frames);
          expect(server.requests).toHaveLength(2);
        }
      }
    },
  );

  it("7. three calls answered in reverse order: history in asked order, and the model is called once", async () => {
    const server = await start([asks(["highlight"], ["scroll"], ["highlight"]), says("All.")]);
    const runId = await server.submit();
    await server.frames(runId, isType("suspend"));
    const answers = ["call-3", "call-2", "call-1"].map((id) => result(id, `done ${id}`));
    expect((await server.resume(runId, answers)).status).toBe(202);
    await server.frames(runId, isType("run.end"));
    expect(toolTexts(server.requests[1])).toEqual(["done call-1", "done call-2", "done call-3"]);
    expect(server.requests).toHaveLength(2);
  });

  it(
    cites(
      "8. a platform tool with an approval rule beside a client's: nothing of the platform runs before the resume",
      "client.mixed.1",
      "client.mixed.2a",
      "client.mixed.2b",
      "client.mixed.4",
      "client.mixed.5",
      "client.resume.8",
    ),
    async () => {
      const { tool, calls } = await bookTool();
      const server = await start([asks(["book"], ["highlight"]), says("Done.")], {
        declaredTools: [{ ...HIGHLIGHT, effect: "write" }, tool],
        agents: { helper: { tools: ["highlight", "book"] } },
      });
      const runId = await server.submit();
      await server.frames(runId, isType("suspend"));
      expect(calls).toEqual([]);
      await server.resume(runId, [result("call-2", "marked")]);
      const frames = await server.frames(runId, isType("suspend", 2));
      const asked = frames.filter(({ type }) => type === "suspend").map(({ data }) => data);
      expect(asked).toMatchObject([
        { resume_contract: "result", prompt: { reason: "client_tools", tool_calls: [{ id: "call-2" }] } },
        { resume_contract: "approval", prompt: { tool_calls: [{ id: "call-1", name: "book" }] } },
      ]);
      expect(calls).toEqual([]);
      expect((await server.call("POST", `/runs/${runId}/resume`, { json: APPROVAL })).status).toBe(202);
      const all = await server.frames(runId, isType("run.end"));
      expect(all.flatMap(({ type, data }) => (type === "resume" ? [data.resolved_by] : []))).toEqual([
        "human",
        "human",
      ]);
      expect(calls).toEqual(["book"]);
      expect(toolTexts(server.requests[1])).toEqual(["booked", "marked"]);
    },
  );

  it("9. cancel while a run waits, then a result, then a new message: no provider refuses the history", async () => {
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

  it("16. a start with an expired open wait: timed_out is reported once, and the callback is sent once", async () => {
    const hook = await startHook();
    onTestFinished(() => hook.close());
    const events: string[] = [];
    const nextNotice = async () => {
      const notice = JSON.parse((await hook.next()).body);
      events.push(notice.event);
      return notice;
    };
    const clock = createFakeClock();
    const kept = await store(clock);
    if (!kept) throw new Error("no store");
    const server = { callbacks: { secret: new Secret("webhook-secret"), allow: ["http://127.0.0.1:*"] } };
    const options = { clock, server };
    const more = { callback_url: hook.url, session_key: "v" };
    const first = await waiting([], { ...options, backend: kept.backend }, more);
    await nextNotice();
    await expect.poll(() => kept.backend.dueCallbacks(Number.MAX_SAFE_INTEGER, 10)).toEqual([]);
    await first.server.close();

    clock.setWallClock(clock.nowMs() + 3_600_000);
    const timedOut = { status: "timed_out", failure_class: "timeout", failure_detail: "client_tool_deadline" };
    for (let begun = 0; begun < 2; begun++) {
      const backend = await kept.reopen();
      const again = await start([says("I could not see.")], { ...options, backend });
      expect(await again.state(first.runId)).toMatchObject({ ...timedOut, suspension: null });
      const { body } = await again.call("GET", `/runs/${first.runId}/events`);
      expect(body.events.filter(({ type }: { type: string }) => type === "run.end")).toHaveLength(1);
      if (begun === 0) expect(await nextNotice()).toMatchObject({ run_id: first.runId, frame: { data: timedOut } });
      await expect.poll(() => backend.dueCallbacks(Number.MAX_SAFE_INTEGER, 10)).toEqual([]);
      if (begun === 1) {
        const next = await again.submit({ session_key: "v", client_tools: "end", callback_url: hook.url });
        await again.frames(next, isType("run.end"));
        // Nothing of the run that timed out comes before the notice of the next one.
        expect(await nextNotice()).toMatchObject({ event: "run.ended", run_id: next });
      }
      await again.close();
    }
    expect(events).toEqual(["run.suspended", "run.ended", "run.ended"]);
  });
});
