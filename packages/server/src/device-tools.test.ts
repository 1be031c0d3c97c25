/** What the bridge's routes do beyond its contract, which tests/contracts holds. */
import { describe, expect, it } from "vitest";
import { bridgeWorlds } from "./testing/bridge-world.ts";

const JPEG = Buffer.from([0xff, 0xd8, 0xff, 0xe0, ...Buffer.from("MARKED-IMAGE-BYTES")]).toString("base64");
const { start } = bridgeWorlds();

describe("a result", () => {
  it("of more than 8 MiB is a 413", async () => {
    const world = await start();
    const path = `/api/sessions/${world.sessionId}/device_tools/x/result`;
    expect((await world.call("POST", path, { raw: "x".repeat(8 * 1024 * 1024 + 1) })).status).toBe(413);
  });

  it("with what is no image is a 400, and the call stays open", async () => {
    const world = await start();
    const { callId, ok } = await world.withCall();
    expect((await world.post(callId, { ...ok, result: { image_base64: "!!" } })).status).toBe(400);
    expect((await world.post(callId, ok)).status).toBe(200);
  });

  it("is kept with the name of the key that brought it", async () => {
    const world = await start({ key: "mine" });
    const { callId, ok } = await world.withCall();
    await world.post(callId, ok);
    expect(await world.server.backend.call(callId)).toMatchObject({ answeredBy: "owner-of-mine" });
  });
});

describe("a stream that says device_control", () => {
  it("makes plain viewers not count, and its call waits out the grace", async () => {
    const world = await start();
    const executor = await world.stream({ "x-mewbo-capabilities": "screen_share, Device_Control" });
    const viewer = await world.stream();
    const { body } = await world.query();
    const frame = await executor.next("device_tool_call");
    await viewer.next("device_tool_call");
    executor.close();
    await expect.poll(async () => (await world.server.backend.presence(world.sessionId)).executors).toBe(0);
    const presence = await world.server.backend.presence(world.sessionId);
    expect(presence).toMatchObject({ streams: 1, executors: 0, executorDeclared: true });
    const answer = { call_token: frame.payload.call_token, status: "ok" };
    expect((await world.post(String(frame.payload.call_id), answer)).status).toBe(200);
    expect(await world.reply(body.run_id)).toContain('"ok"');
  });
});

describe("the stream of a session", () => {
  it("keeps the frames in order, with their ids", async () => {
    const world = await start();
    const { stream, callId, ok, runId } = await world.withCall();
    await world.post(callId, ok);
    await world.reply(runId);
    await stream.next("run.finished");
    const ids = stream.frames.flatMap(({ id }) => (id === undefined ? [] : [id]));
    expect(ids).toEqual(ids.map((_, index) => index + (ids[0] ?? 0)));
    expect(ids.length).toBeGreaterThan(8);
  });

  it("has a warning where a stored declaration is dropped", async () => {
    const world = await start();
    const created = await world.call("POST", "/api/sessions", { json: { context: { device_tools: "no" } } });
    const { body } = await world.call("POST", `/api/sessions/${created.body.session_id}/query`, {
      json: { query: "go" },
    });
    expect(await world.reply(body.run_id)).toBe("no tools");
    const warnings = await world.server.backend.events(created.body.session_id, { types: ["warning"] });
    expect(warnings).toMatchObject([{ payload: { code: "device_tools_dropped" } }]);
  });
});

describe("the list of open calls", () => {
  it("repairs a lost frame: it has the tokens for a client that executes, and only for it", async () => {
    const world = await start({ key: "mine", apiKeys: ["other"] });
    const { callId, ok, frame, runId } = await world.withCall();
    const path = `/api/sessions/${world.sessionId}/device_tools`;
    const executor = await world.call("GET", path, { headers: { "x-mewbo-capabilities": "device_control" } });
    expect(executor.body).toEqual({ calls: [frame.payload] });
    const { call_token: _token, ...rest } = frame.payload;
    expect((await world.call("GET", path)).body).toEqual({ calls: [rest] });
    expect((await world.call("GET", path, { headers: { "x-api-key": "other" } })).status).toBe(404);
    await world.post(callId, ok);
    await world.reply(runId);
    expect((await world.call("GET", path)).body).toEqual({ calls: [] });
  });
});

describe("an image in a result", () => {
  it("is sealed in the upload store, and expires with the session", async () => {
    const world = await start();
    const { callId, ok, runId } = await world.withCall();
    await world.post(callId, { ...ok, result: { image_base64: JPEG } });
    await world.reply(runId);
    const { backend } = world.server;
    const messages = await backend.messages(world.sessionId);
    const uploads = messages.flatMap(({ message }) => (message.role === "tool" ? (message.uploads ?? []) : []));
    expect(uploads).toHaveLength(1);
    const upload = await backend.upload(uploads[0] ?? "");
    expect(upload).toMatchObject({ callId, mediaType: "image/jpeg", sessionId: world.sessionId });
    expect(Buffer.from(upload?.sealedContent ?? []).includes("MARKED-IMAGE-BYTES")).toBe(false);
    await world.call("DELETE", `/api/sessions/${world.sessionId}`);
    expect(await backend.upload(uploads[0] ?? "")).toBeUndefined();
    expect((await backend.call(callId))?.tokenHash).toBeUndefined();
  });
});
