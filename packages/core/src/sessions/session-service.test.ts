import { Secret, type StoredEvent, type TransientEvent } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { describe, expect, it } from "vitest";
import { EngineError } from "../runs/engine-error.ts";
import { converse, harness, memoryBackend, says, scripted, silentModel } from "../runs/testing/index.ts";

const _soon = () => AbortSignal.timeout(10_000);
const phone = (id: string, token = `token-${id}`) => ({ id, pushToken: new Secret(token) });

async function refusal(promise: Promise<unknown>): Promise<EngineError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof EngineError)) throw new Error(`not refused: ${String(error)}`);
  return error;
}

describe("devices", () => {
  it("are merged by id, their tokens sealed and opened only by the directory", async () => {
    const { engine, backend } = await harness({ model: silentModel() });
    const tablet = { ...phone("tablet"), name: "My tablet", platform: "ios" };
    const { sessionId } = await engine.createSession({ devices: [phone("phone"), tablet] });
    await engine.submit({
      sessionId,
      message: "hi",
      devices: [phone("watch"), { ...phone("phone", "new"), name: "P" }],
    });

    const listed = await engine.directory.list(sessionId);
    expect(listed.map(({ id, name, pushToken }) => [id, name, pushToken.reveal()])).toEqual([
      ["phone", "P", "new"],
      ["tablet", "My tablet", "token-tablet"],
      ["watch", undefined, "token-watch"],
    ]);
    const changes = await backend.events(sessionId, { types: ["devices.changed"] });
    expect(changes.map(({ payload }) => payload)).toEqual([
      { devices: [{ id: "phone" }, { id: "tablet", name: "My tablet", platform: "ios" }] },
      { devices: [{ id: "phone", name: "P" }, { id: "tablet", name: "My tablet", platform: "ios" }, { id: "watch" }] },
    ]);
    expect(JSON.stringify(await backend.events(sessionId))).not.toMatch(/token-|new/);

    await engine.submit({ sessionId, message: "and" });
    expect(await engine.directory.list(sessionId)).toHaveLength(3);
    await engine.submit({ sessionId, message: "clear", devices: [] });
    expect(await engine.directory.list(sessionId)).toEqual([]);
  });

  it("are at most 16 and each only once in a list; a refused list changes nothing", async () => {
    const { engine, backend } = await harness({ model: silentModel() });
    const sixteen = Array.from({ length: 16 }, (_, index) => phone(`d${index}`));
    const { sessionId } = await engine.createSession({ devices: sixteen });
    const before = await backend.lastEventSeq(sessionId);
    const submit = (...devices: ReturnType<typeof phone>[]) =>
      refusal(engine.submit({ sessionId, message: "x", devices }));
    expect(await submit(phone("d16"))).toMatchObject({
      code: "too_many_devices",
      message: /at most 16.*would have 17/,
    });
    expect(await submit(phone("d1"), phone("d1", "other"))).toMatchObject({ code: "duplicate_device", message: /d1/ });
    expect((await refusal(engine.createSession({ devices: [...sixteen, phone("d16")] }))).code).toBe(
      "too_many_devices",
    );
    expect(await backend.lastEventSeq(sessionId)).toBe(before);
    expect((await engine.directory.list(sessionId)).map(({ id }) => id)).toEqual(sixteen.map(({ id }) => id));
    await engine.submit({ sessionId, message: "x", devices: [phone("d3", "again")] });
    expect(await engine.directory.list(sessionId)).toHaveLength(16);
  });

  it("of concurrent requests are all kept", async () => {
    const { engine } = await harness({ model: silentModel() });
    const { sessionId } = await engine.createSession({});
    await Promise.all(["a", "b", "c"].map((id) => engine.submit({ sessionId, message: id, devices: [phone(id)] })));
    expect((await engine.directory.list(sessionId)).map(({ id }) => id)).toEqual(["a", "b", "c"]);
  });

  it("whose token does not open are left out with a log line that does not hold it", async () => {
    const { engine, backend, logger } = await harness({ model: silentModel() });
    const { sessionId } = await engine.createSession({ devices: [phone("good")] });
    const stored = await backend.devices(sessionId);
    const broken = { sessionId, id: "broken", sealedPushToken: stored[0]?.sealedPushToken ?? "" };
    await backend.commit([{ kind: "devices.replace", sessionId, devices: [...stored, broken] }]);
    expect((await engine.directory.list(sessionId)).map(({ id }) => id)).toEqual(["good"]);
    expect(logger.lines).toMatchObject([{ level: "warn", fields: { device: "broken" } }]);
    expect(JSON.stringify(logger.lines)).not.toContain("token-good");
  });
});

describe("a session", () => {
  it("keeps the app's context, merged key by key", async () => {
    const { engine } = await harness({ model: silentModel() });
    const { sessionId } = await engine.createSession({ context: { tier: "gold", language: "en" } });
    await engine.submit({ sessionId, message: "x", context: { language: "de" } });
    await engine.submit({ sessionId, message: "y" });
    expect((await engine.session(sessionId))?.context).toEqual({ tier: "gold", language: "de" });
  });

  it("ends after its runs: tokens are gone, the history stays, streams are told", async () => {
    const { engine, backend } = await harness({ model: silentModel() });
    await engine.start();
    const { sessionId, runId } = await engine.submit({ message: "1", devices: [phone("a")] });
    const waiting = await engine.submit({ sessionId, message: "2" });
    const seen: (StoredEvent | TransientEvent)[] = [];
    backend.subscribe(sessionId, {
      onEvents: (events) => void seen.push(...events),
      onTransient: (event) => void seen.push(event),
    });
    await engine.endSession(sessionId);

    expect((await engine.run(runId))?.status).toBe("cancelled");
    expect((await engine.run(waiting.runId))?.status).toBe("cancelled");
    expect(seen.map(({ type }) => type)).toEqual(["run.finished", "run.finished", "stream_end"]);
    expect(await engine.directory.list(sessionId)).toEqual([]);
    expect(await engine.history(sessionId)).toMatchObject([{ role: "user", content: "1" }]);
    expect((await refusal(engine.submit({ sessionId, message: "3" }))).code).toBe("session_ended");
    await engine.endSession(sessionId);
    expect(await engine.sessions({ limit: 10 })).toMatchObject([{ session: { id: sessionId }, state: "ended" }]);
  });

  it("ends by itself once it was idle for the time to live, at the start and every hour", async () => {
    const clock = createFakeClock();
    const day = 24 * 3_600_000;
    const backend = await memoryBackend(clock);
    const first = await harness({ model: scripted(says("a"), says("b")), clock, backend });
    const { sessionId: early } = await first.engine.createSession({ devices: [phone("a")] });
    await clock.advance(6 * day);
    const { sessionId: late } = await first.engine.createSession({ devices: [phone("b")] });
    await clock.advance(1.5 * day);

    await first.engine.start();
    expect((await first.engine.session(early))?.endedAt).toBe(clock.nowMs());
    expect(await first.engine.directory.list(early)).toEqual([]);
    await converse(first.engine, "still here", late);
    await clock.advance(6.9 * day);
    expect((await first.engine.session(late))?.endedAt).toBeUndefined();
    await clock.advance(0.2 * day);
    expect((await first.engine.session(late))?.endedAt).toBeDefined();
    await first.engine.stop({ graceMs: 0 });
    expect(clock.pendingTimers).toBe(0);
  });
});
