/** The device tool bridge: how long a call waits, and what its token is good for. */
import { createFakeClock } from "@leafmesh/testkit";
import { expect, it } from "vitest";
import { bridgeWorlds } from "../../packages/server/src/testing/bridge-world.ts";
import { describeOnBothStores } from "../support/stores.ts";
import { cites } from "./cites.ts";

describeOnBothStores("the device tool bridge, a call that waits", (open) => {
  const { start } = bridgeWorlds(open);

  it(
    cites(
      "has 30 seconds, announced as expires_at; then it fails with device_timeout and the run continues",
      "bridge.timeouts.1",
      "bridge.timeouts.2a",
      "bridge.timeouts.2b",
      "bridge.timeouts.3",
      "bridge.receive.expires_at",
      "bridge.codes.404",
    ),
    async () => {
      const clock = createFakeClock();
      const world = await start({ clock });
      const { frame, runId, callId, ok, stream } = await world.withCall();
      expect(frame.payload.expires_at).toBe(clock.nowMs() / 1000 + 30);
      await clock.advance(30_000);
      expect((await world.call("GET", `/api/runs/${runId}`)).body.status).toBe("running");
      await clock.advance(1);
      expect(await world.reply(runId)).toMatch(/^device_timeout: .*may have happened/);
      expect((await stream.next("tool.finished")).payload).toMatchObject({ success: false });
      expect((await world.post(callId, ok)).status).toBe(404);
      expect(world.requests).toHaveLength(2);
    },
  );

  it(cites("takes a result at the deadline itself", "bridge.timeouts.1", "bridge.timeouts.3"), async () => {
    const clock = createFakeClock();
    const world = await start({ clock });
    const { runId, callId, ok } = await world.withCall();
    await clock.advance(30_000);
    expect((await world.post(callId, ok)).status).toBe(200);
    expect(await world.reply(runId)).toContain("delivered");
  });

  it(cites("gives a client that stays attached its full time", "bridge.timeouts.1"), async () => {
    const clock = createFakeClock();
    const world = await start({ clock });
    const { runId, callId, ok } = await world.withCall();
    for (let passed = 0; passed < 29; passed++) await clock.advance(1_000);
    expect((await world.post(callId, ok)).status).toBe(200);
    expect(await world.reply(runId)).toContain("delivered");
  });
});

describeOnBothStores("the device tool bridge, the token of a call", (open) => {
  const { start } = bridgeWorlds(open);

  it(
    cites(
      "is the same for every client that views the stream, and is nowhere but on the stream",
      "bridge.security.1a",
      "bridge.security.3a",
    ),
    async () => {
      const world = await start();
      const viewer = await world.stream();
      const { callId, ok, runId, token } = await world.withCall();
      const late = await world.stream();
      for (const stream of [viewer, late]) {
        expect((await stream.next("device_tool_call")).payload.call_token).toBe(token);
      }
      const session = `/api/sessions/${world.sessionId}`;
      const paths = [session, `${session}/history`, `${session}/asks`, `${session}/device_tools`, `/api/runs/${runId}`];
      const read = async () => JSON.stringify(await Promise.all(paths.map((path) => world.call("GET", path))));
      expect(await read()).not.toContain(token);
      expect((await world.post(callId, ok)).status).toBe(200);
      await world.reply(runId);
      expect(await read()).not.toContain(token);
    },
  );

  it(
    cites(
      "answers that one call and no other, of its own session or another",
      "bridge.security.3b",
      "bridge.receive.call_token",
    ),
    async () => {
      const world = await start();
      const first = await world.withCall();
      const other = await world.another();
      const foreign = await other.withCall();
      expect((await other.post(foreign.callId, { ...foreign.ok, call_token: first.token })).status).toBe(403);
      expect((await world.post(first.callId, { ...first.ok, call_token: foreign.token })).status).toBe(403);
      expect((await world.post(first.callId, first.ok)).status).toBe(200);
      await world.reply(first.runId);
      const second = await world.withCall();
      expect((await world.post(second.callId, { ...second.ok, call_token: first.token })).status).toBe(403);
      expect((await world.post(second.callId, second.ok)).status).toBe(200);
      expect((await other.post(foreign.callId, foreign.ok)).status).toBe(200);
    },
  );
});
