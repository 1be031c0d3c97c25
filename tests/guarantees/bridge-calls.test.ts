/** What the pending calls of the bridge guarantee, over HTTP and on both stores. Numbers are those of the guarantees. */
import { createFakeClock } from "@leafmesh/testkit";
import { expect, it } from "vitest";
import { recordingLogger } from "../../packages/core/src/runs/testing/logger.ts";
import { asks, says, toChatRequest, toolTexts } from "../../packages/server/src/test-runs.ts";
import { bridgeWorlds, passing, SEND_SMS } from "../../packages/server/src/testing/bridge-world.ts";
import { cites } from "../contracts/cites.ts";
import { describeOnBothStores } from "../support/stores.ts";

const EXECUTOR = { "x-mewbo-capabilities": "device_control" };
const JPEG = Buffer.from([0xff, 0xd8, 0xff, 0xe0, ...Buffer.from("MARKED".padEnd(3_000, "."))]).toString("base64");

describeOnBothStores("guarantees of the bridge", (open) => {
  const { start } = bridgeWorlds(open);

  it("2. an executor that detaches mid-wait and then posts: never 200 without effect", async () => {
    const clock = createFakeClock();
    const world = await start({ clock });
    const statuses: number[] = [];
    for (const awayMs of [0, 4_000, 5_000, 5_001, 6_000, "until the model has read the loss"] as const) {
      const other = await world.another();
      const executor = await other.stream(EXECUTOR);
      const { body } = await other.query();
      const { payload } = await executor.next("device_tool_call");
      executor.close();
      await expect.poll(async () => (await world.server.backend.presence(other.sessionId)).executors).toBe(0);
      if (typeof awayMs === "number") await clock.advance(awayMs);
      else await passing(clock, other.reply(body.run_id));
      const json = { call_token: payload.call_token, status: "ok", result: { awayMs } };
      const { status } = await other.post(String(payload.call_id), json);
      statuses.push(status);
      const read = await passing(clock, other.reply(body.run_id));
      if (status === 200) expect(read).toBe(JSON.stringify({ status: "ok", result: { awayMs } }));
      else expect([status, read]).toEqual([404, expect.stringMatching(/^device_unavailable: .*may have happened/)]);
    }
    expect([statuses.at(0), statuses.at(-1)]).toEqual([200, 404]);
  });

  it(
    cites(
      "4. two viewers that post the same call at once: one 200, one 409",
      "bridge.timeouts.4",
      "bridge.timeouts.5a",
      "bridge.timeouts.5b",
    ),
    async () => {
      const world = await start();
      for (let round = 0; round < 10; round++) {
        const { callId, ok, stream, runId } = await world.withCall();
        const posts = await Promise.all(["a", "b"].map((by) => world.post(callId, { ...ok, result: { by } })));
        expect(posts.map(({ status }) => status).sort()).toEqual([200, 409]);
        const winner = posts[0]?.status === 200 ? "a" : "b";
        expect(await world.reply(runId)).toBe(JSON.stringify({ status: "ok", result: { by: winner } }));
        stream.close();
      }
    },
  );

  it("7. three parallel calls answered in reverse order: history in asked order, and the model is called once", async () => {
    const ids = ["a", "b", "c"];
    const world = await start({
      answer: async ({ messages }) =>
        messages.at(-1)?.role === "user"
          ? asks(...ids.map((id) => [SEND_SMS.tool_id, { id }, id] as const))
          : says("All sent."),
    });
    const { stream, runId } = await world.withCall();
    await stream.next("device_tool_call", ids.length);
    const frames = stream.frames.filter(({ type }) => type === "device_tool_call");
    for (const { payload } of [...frames].sort((one, other) => (idOf(one) < idOf(other) ? 1 : -1))) {
      const json = { call_token: payload.call_token, status: "ok", result: payload.args };
      expect((await world.post(String(payload.call_id), json)).status).toBe(200);
    }
    expect(await world.reply(runId)).toBe("All sent.");
    const read = ids.map((id) => JSON.stringify({ status: "ok", result: { id } }));
    expect(toolTexts(world.requests[1])).toEqual(read);
    expect(world.requests).toHaveLength(2);
    const { body } = await world.call("GET", `/api/sessions/${world.sessionId}/history`);
    const kept = body.messages.filter(({ role }: { role: string }) => role === "tool");
    expect(kept.map(({ content }: { content: string }) => content)).toEqual(read);
  });

  it("9. cancel while a call waits, then a result, then a new message: no provider refuses the history", async () => {
    const world = await start();
    const { callId, ok, runId } = await world.withCall();
    expect((await world.call("POST", `/api/runs/${runId}/cancel`)).status).toBe(202);
    expect(await world.reply(runId)).toBe("cancelled");
    const fresh = await world.stream();
    await fresh.next("session_state");
    const types = fresh.frames.map(({ type }) => type);
    expect(types.indexOf("device_tool_call.settled")).toBeGreaterThan(0);
    expect(types.indexOf("device_tool_call.settled")).toBeLessThan(types.indexOf("run.finished"));
    expect((await world.post(callId, ok)).status).toBe(404);
    const next = await world.withCall({ query: "And now?" });
    expect((await world.post(next.callId, next.ok)).status).toBe(200);
    expect(await world.reply(next.runId)).toContain("delivered");
  });

  it(
    cites(
      "10. context that does not mention device tools keeps them; a list replaces them whole, an empty one removes them",
      "bridge.declare.6b",
      "bridge.declare.7c",
    ),
    async () => {
      const world = await start({ answer: async () => says("hi") });
      const other = { ...SEND_SMS, tool_id: "device_other" };
      const contexts = [{ device_tools: [SEND_SMS] }, undefined, { locale: "de" }, { device_tools: [other] }];
      for (const context of [...contexts, { locale: "en" }, {}, { device_tools: [] }, undefined, { locale: "fr" }]) {
        const { body } = await world.query({ context });
        await world.reply(body.run_id);
      }
      const shown = world.requests.map(({ tools }) => tools.map(({ name }) => name).join());
      const [sms, another] = ["device_send_sms", "device_other"];
      expect(shown).toEqual([sms, sms, sms, another, another, another, "", "", ""]);
    },
  );

  it(
    cites(
      "11. the token is absent from history reads, exports and logs, and another session's is refused",
      "bridge.security.1a",
      "bridge.security.3b",
    ),
    async () => {
      const logger = recordingLogger();
      const world = await start({ logger });
      const { callId, ok, runId, token } = await world.withCall();
      const other = await world.another();
      const foreign = await other.withCall();
      expect((await other.post(foreign.callId, { ...foreign.ok, call_token: token })).status).toBe(403);
      expect((await other.post(callId, ok)).status).toBe(404);
      const session = `/api/sessions/${world.sessionId}`;
      const paths = [session, `${session}/history`, `${session}/asks`, `/api/runs/${runId}`, "/api/sessions"];
      const { backend } = world.server;
      const readAll = async () =>
        JSON.stringify([
          await Promise.all(paths.map(async (path) => (await world.call("GET", path)).body)),
          await backend.call(callId),
          await backend.events(world.sessionId),
          await backend.messages(world.sessionId),
          logger.lines,
          world.requests,
        ]);
      expect(token.length).toBeGreaterThan(20);
      expect(await readAll()).not.toContain(token);
      expect((await world.post(callId, ok)).status).toBe(200);
      await world.reply(runId);
      expect(await readAll()).not.toContain(token);
      expect((await backend.call(callId))?.sealedToken).toBeUndefined();
    },
  );

  it("12. a fresh client that replays from sequence 0 sees no settled call as open", async () => {
    const clock = createFakeClock();
    const world = await start({ clock });
    const answered = await world.withCall();
    await world.post(answered.callId, answered.ok);
    await world.reply(answered.runId);
    const expired = await world.withCall();
    await clock.advance(30_001);
    await world.reply(expired.runId);
    const cancelled = await world.withCall();
    await world.call("POST", `/api/runs/${cancelled.runId}/cancel`);
    await world.reply(cancelled.runId);
    const waiting = await world.withCall();

    const fresh = await world.stream({}, "?after=0");
    await fresh.next("session_state");
    const offered = fresh.frames.filter(({ type }) => type === "device_tool_call").map(({ payload }) => payload);
    const settled = fresh.frames.filter(({ type }) => type === "device_tool_call.settled");
    expect(offered.map(({ call_id }) => call_id)).toEqual(
      [answered, expired, cancelled, waiting].map(({ callId }) => callId),
    );
    expect(settled.map(({ payload }) => payload)).toEqual([
      { call_id: answered.callId, status: "answered" },
      { call_id: expired.callId, status: "expired" },
      { call_id: cancelled.callId, status: "cancelled" },
    ]);
    expect(offered.map((payload) => "call_token" in payload)).toEqual([false, false, false, true]);
  });

  it(
    cites(
      "13. an image's bytes are never in the stored transcript, and an error result comes without its image",
      "bridge.image.6",
      "bridge.image.7a",
      "bridge.image.7b",
      "bridge.image.8",
      "bridge.image.9",
      "bridge.image.10",
    ),
    async () => {
      const world = await start();
      const good = await world.withCall();
      await world.post(good.callId, { ...good.ok, result: { image_base64: JPEG, screen_width: 1440 } });
      await world.reply(good.runId);
      const bad = await world.withCall();
      const image = { image_base64: JPEG, image_media_type: "image/jpeg" };
      const error = { code: "permission_denied", message: "No camera.", ...image };
      const failed = { call_token: bad.token, status: "error", error, result: image };
      expect((await world.post(bad.callId, failed)).status).toBe(200);
      expect(await world.reply(bad.runId)).toBe("permission_denied: No camera.");
      // The first call's image is still there to be seen; the failed one added none.
      const images = world.requests.map((request) => JSON.stringify(toChatRequest(request)).split(JPEG).length - 1);
      expect(images).toEqual([0, 1, 1, 1]);
      expect(toolTexts(world.requests[3]).at(-1)).toBe("permission_denied: No camera.");

      const fresh = await world.stream();
      await fresh.next("session_state");
      const { backend } = world.server;
      const history = (await world.call("GET", `/api/sessions/${world.sessionId}/history`)).body;
      const read = JSON.stringify([
        history,
        fresh.frames,
        await backend.messages(world.sessionId),
        await backend.events(world.sessionId),
        await backend.call(good.callId),
        await backend.call(bad.callId),
      ]);
      expect(read).not.toContain(JPEG.slice(0, 16));
      expect(read).not.toContain("image_base64");
      expect(JSON.stringify(history).length).toBeLessThan(JPEG.length / 2);
      expect(read).toContain("1440");
    },
  );
});

function idOf({ payload }: { readonly payload: Readonly<Record<string, unknown>> }): string {
  return (payload.args as { id: string }).id;
}
