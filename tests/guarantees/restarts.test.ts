/**
 * 3. A process that dies at any commit of a call: between storing, offering, answering, acknowledging and writing the
 * history. Another one goes on. Both stores; real processes that are killed are in tests/kill-matrix.
 */
import { randomBytes } from "node:crypto";
import type { Backend } from "@leafmesh/core";
import { createSealer, SECRET_KEY_BYTES } from "@leafmesh/core/security";
import type { StoredEvent } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { expect, it, onTestFinished } from "vitest";
import { callsOnce, party, SEND_SMS, until } from "../../packages/core/src/bridge/testing/party.ts";
import { answer, clientMesh, strict, submit } from "../../packages/core/src/client-tools/test-runs.ts";
import type { Engine } from "../../packages/core/src/runs/engine.ts";
import {
  call,
  calls,
  checkHistory,
  done,
  FunctionModel,
  harness,
  mortalBackend,
  says,
  tool,
} from "../../packages/core/src/runs/testing/index.ts";
import { passing } from "../../packages/server/src/testing/bridge-world.ts";
import { describeOnBothStores } from "../support/stores.ts";

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

  follow(engine: Engine, backend: Backend, sessionId: string): void {
    backend.subscribe(sessionId, {
      onEvents: (events) => {
        for (const event of events) void this.handle(engine, sessionId, event).catch(() => {});
      },
      onTransient() {},
    });
  }
}

/** Processes of a shared store look for runs that are older than a moment, by the database's clock. */
const aMinuteAgo = () => createFakeClock(Date.now() - 60_000);

describeOnBothStores("guarantees of restarts, the bridge", (open) => {
  // Of the process: 1 session, 2 message, 3 start, 4 answer of the model, 5 offer, 6 result, 7 history, 8 end.
  const deaths = [3, 4, 5, 6, 7, 8].flatMap((atCommit) => [
    { atCommit, stored: false },
    { atCommit, stored: true },
  ]);

  it.each(deaths)(
    "3. a mesh dies at commit $atCommit (stored: $stored): the run continues, the device acts once, the history is closed",
    async (death) => {
      const clock = aMinuteAgo();
      const store = await open(clock);
      onTestFinished(() => store.dispose());
      const mortal = mortalBackend(store.backend, death);
      const more = { sealer: createSealer(randomBytes(SECRET_KEY_BYTES)) };
      const first = await party(callsOnce(), { clock, backend: mortal.backend, more });
      const { sessionId } = await first.engine.createSession({ context: { device_tools: [SEND_SMS] } });
      const executor = new Executor();
      executor.follow(first.engine, mortal.backend, sessionId);
      await store.backend.attachStream(sessionId, { executor: true });
      const { runId } = await first.engine.submit({ sessionId, message: "Text mom." });
      await mortal.died;

      const backend = await store.reopen();
      await backend.attachStream(sessionId, { executor: true });
      const second = await party(callsOnce(), { clock, backend, more });
      executor.follow(second.engine, backend, sessionId);
      for (const event of await backend.events(sessionId)) void executor.handle(second.engine, sessionId, event);
      const run = await second.engine.waitForRun(runId, AbortSignal.timeout(10_000));
      expect(run).toMatchObject({ status: "succeeded", reply: JSON.stringify({ status: "ok", result: { sent: 1 } }) });
      expect(executor.ledger.size).toBe(1);

      const stored = await backend.calls({ sessionId });
      expect(stored).toMatchObject([{ state: "used", resultDigest: expect.any(String) }]);
      await until(async () => (await backend.wait(stored[0]?.waitId ?? ""))?.state === "continued");
      const types = (await backend.events(sessionId)).map(({ type }) => type);
      expect(types.filter((type) => type === "device_tool_call")).toHaveLength(1);
      expect(types.filter((type) => type === "device_tool_call.settled")).toHaveLength(1);
      const roles = (await second.engine.history(sessionId)).map(({ role }) => role);
      expect(roles).toEqual(["user", "assistant", "tool", "assistant"]);
      await passing(clock, second.engine.stop({ graceMs: 0 }));
    },
  );
});

describeOnBothStores("guarantees of restarts, a suspended run", (open) => {
  const MIXED = calls(call("note", {}, "a"), call("highlight", { selector: "#price" }, "b"));

  /** A client that never gives up: submits once, answers whenever the run waits, follows to the end. */
  async function play(atCommit: number, stored: boolean) {
    const clock = aMinuteAgo();
    const store = await open(clock);
    let notes = 0;
    let acceptances = 0;
    const note = tool("note", () => done(`noted ${++notes}`));
    const model = () =>
      strict(
        new FunctionModel(({ messages }) =>
          messages.some(({ role }) => role === "assistant") ? says("The end.") : MIXED,
        ),
      );
    const live = async (own: Backend, seen: Backend) => {
      const { engine } = await harness({ model: model(), tools: [note], mesh: clientMesh(), clock, backend: own });
      await engine.start();
      const { runId } = await submit(engine, { idempotency: { key: "one", digest: "one" } });
      for (;;) {
        const run = await seen.run(runId);
        if (run?.status === "succeeded") return { run, engine };
        if (run?.status === "suspended") {
          const resumed = await engine.resumeRun(runId, answer(["b", "marked"]), "key");
          if (resumed.status === "refused") throw new Error(resumed.code);
          if (resumed.status === "accepted") acceptances++;
        }
        await new Promise((resolve) => setImmediate(resolve));
      }
    };

    const first = store.backend;
    const mortal = mortalBackend(first, { atCommit, stored });
    const lived = live(mortal.backend, first).catch(() => "died" as const);
    const how = await Promise.race([mortal.died.then(() => "died" as const), lived]);
    const backend = how === "died" ? await store.reopen() : first;
    const { run, engine } = how === "died" ? await live(backend, backend) : how;
    const played = {
      died: how === "died",
      run,
      notes,
      acceptances,
      messages: await backend.messages(run.sessionId),
      frames: (await backend.frames(run.id)).map(({ type }) => type),
      calls: await backend.calls({ runId: run.id }),
      waits: await backend.waits({ runId: run.id }),
    };
    await passing(clock, engine.stop({ graceMs: 0 }));
    await store.dispose();
    return played;
  }

  it("3. a process dies at any commit: nothing is lost or executed twice, and the history is closed", async () => {
    for (let atCommit = 1; ; atCommit++) {
      let died = false;
      for (const stored of [true, false]) {
        const played = await play(atCommit, stored);
        died ||= played.died;
        checkHistory(played.messages);
        expect(played.run).toMatchObject({ status: "succeeded", reply: "The end." });
        expect(played.notes).toBeLessThanOrEqual(1);
        const [note, marked] = played.messages.flatMap(({ message }) =>
          message.role === "tool" ? [message.content] : [],
        );
        expect(marked).toBe("marked");
        if (played.notes === 1 && note !== "noted 1") expect(note).toMatch(/may have happened/);
        expect(played.frames.filter((type) => type === "suspend")).toHaveLength(1);
        expect(played.frames.filter((type) => type === "resume")).toHaveLength(1);
        expect(played.frames.at(-1)).toBe("run.end");
        expect(played.calls.map(({ state }) => state)).toEqual(["used"]);
        expect(played.waits.map(({ state }) => state)).toEqual(["continued"]);
      }
      if (!died) {
        // Submitted and begun; answer and wait; resume; taken up; results; reply.
        expect(atCommit).toBe(7);
        break;
      }
    }
  });
});
