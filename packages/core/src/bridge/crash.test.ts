import { randomBytes } from "node:crypto";
import type { StoredEvent } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { describe, expect, it } from "vitest";
import type { Engine } from "../runs/engine.ts";
import { memoryBackend, mortalBackend } from "../runs/testing/stores.ts";
import { createSealer, SECRET_KEY_BYTES } from "../security/sealer.ts";
import { callsOnce, party, SEND_SMS, until } from "./testing/party.ts";

/** An executor with a ledger: never runs a call twice, and posts a result that it has again. */
class Executor {
  /** What really happened, by call. */
  readonly ledger = new Map<string, { readonly sent: number }>();

  /** Answers what a frame asks for; a mesh that dies meanwhile never tells. */
  async handle(engine: Engine, sessionId: string, event: StoredEvent): Promise<void> {
    const { type, payload } = (await engine.forStream(event)) ?? event;
    if (type !== "device_tool_call" || payload.call_token === undefined) return;
    const result = this.ledger.get(payload.call_id) ?? { sent: this.ledger.size + 1 };
    this.ledger.set(payload.call_id, result);
    const body = { call_token: payload.call_token, status: "ok", result };
    await engine.answerDeviceTool({ sessionId, callId: payload.call_id, body });
  }

  follow(engine: Engine, backend: Awaited<ReturnType<typeof memoryBackend>>, sessionId: string): void {
    backend.subscribe(sessionId, {
      onEvents: (events) => {
        for (const event of events) void this.handle(engine, sessionId, event);
      },
      onTransient() {},
    });
  }
}

describe("3. a mesh that dies under a call", () => {
  // Of the process: 1 session, 2 message, 3 start, 4 answer of the model, 5 offer, 6 result, 7 history, 8 end.
  const deaths = [3, 4, 5, 6, 7, 8].flatMap((atCommit) => [
    { atCommit, stored: false },
    { atCommit, stored: true },
  ]);

  it.each(deaths)(
    "at commit $atCommit (stored: $stored): the run continues, and the device acts once",
    async (death) => {
      const clock = createFakeClock();
      const store = await memoryBackend(clock);
      const mortal = mortalBackend(store, death);
      const more = { sealer: createSealer(randomBytes(SECRET_KEY_BYTES)) };
      const first = await party(callsOnce(), { clock, backend: mortal.backend, more });
      const { sessionId } = await first.engine.createSession({ context: { device_tools: [SEND_SMS] } });
      const executor = new Executor();
      executor.follow(first.engine, mortal.backend, sessionId);
      await store.attachStream(sessionId, { executor: true });
      const { runId } = await first.engine.submit({ sessionId, message: "Text mom." });
      await mortal.died;

      const second = await party(callsOnce(), { clock, backend: store, more });
      executor.follow(second.engine, store, sessionId);
      for (const event of await store.events(sessionId)) void executor.handle(second.engine, sessionId, event);
      const run = await second.engine.waitForRun(runId, AbortSignal.timeout(5_000));
      expect(run).toMatchObject({ status: "succeeded", reply: JSON.stringify({ status: "ok", result: { sent: 1 } }) });
      expect(executor.ledger.size).toBe(1);

      const calls = await store.calls({ sessionId });
      expect(calls).toMatchObject([{ state: "used", resultDigest: expect.any(String) }]);
      await until(async () => (await store.wait(calls[0]?.waitId ?? ""))?.state === "continued");
      const types = (await store.events(sessionId)).map(({ type }) => type);
      expect(types.filter((type) => type === "device_tool_call")).toHaveLength(1);
      expect(types.filter((type) => type === "device_tool_call.settled")).toHaveLength(1);
      const roles = (await second.engine.history(sessionId)).map(({ role }) => role);
      expect(roles).toEqual(["user", "assistant", "tool", "assistant"]);
    },
  );
});
