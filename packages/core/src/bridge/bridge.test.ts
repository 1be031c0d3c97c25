import { createFakeClock } from "@leafmesh/testkit";
import { describe, expect, it } from "vitest";
import { testAgent, testMesh } from "../runs/testing/mesh.ts";
import { call, calls, FunctionModel, says } from "../runs/testing/models.ts";
import { createDisk, memoryBackend } from "../runs/testing/stores.ts";
import { type Backend, StorageError } from "../storage/contract.ts";
import { createRunQueue } from "../storage/embedded/run-queue.ts";
import { callsOnce, party, readBy, SEND_SMS, SMS_ARGUMENTS } from "./testing/party.ts";

describe("a call of a declared tool", () => {
  it("looks to the agent exactly like a built-in one", async () => {
    const { client, model } = await party();
    const phone = await client();
    const runId = await phone.ask();
    await phone.post(await phone.nextCall());
    await phone.reply(runId);
    expect(model.requests[0]?.tools).toEqual([
      { name: SEND_SMS.tool_id, description: SEND_SMS.description, parameters: SEND_SMS.parameters },
    ]);
  });

  it("is delivered with exactly the five keys of the contract", async () => {
    const { client, clock } = await party();
    const phone = await client();
    await phone.ask();
    const { payload } = await phone.nextCall();
    expect(payload).toEqual({
      call_id: expect.stringMatching(/^call_/),
      call_token: expect.stringMatching(/^dct_.{20,}/),
      tool_id: "device_send_sms",
      args: SMS_ARGUMENTS,
      expires_at: (clock.nowMs() + 30_000) / 1000,
    });
    expect(Object.keys(payload)).toEqual(["call_id", "call_token", "tool_id", "args", "expires_at"]);
  });

  it("resolves with the result, whole, and the run continues", async () => {
    const { client } = await party();
    const phone = await client();
    const runId = await phone.ask();
    const result = { delivered: true, message_id: "sms_88213" };
    expect(await phone.post(await phone.nextCall(), { status: "ok", result })).toEqual({ status: "resolved" });
    expect(await phone.reply(runId)).toBe(JSON.stringify({ status: "ok", result }));
  });

  it("takes a missing result as null", async () => {
    const { client } = await party();
    const phone = await client();
    const runId = await phone.ask();
    await phone.post(await phone.nextCall(), { status: "ok" });
    expect(await phone.reply(runId)).toBe('{"status":"ok","result":null}');
  });

  it.each([
    [{ code: "permission_denied", message: "The user denied it." }, "permission_denied: The user denied it."],
    [{ code: " ", message: "No signal." }, "device_error: No signal."],
    [{ code: "no_signal" }, "no_signal: The device reported an error."],
    [{ code: "x", message: "m", stack: "secret" }, "x: m"],
  ])("that fails with %j is a failed step that reads %j", async (error, text) => {
    const { client, backend } = await party();
    const phone = await client();
    const runId = await phone.ask();
    await phone.post(await phone.nextCall(), { status: "error", error, result: { image_base64: "/9j/" } });
    expect(await phone.reply(runId)).toBe(text);
    const finished = await backend.events(phone.sessionId, { types: ["tool.finished"] });
    expect(finished).toMatchObject([{ payload: { success: false } }]);
  });

  it("gets {} for arguments that are not an object, and is not made for text that is no JSON", async () => {
    for (const args of ["[1]", '"x"', "null"]) {
      const { client } = await party(callsOnce(SEND_SMS.tool_id, args));
      const phone = await client();
      await phone.ask();
      expect((await phone.nextCall()).payload.args).toEqual({});
    }
    const { client } = await party(callsOnce(SEND_SMS.tool_id, '{"to":'));
    const phone = await client();
    expect(await phone.reply(await phone.ask())).toContain("not JSON");
    expect(phone.calls).toEqual([]);
  });

  it("shows the model at most 30 000 characters of a result", async () => {
    const { client } = await party();
    const phone = await client();
    const runId = await phone.ask();
    await phone.post(await phone.nextCall(), { status: "ok", result: "x".repeat(50_000) });
    const reply = await phone.reply(runId);
    expect(reply).toHaveLength(30_000);
    expect(reply).toMatch(/\[Cut: the result has 50\d{3} characters\.\]$/);
  });
});

describe("without an answer", () => {
  it("the call fails with device_timeout after 30 s, says that it may have happened, and the run continues", async () => {
    const { client, clock, backend } = await party();
    const phone = await client();
    const runId = await phone.ask();
    const frame = await phone.nextCall();
    await clock.advance(30_000);
    expect(await backend.call(frame.payload.call_id)).toMatchObject({ state: "offered" });
    await clock.advance(1);
    expect(await phone.reply(runId)).toMatch(/^device_timeout: .*may have happened/);
    expect(await phone.post(frame)).toEqual({ status: "no_such_call" });
    expect(await backend.call(frame.payload.call_id)).toMatchObject({
      state: "used",
      late: { result: { status: "ok", result: { delivered: true } } },
    });
  });

  it("a late result is told to the model of the next run, once, beside a history that stays as it is", async () => {
    const { client, clock, model, engine } = await party();
    const phone = await client();
    const first = await phone.ask();
    const frame = await phone.nextCall();
    await clock.advance(30_001);
    await phone.reply(first);
    const before = await engine.history(phone.sessionId);
    await phone.post(frame, { status: "ok", result: { delivered: "after all" } });
    for (const [index, message] of ["And now?", "And then?"].entries()) {
      const runId = await phone.ask(message);
      await phone.post(await phone.nextCall(index + 2));
      await phone.reply(runId);
    }
    const told = model.requests.map(({ messages }) => JSON.stringify(messages).includes("after all"));
    expect(told).toEqual([false, false, true, true, false, false]);
    const question = model.requests[2]?.messages.at(-1)?.content;
    expect(question).toMatch(/^And now\?\n\n\[Note from the mesh, not from the user: device_send_sms .*"after all"/);
    const history = await engine.history(phone.sessionId);
    expect(history.slice(0, before.length)).toEqual(before);
    expect(JSON.stringify(history)).not.toContain("after all");
  });

  it("an answer at the deadline itself is in time", async () => {
    const { client, clock } = await party();
    const phone = await client();
    const runId = await phone.ask();
    const frame = await phone.nextCall();
    await clock.advance(30_000);
    expect(await phone.post(frame)).toEqual({ status: "resolved" });
    expect(await phone.reply(runId)).toContain("delivered");
  });

  it("the wait is as long when the machine's clock is set", async () => {
    for (const byMs of [3_600_000, -3_600_000]) {
      const { client, clock } = await party();
      const phone = await client();
      const runId = await phone.ask();
      const frame = await phone.nextCall();
      clock.setWallClock(clock.nowMs() + byMs);
      await clock.advance(29_000);
      expect(await phone.post(frame)).toEqual({ status: "resolved" });
      expect(await phone.reply(runId)).toContain("delivered");
    }
  });

  it("the wait ends with the run's own deadline, which is announced", async () => {
    const { client, engine, clock } = await party();
    const phone = await client();
    await engine.submit({ sessionId: phone.sessionId, message: "Text mom.", timeoutMs: 10_000 });
    const frame = await phone.nextCall();
    expect(frame.payload.expires_at).toBe((clock.nowMs() + 10_000) / 1000);
    await clock.advance(10_001);
    expect(await phone.post(frame)).toEqual({ status: "no_such_call" });
  });
});

describe("presence", () => {
  it("nobody attached: the call fails at once with device_unavailable and no event is appended", async () => {
    const { client, backend } = await party();
    const phone = await client();
    await phone.detach();
    expect(await phone.reply(await phone.ask())).toMatch(/^device_unavailable: .*nothing happened/);
    const types = (await backend.events(phone.sessionId)).map(({ type }) => type);
    expect(types).not.toContain("device_tool_call");
    expect(await backend.calls({ sessionId: phone.sessionId })).toEqual([]);
  });

  it("once a stream has said that it executes, a viewer alone does not count", async () => {
    const { client, clock } = await party();
    const phone = await client({ executor: true });
    await phone.detach();
    await phone.reattach(false);
    await clock.advance(5_001);
    expect(await phone.reply(await phone.ask())).toMatch(/^device_unavailable: /);
  });

  it("an executor that left at most 5 s ago still counts", async () => {
    const { client, clock } = await party();
    const phone = await client({ executor: true });
    await phone.detach();
    await clock.advance(4_000);
    const runId = await phone.ask();
    const frame = await phone.nextCall();
    await phone.reattach(true);
    await clock.advance(20_000);
    expect(await phone.post(frame)).toEqual({ status: "resolved" });
    expect(await phone.reply(runId)).toContain("delivered");
  });

  it("a session that never had a declared executor gives its clients the full 30 s", async () => {
    const { client, clock } = await party();
    const phone = await client();
    const runId = await phone.ask();
    const frame = await phone.nextCall();
    await phone.detach();
    await clock.advance(29_000);
    expect(await phone.post(frame)).toEqual({ status: "resolved" });
    expect(await phone.reply(runId)).toContain("delivered");
  });
});

describe("which tools a run has", () => {
  const _other = { ...SEND_SMS, tool_id: "device_other" };
  const _toolsOf = async (given: unknown, then: (submit: (context?: object) => Promise<void>) => Promise<void>) => {
    const { client, engine, model } = await party(new FunctionModel((request) => says(readBy(request))));
    const phone = await client({ tools: given });
    await then(async (context) => {
      const { runId } = await engine.submit({
        sessionId: phone.sessionId,
        message: "hi",
        ...(context ? { context: { ...context } } : {}),
      });
      await phone.reply(runId);
    });
    return model.requests.map((request) => request.tools.map((tool) => tool.name));
  };

  it("a wrong declaration that was stored is dropped whole, with a warning, and the run starts", async () => {
    const { client, backend, model } = await party(new FunctionModel(() => says("hello")));
    const phone = await client({ tools: [SEND_SMS, { tool_id: "no_prefix" }] });
    expect(await phone.reply(await phone.ask())).toBe("hello");
    expect(model.requests[0]?.tools).toEqual([]);
    expect(await backend.events(phone.sessionId, { types: ["warning"] })).toMatchObject([
      { payload: { code: "device_tools_dropped", message: expect.stringContaining("context.device_tools.1") } },
    ]);
  });

  it("a wrong declaration in a message is refused, nothing is stored, and the session takes the next message", async () => {
    const { client, engine, backend } = await party(new FunctionModel(() => says("hello")));
    const phone = await client();
    const before = await backend.events(phone.sessionId);
    const context = { device_tools: [{ ...SEND_SMS, extra: 1 }] };
    await expect(engine.submit({ sessionId: phone.sessionId, message: "hi", context })).rejects.toMatchObject({
      code: "invalid_device_tools",
      problems: [{ field: "context.device_tools.0.extra", message: "unknown field" }],
    });
    expect(await backend.events(phone.sessionId)).toEqual(before);
    expect(await backend.runs({ sessionId: phone.sessionId })).toEqual([]);
    expect((await backend.session(phone.sessionId))?.context).toEqual({ device_tools: [SEND_SMS] });
    expect(await phone.reply(await phone.ask())).toBe("hello");
  });

  it("they are frozen when the message is taken: a later declaration has no effect on it", async () => {
    const { client, engine, model } = await party();
    const phone = await client();
    const runId = await phone.ask();
    const frame = await phone.nextCall();
    const second = await engine.submit({
      sessionId: phone.sessionId,
      message: "again",
      context: { device_tools: [] },
    });
    await phone.post(frame);
    await phone.reply(runId);
    expect(model.requests.map((request) => request.tools.length)).toEqual([1, 1]);
    await engine.waitForRun(second.runId, AbortSignal.timeout(5_000));
    expect(model.requests.at(-1)?.tools).toEqual([]);
  });
});

describe("the end of a run", () => {
  it("a call stays open in the store across a restart, and its result reaches the new process", async () => {
    const clock = createFakeClock();
    await using disk = await createDisk(clock);
    const first = await party(callsOnce(), { clock, backend: await disk.open() });
    const phone = await first.client();
    const runId = await phone.ask();
    const frame = await phone.nextCall();
    const stopped = first.engine.stop({ graceMs: 0 });
    await clock.advance(10_000);
    await stopped;

    const second = await party(callsOnce(), { clock, backend: await disk.open() });
    expect(await second.backend.call(frame.payload.call_id)).toMatchObject({ state: "offered" });
    const body = { call_token: frame.payload.call_token, status: "ok", result: "late but in time" };
    const answer = { sessionId: phone.sessionId, callId: frame.payload.call_id, body };
    expect(await second.engine.answerDeviceTool(answer)).toEqual({ status: "resolved" });
    const run = await second.engine.waitForRun(runId, AbortSignal.timeout(5_000));
    expect(run.reply).toBe('{"status":"ok","result":"late but in time"}');
    expect(await second.engine.answerDeviceTool(answer)).toEqual({ status: "already_resolved", same: true });
    const offered = await second.backend.events(phone.sessionId, { types: ["device_tool_call"] });
    expect(offered).toHaveLength(1);
  });

  it("a call whose deadline passed while the mesh was down ends as device_timeout", async () => {
    const clock = createFakeClock();
    await using disk = await createDisk(clock);
    const first = await party(callsOnce(), { clock, backend: await disk.open() });
    const phone = await first.client();
    const runId = await phone.ask();
    await phone.nextCall();
    const stopped = first.engine.stop({ graceMs: 0 });
    await clock.advance(40_000);
    await stopped;
    const second = await party(callsOnce(), { clock, backend: await disk.open() });
    const run = await second.engine.waitForRun(runId, AbortSignal.timeout(5_000));
    expect(run.reply).toMatch(/^device_timeout: .*may have happened/);
  });
});

describe("a mesh that starts with another secret key", () => {
  it("shows the frames of an open call without its token, and goes on", async () => {
    const clock = createFakeClock();
    const store = await memoryBackend(clock);
    const first = await party(callsOnce(), { clock, backend: store });
    const phone = await first.client();
    await phone.ask();
    const frame = await phone.nextCall();
    const second = await party(callsOnce(), { clock, backend: { ...store, queue: createRunQueue(first.logger) } });
    const shown = await second.engine.forStream({ ...frame, payload: { ...frame.payload, call_token: undefined } });
    expect(shown?.payload).not.toHaveProperty("call_token", expect.any(String));
    expect(second.logger.lines).toContainEqual(expect.objectContaining({ level: "error" }));
  });
});

describe("a call of another face", () => {
  it("cannot be answered here, nor ended", async () => {
    const { client, clock, pending, backend, engine } = await party();
    const phone = await client();
    const runId = await phone.ask();
    await phone.nextCall();
    const asked = await pending.open({
      id: "ask_1",
      sessionId: phone.sessionId,
      runId,
      agent: "helper",
      turn: 1,
      position: 1,
      providerCallId: "call_1",
      tool: "device_action",
      arguments: {},
      expiresAt: clock.nowMs() - 1,
    });
    expect(asked.status).toBe("moved");
    const answer = { sessionId: phone.sessionId, callId: "ask_1", body: { call_token: "x", status: "ok" } };
    expect(await engine.answerDeviceTool(answer)).toEqual({ status: "no_such_call" });
    expect(await backend.call("ask_1")).toMatchObject({ state: "created" });
  });
});

describe("limits", () => {
  it("at most 32 calls of a session wait at once, also of one turn; the rest fail and say so", async () => {
    const model = new FunctionModel(({ messages }) =>
      messages.at(-1)?.role === "tool"
        ? says(messages.flatMap((message) => (message.role === "tool" ? [message.content] : [])).join("|"))
        : calls(...Array.from({ length: 40 }, (_, index) => call(SEND_SMS.tool_id, {}, `c${index}`))),
    );
    const mesh = testMesh([testAgent({ maxToolCallsPerMessage: 50 })], { toolResultMaxChars: 100_000 });
    const { client } = await party(model, { mesh });
    const phone = await client();
    const runId = await phone.ask();
    await phone.nextCall(32);
    for (const frame of phone.calls) await phone.post(frame);
    const results = (await phone.reply(runId))?.split("|") ?? [];
    expect(phone.calls).toHaveLength(32);
    expect(results.filter((text) => text.includes("delivered"))).toHaveLength(32);
    expect(results.filter((text) => text.startsWith("too_many_device_calls: "))).toHaveLength(8);
  });
});

describe("a store that fails", () => {
  it("under the end of a call is tried again: the history and the post never disagree", async () => {
    const clock = createFakeClock();
    const store = await memoryBackend(clock);
    let failing = 0;
    const backend: Backend = {
      ...store,
      async commit(writes) {
        if (failing > 0 && writes.some((write) => write.kind === "call.update")) {
          failing--;
          throw new StorageError("full", "the disk is full");
        }
        return store.commit(writes);
      },
    };
    const { client } = await party(callsOnce(), { clock, backend });
    const phone = await client();
    const runId = await phone.ask();
    const frame = await phone.nextCall();
    failing = 2;
    await clock.advance(33_000);
    expect(await phone.reply(runId)).toMatch(/^device_timeout: /);
    expect(await phone.post(frame)).toEqual({ status: "no_such_call" });
  });

  it("under the offer leaves a call that is waited for if it was stored after all, and none otherwise", async () => {
    for (const isStored of [true, false]) {
      const clock = createFakeClock();
      const store = await memoryBackend(clock);
      const backend: Backend = {
        ...store,
        async commit(writes) {
          if (!writes.some((write) => write.kind === "call.create")) return store.commit(writes);
          if (isStored) await store.commit(writes);
          throw new StorageError("unavailable", "the connection broke");
        },
      };
      const { client } = await party(callsOnce(), { clock, backend });
      const phone = await client();
      const runId = await phone.ask();
      if (isStored) expect(await phone.post(await phone.nextCall())).toEqual({ status: "resolved" });
      expect(await phone.reply(runId)).toMatch(isStored ? /delivered/ : /^device_tool_internal: /);
    }
  });
});
