import type { Model } from "@leafmesh/core";
import { afterEach, describe, expect, it } from "vitest";
import { startTestServer, type TestServer, type TestServerOptions } from "./test-server.ts";
import { openSessionStream, type SessionStream } from "./testing/session-stream.ts";

const SEND_SMS = {
  tool_id: "device_send_sms",
  description: "Send an SMS to a phone number.",
  parameters: {
    type: "object",
    properties: { to: { type: "string" }, body: { type: "string" } },
    required: ["to", "body"],
  },
};
const JPEG = Buffer.from([0xff, 0xd8, 0xff, 0xe0, ...Buffer.from("MARKED-IMAGE-BYTES")]).toString("base64");

/** Calls the tool once for every message, then repeats what it read. */
const callsOnce: Model["answer"] = async ({ messages, tools }) => {
  const last = messages.at(-1);
  const results = messages.filter((message) => message.role === "tool");
  if (last?.role === "user" && typeof last.content === "string" && tools.length > 0) {
    const toolCall = { id: `call_${results.length}`, name: "device_send_sms", arguments: '{"to":"+1","body":"hi"}' };
    return { content: null, toolCalls: [toolCall], finishReason: "tool_calls" };
  }
  return { content: results.at(-1)?.content ?? "no tools", toolCalls: [], finishReason: "stop" };
};

const servers: TestServer[] = [];
const streams: SessionStream[] = [];
afterEach(async () => {
  for (const stream of streams.splice(0)) stream.close();
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

interface World {
  readonly server: TestServer;
  readonly sessionId: string;
  stream(headers?: Record<string, string>, query?: string): Promise<SessionStream>;
  query(more?: object): Promise<{ status: number; body: { run_id: string; error: { code: string; message: string } } }>;
  post(callId: string, json: unknown, session?: string): ReturnType<TestServer["call"]>;
  /** The run's reply once it has ended. */
  reply(runId: string): Promise<string>;
}

async function start(options: TestServerOptions = {}, key?: string): Promise<World> {
  const server = await startTestServer({ answer: callsOnce, limits: { maxStreams: 20 }, ...options });
  servers.push(server);
  const auth: Record<string, string> = key === undefined ? {} : { "x-api-key": key };
  const created = await server.call("POST", "/api/sessions", { json: {}, headers: auth });
  const sessionId: string = created.body.session_id;
  return {
    server,
    sessionId,
    async stream(headers = {}, query = "") {
      const stream = await openSessionStream(`${server.url}/api/sessions/${sessionId}/stream${query}`, {
        ...auth,
        ...headers,
      });
      streams.push(stream);
      return stream;
    },
    query: (more = {}) =>
      server.call("POST", `/api/sessions/${sessionId}/query`, {
        json: { query: "Text mom.", context: { device_tools: [SEND_SMS] }, ...more },
        headers: auth,
      }),
    post: (callId, json, session = sessionId) =>
      server.call("POST", `/api/sessions/${session}/device_tools/${callId}/result`, { json, headers: auth }),
    async reply(runId) {
      for (;;) {
        const { body } = await server.call("GET", `/api/runs/${runId}`, { headers: auth });
        if (["succeeded", "failed", "cancelled", "timed_out"].includes(body.status)) return body.reply ?? body.status;
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    },
  };
}

/** A client attached, and a call that waits for it. */
async function withCall(world: World) {
  const stream = await world.stream({}, `?after=${await world.server.backend.lastEventSeq(world.sessionId)}`);
  const { body } = await world.query();
  const frame = await stream.next("device_tool_call");
  const { call_id: callId, call_token: token } = frame.payload as { call_id: string; call_token: string };
  return {
    stream,
    runId: body.run_id,
    frame,
    callId,
    ok: { call_token: token, status: "ok", result: { delivered: true } },
  };
}

describe("the flow", () => {
  it("declare, call, deliver, execute, result, resolve", async () => {
    const world = await start();
    const { runId, frame, callId, ok } = await withCall(world);
    expect(Object.keys(frame.payload)).toEqual(["call_id", "call_token", "tool_id", "args", "expires_at"]);
    expect(frame.payload).toMatchObject({ tool_id: "device_send_sms", args: { to: "+1", body: "hi" } });
    expect(Number(frame.payload.expires_at) * 1000 - Date.now()).toBeGreaterThan(25_000);
    const { status, body } = await world.post(callId, ok);
    expect([status, body]).toEqual([200, { resolved: true }]);
    expect(await world.reply(runId)).toBe('{"status":"ok","result":{"delivered":true}}');
  });

  it("tools declared when the session was created persist with it", async () => {
    const world = await start();
    const created = await world.server.call("POST", "/api/sessions", {
      json: { context: { device_tools: [SEND_SMS] } },
    });
    const stream = await openSessionStream(`${world.server.url}/api/sessions/${created.body.session_id}/stream`, {});
    streams.push(stream);
    await world.server.call("POST", `/api/sessions/${created.body.session_id}/query`, { json: { query: "go" } });
    expect((await stream.next("device_tool_call")).payload.tool_id).toBe("device_send_sms");
  });

  it("without a stream the call fails immediately with device_unavailable and no event is appended", async () => {
    const world = await start();
    const { body } = await world.query();
    expect(await world.reply(body.run_id)).toMatch(/^device_unavailable: /);
    const replayed = await world.stream();
    await replayed.next("session_state");
    expect(replayed.frames.map((frame) => frame.type)).not.toContain("device_tool_call");
  });

  it("a stream that says device_control makes plain viewers not count", async () => {
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

describe("a declaration", () => {
  const wrong: readonly [string, unknown, RegExp][] = [
    ["without the prefix", [{ ...SEND_SMS, tool_id: "send_sms" }], /context\.device_tools\.0\.tool_id/],
    ["with a trailing newline", [{ ...SEND_SMS, tool_id: "device_a\n" }], /context\.device_tools\.0\.tool_id/],
    ["with a fourth key", [{ ...SEND_SMS, strict: true }], /context\.device_tools\.0\.strict: unknown field/],
    ["with a duplicate", [SEND_SMS, SEND_SMS], /duplicate/],
    ["with parameters of another type", [{ ...SEND_SMS, parameters: { type: "array" } }], /parameters\.type/],
    ["that is no array", { device_send_sms: SEND_SMS }, /must be an array/],
    ["of the mesh's own tool", [{ ...SEND_SMS, tool_id: "device_action" }], /a tool of the mesh itself/],
  ];

  it.each(wrong)("%s is rejected with 400 before anything persists", async (_, device_tools, message) => {
    const world = await start();
    const { status, body } = await world.query({ context: { device_tools } });
    expect([status, body.error.code]).toEqual([400, "invalid_device_tools"]);
    expect(body.error.message).toMatch(message);
    expect(await world.server.backend.runs({ sessionId: world.sessionId })).toEqual([]);
    expect((await world.server.backend.session(world.sessionId))?.context).toEqual({});
    expect((await world.server.backend.events(world.sessionId)).map(({ type }) => type)).toEqual(["session.created"]);
    const next = await world.query({ context: {} });
    expect(await world.reply(next.body.run_id)).toBe("no tools");
  });

  it("that is wrong is stored by POST /api/sessions and dropped with a warning later", async () => {
    const world = await start();
    const created = await world.server.call("POST", "/api/sessions", { json: { context: { device_tools: "no" } } });
    expect(created.status).toBe(201);
    const path = `/api/sessions/${created.body.session_id}`;
    const { body } = await world.server.call("POST", `${path}/query`, { json: { query: "go" } });
    expect(await world.reply(body.run_id)).toBe("no tools");
    expect(await world.server.backend.events(created.body.session_id, { types: ["warning"] })).toHaveLength(1);
  });
});

describe("the result route answers", () => {
  it.each([
    ["status missing", { call_token: "T" }],
    ["another status", { call_token: "T", status: "fine" }],
    ["token missing", { status: "ok" }],
    ["error not an object", { call_token: "T", status: "error", error: "x" }],
    ["error with both fields blank", { call_token: "T", status: "error", error: { code: "", message: " " } }],
    ["an image that is none", { call_token: "T", status: "ok", result: { image_base64: "!!" } }],
  ])("400 for a malformed body (%s), and the call stays open", async (_, json) => {
    const world = await start();
    const { callId, ok } = await withCall(world);
    const withToken = "call_token" in json ? { ...json, call_token: ok.call_token } : json;
    const { status, body } = await world.post(callId, withToken);
    expect([status, body]).toEqual([
      400,
      { message: expect.any(String), error: { code: "invalid_result", message: body.message } },
    ]);
    expect((await world.post(callId, ok)).status).toBe(200);
  });

  it("400 for a body that is not JSON or too deep, whatever the call", async () => {
    const world = await start();
    const path = `/api/sessions/${world.sessionId}/device_tools/unknown/result`;
    expect((await world.server.call("POST", path, { raw: "not json" })).status).toBe(400);
    expect((await world.server.call("POST", path, { raw: "[".repeat(200_000) })).status).toBe(400);
    expect((await world.server.call("POST", path, { raw: "" })).status).toBe(400);
  });

  it("403 when the token does not match, and the call stays open", async () => {
    const world = await start();
    const { callId, ok } = await withCall(world);
    const { status, body } = await world.post(callId, { ...ok, call_token: "wrong" });
    expect([status, body.error.code, typeof body.message]).toEqual([403, "wrong_call_token", "string"]);
    expect((await world.post(callId, ok)).status).toBe(200);
  });

  it("403 and not 409 for a wrong token on an answered call", async () => {
    const world = await start();
    const { callId, ok } = await withCall(world);
    await world.post(callId, ok);
    expect((await world.post(callId, { ...ok, call_token: "wrong" })).status).toBe(403);
  });

  it("404 for a call that does not exist, or belongs to another session", async () => {
    const world = await start();
    const { callId, ok } = await withCall(world);
    expect((await world.post("call_unknown", ok)).body.error.code).toBe("no_such_call");
    const other = await world.server.call("POST", "/api/sessions", { json: {} });
    expect((await world.post(callId, ok, other.body.session_id)).status).toBe(404);
    expect((await world.post(callId, ok)).status).toBe(200);
  });

  it("409 for every later result, and says whether it is the same", async () => {
    const world = await start();
    const { callId, ok, runId } = await withCall(world);
    expect((await world.post(callId, ok)).status).toBe(200);
    const same = await world.post(callId, ok);
    expect([same.status, same.body.same, same.body.error.code]).toEqual([409, true, "already_resolved"]);
    const different = await world.post(callId, { ...ok, result: { delivered: false } });
    expect([different.status, different.body.same]).toEqual([409, false]);
    expect(await world.reply(runId)).toContain('"delivered":true');
    expect((await world.post(callId, ok)).status).toBe(409);
  });

  it("410 once the session has ended, before it looks at the body", async () => {
    const world = await start();
    const { callId } = await withCall(world);
    await world.server.call("DELETE", `/api/sessions/${world.sessionId}`);
    const { status, body } = await world.post(callId, { nonsense: true });
    expect([status, body.error.code, body.retryable]).toEqual([410, "session_terminated", false]);
  });

  it("401 without a key, and 404 for another key's session", async () => {
    const world = await start({ apiKeys: ["mine", "other"] }, "mine");
    const { callId, ok } = await withCall(world);
    const path = `/api/sessions/${world.sessionId}/device_tools/${callId}/result`;
    expect((await world.server.call("POST", path, { json: ok })).status).toBe(401);
    const other = await world.server.call("POST", path, { json: ok, headers: { "x-api-key": "other" } });
    expect([other.status, other.body.error.code]).toEqual([404, "no_such_session"]);
    expect((await world.post(callId, ok)).status).toBe(200);
    expect(await world.server.backend.call(callId)).toMatchObject({ answeredBy: "owner-of-mine" });
  });

  it("413 for a body over 8 MiB", async () => {
    const world = await start();
    const path = `/api/sessions/${world.sessionId}/device_tools/x/result`;
    expect((await world.server.call("POST", path, { raw: "x".repeat(8 * 1024 * 1024 + 1) })).status).toBe(413);
  });

  it("4. two viewers that post at once: one 200, one 409", async () => {
    const world = await start();
    for (let round = 0; round < 10; round++) {
      const { callId, ok, stream, runId } = await withCall(world);
      const posts = await Promise.all(["a", "b"].map((by) => world.post(callId, { ...ok, result: { by } })));
      expect(posts.map(({ status }) => status).sort()).toEqual([200, 409]);
      const winner = posts[0]?.status === 200 ? "a" : "b";
      expect(await world.reply(runId)).toBe(JSON.stringify({ status: "ok", result: { by: winner } }));
      stream.close();
    }
  });
});

describe("the token", () => {
  it("11. is on the stream of the owner while the call is open, and in nothing else", async () => {
    const world = await start();
    const { callId, ok, runId } = await withCall(world);
    const again = await world.stream();
    expect((await again.next("device_tool_call")).payload.call_token).toBe(ok.call_token);
    const paths = ["", "/history", "/asks"].map((path) => `/api/sessions/${world.sessionId}${path}`);
    const readAll = async () =>
      JSON.stringify(await Promise.all([...paths, `/api/runs/${runId}`].map((path) => world.server.call("GET", path))));
    expect(await readAll()).not.toContain(ok.call_token);
    await world.post(callId, ok);
    await world.reply(runId);
    expect(await readAll()).not.toContain(ok.call_token);
  });

  it("12. a fresh client that replays from 0 sees no settled call as open", async () => {
    const world = await start();
    const { callId, ok, runId } = await withCall(world);
    await world.post(callId, ok);
    await world.reply(runId);
    const fresh = await world.stream();
    await fresh.next("session_state");
    const seen = fresh.frames.filter((frame) => frame.type.startsWith("device_tool_call"));
    expect(seen.map(({ type, payload }) => [type, payload.call_id, "call_token" in payload])).toEqual([
      ["device_tool_call", callId, false],
      ["device_tool_call.settled", callId, false],
    ]);
  });

  it("keeps the frames in order, with their ids", async () => {
    const world = await start();
    const { stream, callId, ok, runId } = await withCall(world);
    await world.post(callId, ok);
    await world.reply(runId);
    await stream.next("run.finished");
    const ids = stream.frames.flatMap(({ id }) => (id === undefined ? [] : [id]));
    expect(ids).toEqual(ids.map((_, index) => index + (ids[0] ?? 0)));
    expect(ids.length).toBeGreaterThan(8);
  });
});

describe("the list of open calls", () => {
  it("repairs a lost frame: it has the tokens for a client that executes, and only for it", async () => {
    const world = await start({ apiKeys: ["mine", "other"] }, "mine");
    const { callId, ok, frame, runId } = await withCall(world);
    const path = `/api/sessions/${world.sessionId}/device_tools`;
    const list = (headers: Record<string, string>) => world.server.call("GET", path, { headers });
    const executor = await list({ "x-api-key": "mine", "x-mewbo-capabilities": "device_control" });
    expect(executor.body).toEqual({ calls: [frame.payload] });
    const { call_token: _token, ...rest } = frame.payload;
    expect((await list({ "x-api-key": "mine" })).body).toEqual({ calls: [rest] });
    expect((await list({ "x-api-key": "other" })).status).toBe(404);
    await world.post(callId, ok);
    await world.reply(runId);
    expect((await list({ "x-api-key": "mine" })).body).toEqual({ calls: [] });
  });
});

describe("13. an image in a result", () => {
  it("is shown to the model as an image, and its bytes are nowhere in the transcript", async () => {
    const seen: unknown[] = [];
    const world = await start({
      async answer(request, options) {
        seen.push(request.messages.at(-1)?.content);
        return callsOnce(request, options);
      },
    });
    const { callId, ok, runId } = await withCall(world);
    const result = { image_base64: JPEG, image_media_type: "image/jpeg", screen_width: 1440 };
    expect((await world.post(callId, { ...ok, result })).status).toBe(200);
    expect(await world.reply(runId)).toBe('{"status":"ok","result":{"screen_width":1440}}');
    expect(seen.at(-1)).toEqual([
      { type: "text", text: expect.stringContaining("device_send_sms") },
      { type: "image", mediaType: "image/jpeg", base64: JPEG },
    ]);
    const history = await world.server.call("GET", `/api/sessions/${world.sessionId}/history`);
    const events = await world.server.backend.events(world.sessionId);
    const stored = [history.body, events, await world.server.backend.call(callId)];
    expect(JSON.stringify(stored)).not.toContain(JPEG.slice(0, 12));
    const messages = await world.server.backend.messages(world.sessionId);
    const uploads = messages.flatMap(({ message }) => (message.role === "tool" ? (message.uploads ?? []) : []));
    expect(uploads).toHaveLength(1);
    const upload = await world.server.backend.upload(uploads[0] ?? "");
    expect(upload).toMatchObject({ callId, mediaType: "image/jpeg", sessionId: world.sessionId });
    expect(Buffer.from(upload?.sealedContent ?? []).includes("MARKED-IMAGE-BYTES")).toBe(false);
  });

  it("expires with the session", async () => {
    const world = await start();
    const { callId, ok, runId } = await withCall(world);
    await world.post(callId, { ...ok, result: { image_base64: JPEG } });
    await world.reply(runId);
    const messages = await world.server.backend.messages(world.sessionId);
    const uploads = messages.flatMap(({ message }) => (message.role === "tool" ? (message.uploads ?? []) : []));
    await world.server.call("DELETE", `/api/sessions/${world.sessionId}`);
    expect(await world.server.backend.upload(uploads[0] ?? "")).toBeUndefined();
    expect((await world.server.backend.call(callId))?.tokenHash).toBeUndefined();
  });
});
