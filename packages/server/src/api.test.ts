import { createConnection } from "node:net";
import type { Model } from "@leafmesh/core";
import { aCall, aRun, aWait } from "@leafmesh/testkit/suites";
import { afterEach, describe, expect, it } from "vitest";
import { startTestServer, type TestServer, type TestServerOptions } from "./test-server.ts";

const open: TestServer[] = [];

async function start(options?: TestServerOptions): Promise<TestServer> {
  const server = await startTestServer(options);
  open.push(server);
  return server;
}

afterEach(async () => {
  await Promise.all(open.splice(0).map((server) => server.close()));
});

const device = { id: "phone-7", push_token: "MARKED-TOKEN" };

describe("POST /api/mesh/request", () => {
  it("answers with the agent's reply and where to go on", async () => {
    const server = await start();
    const { status, body } = await server.call("POST", "/api/mesh/request", { json: { message: "hello" } });
    expect(status).toBe(200);
    expect(body).toEqual({
      session_id: expect.stringMatching(/^ses/),
      run_id: expect.stringMatching(/^run/),
      status: "succeeded",
      agent: "helper",
      reply: "You said: hello",
    });
    const again = await server.call("POST", "/api/mesh/request", {
      json: { message: "more", session_id: body.session_id },
    });
    expect(again.body.session_id).toBe(body.session_id);
    const history = await server.call("GET", `/api/sessions/${body.session_id}/history`);
    expect(
      history.body.messages.map(({ role, content }: { role: string; content: string }) => [role, content]),
    ).toEqual([
      ["user", "hello"],
      ["assistant", "You said: hello"],
      ["user", "more"],
      ["assistant", "You said: more"],
    ]);
  });

  it("streams events that end with run.finished", async () => {
    const server = await start();
    const { status, headers, body } = await server.call("POST", "/api/mesh/request", {
      json: { message: "hello", stream: true },
    });
    expect(status).toBe(200);
    expect(headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    const frames = framesIn(body);
    expect(frames.map(({ data }) => data.type)).toEqual([
      "session.created",
      "message.received",
      "run.queued",
      "run.started",
      "model.delta",
      "model.answered",
      "run.finished",
    ]);
    expect(frames.filter(({ id }) => id !== undefined).map(({ id }) => id)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(headers.get("x-leafmesh-session-id")).toMatch(/^ses/);
  });

  it("streams only the new run of a conversation that goes on", async () => {
    const server = await start();
    const first = await server.call("POST", "/api/mesh/request", { json: { message: "one" } });
    const second = await server.call("POST", "/api/mesh/request", {
      json: { message: "two", stream: true, session_id: first.body.session_id },
    });
    const said = framesIn(second.body).find(({ data }) => data.type === "message.received");
    expect(said?.data.payload.content).toBe("two");
    expect(framesIn(second.body).filter(({ data }) => data.type === "run.finished")).toHaveLength(1);
  });

  it("keeps a push token out of everything that it answers", async () => {
    const server = await start();
    const { body } = await server.call("POST", "/api/mesh/request", { json: { message: "hi", device } });
    const paths = ["", "/history", "/asks"].map((path) => `/api/sessions/${body.session_id}${path}`);
    const answers = await Promise.all(paths.map(async (path) => JSON.stringify((await server.call("GET", path)).body)));
    expect(answers.join()).toContain("phone-7");
    expect(answers.join()).not.toContain("MARKED");
  });
});

describe("requests that are wrong", () => {
  const cases: readonly [string, unknown, string, RegExp][] = [
    ["no message", {}, "invalid_request", /^message: /],
    ["an unknown field", { message: "x", role: "system" }, "invalid_request", /^role: unknown field/],
    [
      "an unknown field of a device",
      { message: "x", device: { ...device, approval: "silent" } },
      "invalid_request",
      /^device\.approval: unknown field/,
    ],
    [
      "a bad device id",
      { message: "x", device: { ...device, id: "a b" } },
      "invalid_request",
      /^device\.id: must be 1 to 128/,
    ],
    ["device and devices", { message: "x", device, devices: [device] }, "invalid_request", /not both/],
    ["a device twice", { message: "x", devices: [device, device] }, "duplicate_device", /phone-7/],
    ["an unknown entry point", { message: "x", entry_point: "nope" }, "no_such_entry_point", /chat/],
  ];

  it.each(cases)("%s is a 400 that names the place", async (_, json, code, message) => {
    const server = await start();
    const { status, body } = await server.call("POST", "/api/mesh/request", { json });
    expect([status, body.error.code]).toEqual([400, code]);
    expect(body.error.message).toMatch(message);
    expect(JSON.stringify(body)).not.toContain("MARKED");
    expect((await server.call("GET", "/api/sessions")).body.sessions).toEqual([]);
  });

  it("refuses the 17th device of a conversation and stores nothing of the request", async () => {
    const server = await start();
    const many = Array.from({ length: 16 }, (_, index) => ({ id: `d${index}`, push_token: "t" }));
    const first = await server.call("POST", "/api/mesh/request", { json: { message: "x", devices: many } });
    const { status, body } = await server.call("POST", "/api/mesh/request", {
      json: { message: "y", session_id: first.body.session_id, device: { id: "d16", push_token: "t" } },
    });
    expect([status, body.error.code]).toEqual([400, "too_many_devices"]);
    const history = await server.call("GET", `/api/sessions/${first.body.session_id}/history`);
    expect(history.body.messages).toHaveLength(2);
  });

  it.each([
    ["not JSON", '{"message": "MARKED"', { "content-type": "application/json" }, 400, "invalid_json"],
    [
      "another type",
      "message=x",
      { "content-type": "application/x-www-form-urlencoded" },
      415,
      "unsupported_media_type",
    ],
    ["plain text", '{"message":"x"}', { "content-type": "text/plain" }, 415, "unsupported_media_type"],
    [
      "too large",
      JSON.stringify({ message: "x".repeat(1024 * 1024) }),
      { "content-type": "application/json" },
      413,
      "too_large",
    ],
    [
      "too deep",
      `{"message":"x","context":{"a":${"[".repeat(5000)}${"]".repeat(5000)}}}`,
      { "content-type": "application/json" },
      400,
      "invalid_json",
    ],
  ] as const)("%s is refused", async (_, raw, headers, status, code) => {
    const server = await start();
    const answer = await server.call("POST", "/api/mesh/request", { raw, headers });
    expect([answer.status, answer.body.error?.code]).toEqual([status, code]);
    expect(JSON.stringify(answer.body)).not.toContain("MARKED");
  });

  it("does not let a body reach a prototype", async () => {
    const server = await start();
    const raw =
      '{"message":"x","context":{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}}';
    await server.call("POST", "/api/mesh/request", { raw, headers: { "content-type": "application/json" } });
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });

  it("stops reading a body that is chunked and too large", async () => {
    const server = await start();
    const answer = await new Promise<string>((resolve, reject) => {
      const socket = createConnection(server.port, "127.0.0.1");
      let text = "";
      socket.on("data", (chunk) => {
        text += chunk.toString();
        if (text.includes("\r\n\r\n")) resolve(text);
      });
      socket.on("error", reject);
      socket.write(
        "POST /api/mesh/request HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
      );
      const piece = "x".repeat(64 * 1024);
      for (let sent = 0; sent < 20; sent++) socket.write(`${piece.length.toString(16)}\r\n${piece}\r\n`);
    });
    expect(answer).toMatch(/^HTTP\/1\.1 413 /);
  });
});

describe("sessions", () => {
  it("lives from creation to its end", async () => {
    const server = await start();
    const created = await server.call("POST", "/api/sessions", {
      json: { devices: [{ ...device, name: "Ann's phone" }] },
    });
    expect(created.status).toBe(201);
    const path = `/api/sessions/${created.body.session_id}`;
    expect((await server.call("GET", path)).body).toMatchObject({
      state: "idle",
      entry_point: "chat",
      devices: [{ id: "phone-7", name: "Ann's phone" }],
    });
    const queried = await server.call("POST", `${path}/query`, { json: { query: "hello", wait: true } });
    expect(queried.body).toMatchObject({ status: "succeeded", reply: "You said: hello" });
    expect((await server.call("DELETE", path)).status).toBe(204);
    expect((await server.call("DELETE", path)).status).toBe(204);
    expect((await server.call("GET", path)).body).toMatchObject({ state: "ended", devices: [] });
    const late = await server.call("POST", `${path}/query`, { json: { query: "hello" } });
    expect([late.status, late.body.error.code]).toEqual([410, "session_ended"]);
  });

  it("takes query and its alias message, and not both", async () => {
    const server = await start();
    const { body } = await server.call("POST", "/api/sessions", { json: {} });
    const query = (json: unknown) => server.call("POST", `/api/sessions/${body.session_id}/query`, { json });
    expect(await query({ query: "a" })).toMatchObject({
      status: 202,
      body: { session_id: body.session_id, status: "queued" },
    });
    expect((await query({ message: "b" })).status).toBe(202);
    expect((await query({ query: "a", message: "b" })).status).toBe(400);
    expect((await query({})).status).toBe(400);
  });

  it("bounds the runs that wait, and says when to come back", async () => {
    const held = Promise.withResolvers<void>();
    const answer: Model["answer"] = async () => {
      await held.promise;
      return { content: "late", toolCalls: [], finishReason: "stop" };
    };
    const server = await start({ answer });
    const { body } = await server.call("POST", "/api/sessions", { json: {} });
    const statuses: number[] = [];
    for (let count = 0; count < 6; count++) {
      statuses.push(
        (await server.call("POST", `/api/sessions/${body.session_id}/query`, { json: { query: "x" } })).status,
      );
    }
    expect(statuses).toContain(429);
    const refused = await server.call("POST", `/api/sessions/${body.session_id}/query`, { json: { query: "x" } });
    expect(refused.body.error.code).toBe("too_many_queued_runs");
    expect(refused.headers.get("retry-after")).toBe("5");
    held.resolve();
  });
});

describe("the event stream of a session", () => {
  it("gives the backlog, says where it stands, then goes on live without a gap or a repeat", async () => {
    const server = await start();
    const first = await server.call("POST", "/api/mesh/request", { json: { message: "one" } });
    const stream = await openStream(server, `/api/sessions/${first.body.session_id}/stream`);
    await stream.until((frame) => frame.data.type === "session_state");
    await server.call("POST", `/api/sessions/${first.body.session_id}/query`, { json: { query: "two", wait: true } });
    const idle = await stream.until(
      (frame, seen) =>
        frame.data.type === "session_state" && seen.filter(({ data }) => data.type === "session_state").length === 3,
    );
    expect(idle.data.payload).toMatchObject({ state: "idle" });
    const ids = stream.frames.flatMap(({ id }) => (id === undefined ? [] : [id]));
    expect(ids).toEqual(ids.map((_, index) => index + 1));
    stream.close();
  });

  it("resumes after Last-Event-ID and after `after`, exclusive", async () => {
    const server = await start();
    const { body } = await server.call("POST", "/api/mesh/request", { json: { message: "one" } });
    const path = `/api/sessions/${body.session_id}/stream`;
    for (const [query, headers] of [
      ["?after=3", {}],
      ["", { "last-event-id": "3" }],
      ["?after=1", { "last-event-id": "3" }],
    ] as const) {
      const stream = await openStream(server, path + query, headers);
      await stream.until((frame) => frame.data.type === "session_state");
      expect(stream.frames.map(({ id }) => id).filter(Boolean)).toEqual([4, 5, 6].slice(0, stream.frames.length - 1));
      stream.close();
    }
  });

  it("ends when the session ends", async () => {
    const server = await start();
    const { body } = await server.call("POST", "/api/sessions", { json: {} });
    const path = `/api/sessions/${body.session_id}`;
    const stream = await openStream(server, `${path}/stream`);
    await stream.until((frame) => frame.data.type === "session_state");
    await server.call("DELETE", path);
    await stream.ended;
    expect(stream.frames.at(-1)?.data.type).toBe("stream_end");
    const late = await openStream(server, `${path}/stream`);
    await late.ended;
    expect(late.frames.at(-1)?.data.type).toBe("stream_end");
  });

  it("bounds the streams and gives a place back when one closes", async () => {
    const server = await start();
    const { body } = await server.call("POST", "/api/sessions", { json: {} });
    const path = `/api/sessions/${body.session_id}/stream`;
    const streams = await Promise.all([1, 2, 3].map(() => openStream(server, path)));
    const refused = await server.call("GET", path);
    expect([refused.status, refused.body.error.code]).toEqual([503, "too_many_streams"]);
    expect(refused.headers.get("retry-after")).toBe("5");
    streams[0]?.close();
    await expect
      .poll(
        async () =>
          await openStream(server, path).then(
            (each) => {
              each.close();
              return 200;
            },
            () => 503,
          ),
      )
      .toBe(200);
    for (const stream of streams) stream.close();
  });
});

describe("who may call", () => {
  it("wants a key on every route but the open ones", async () => {
    const server = await start({ apiKeys: ["key-a", "key-b"] });
    for (const route of server.routes) {
      const path = route.path.replace(/\{\w+\}/g, "x");
      const { status, body } = await server.call(route.method, path, route.body ? { json: {} } : {});
      // Behind an open route with a name in it there may be nothing of that name.
      if (route.access === "none") expect([route.path, status]).toEqual([route.path, path === route.path ? 200 : 404]);
      else expect([route.path, status]).toEqual([route.path, 401]);
      if (route.access === "key") expect((body.error ?? body).code).toBe("unauthorized");
    }
  });

  it.each(["", "key", "key-aa", "KEY-A", "x".repeat(5000)])("does not take %j for a key", async (key) => {
    const server = await start({ apiKeys: ["key-a"] });
    expect((await server.call("GET", "/api/sessions", { headers: { "x-api-key": key } })).status).toBe(401);
  });

  it("shows a conversation to the key that opened it alone: the others read 404 on every route", async () => {
    const server = await start({ apiKeys: ["key-a", "key-b"] });
    const mine = { "x-api-key": "key-a" };
    const theirs = { "x-api-key": "key-b" };
    const { body } = await server.call("POST", "/api/mesh/request", { json: { message: "x" }, headers: mine });
    const ids: Record<string, string> = { session_id: body.session_id, run_id: body.run_id, ask_id: "ask_x" };
    for (const route of server.routes.filter(({ path, access }) => access === "key" && path.includes("{"))) {
      const path = route.path.replace(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? "x");
      const json = route.body ? { json: { query: "x" } } : {};
      expect([route.path, (await server.call(route.method, path, { ...json, headers: theirs })).status]).toEqual([
        route.path,
        404,
      ]);
    }
    const stolen = await server.call("POST", "/api/mesh/request", {
      json: { message: "x", session_id: body.session_id },
      headers: theirs,
    });
    expect([stolen.status, stolen.body.error.code]).toEqual([404, "no_such_session"]);
    expect((await server.call("GET", "/api/sessions", { headers: theirs })).body.sessions).toEqual([]);
    expect((await server.call("GET", "/api/sessions", { headers: mine })).body.sessions).toHaveLength(1);
  });

  it("answers a rebound name and a foreign page with 403 when there are no keys", async () => {
    const server = await start();
    expect(await rawStatus(server.port, "evil.example")).toBe(403);
    expect(await rawStatus(server.port, `localhost:${server.port}`)).toBe(200);
    const foreign = await server.call("POST", "/api/mesh/request", {
      json: { message: "x" },
      headers: { origin: "https://evil.example" },
    });
    expect([foreign.status, foreign.body.error.code]).toEqual([403, "forbidden_origin"]);
  });

  it("lets the pages of server.cors_origins call", async () => {
    const server = await start({ server: { corsOrigins: ["https://app.example"] } });
    const headers = { origin: "https://app.example" };
    const preflight = await server.call("OPTIONS", "/api/mesh/request", { headers });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get("access-control-allow-origin")).toBe("https://app.example");
    const answer = await server.call("POST", "/api/mesh/request", { json: { message: "x" }, headers });
    expect(answer.headers.get("access-control-allow-origin")).toBe("https://app.example");
    expect(
      (await server.call("OPTIONS", "/api/mesh/request", { headers: { origin: "https://b.example" } })).status,
    ).toBe(403);
  });
});

describe("uploads", () => {
  const png = Uint8Array.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13]);

  async function offered(server: TestServer): Promise<{ path: string; token: string }> {
    const { body } = await server.call("POST", "/api/sessions", { json: {} });
    const run = aRun("run_1", body.session_id);
    const wait = aWait("wait_1", run, ["ask_1"]);
    await server.backend.commit([
      { kind: "run.create", run },
      { kind: "wait.create", wait },
      { kind: "call.create", call: aCall("ask_1", wait, { state: "offered" }) },
    ]);
    const offer = server.uploads.offer({ callId: "ask_1", sessionId: body.session_id });
    return { path: offer.target.path, token: offer.target.token.reveal() };
  }

  it("takes a file once, with its token", async () => {
    const server = await start();
    const { path, token } = await offered(server);
    const headers = { authorization: `Bearer ${token}`, "content-type": "image/png" };
    expect(await server.call("PUT", `${path}/photo.png`, { raw: png, headers })).toMatchObject({
      status: 201,
      body: { name: "photo.png", size: png.length },
    });
    expect((await server.call("PUT", `${path}/photo.png`, { raw: png, headers })).status).toBe(401);
  });

  it.each([
    ["no token", {}, "photo.png", png, 401],
    ["a wrong token", { authorization: "Bearer wrong" }, "photo.png", png, 401],
    ["another type than the content", { "content-type": "image/jpeg" }, "photo.png", png, 415],
    ["a type that is not taken", { "content-type": "text/html" }, "photo.png", png, 415],
    ["a name that climbs", {}, "..%2Fx", png, 400],
    ["too much", {}, "photo.png", new Uint8Array(64 * 1024 + 1), 413],
  ] as const)("refuses %s", async (title, headers, name, raw, status) => {
    const server = await start();
    const { path, token } = await offered(server);
    const authorization: Record<string, string> = title === "no token" ? {} : { authorization: `Bearer ${token}` };
    const answer = await server.call("PUT", `${path}/${name}`, {
      raw,
      headers: { "content-type": "image/png", ...authorization, ...headers },
    });
    expect(answer.status).toBe(status);
  });
});

describe("operations", () => {
  it("tells alive from ready", async () => {
    const server = await start();
    expect((await server.call("GET", "/readyz")).status).toBe(200);
    server.ready = false;
    expect((await server.call("GET", "/readyz")).status).toBe(503);
    expect((await server.call("GET", "/healthz")).status).toBe(200);
  });

  it("documents every route with the schemas that it parses with", async () => {
    const server = await start({ apiKeys: ["key-a"] });
    const { body } = await server.call("GET", "/openapi.json");
    expect(body.openapi).toBe("3.1.1");
    const documented = Object.entries(body.paths as Record<string, Record<string, unknown>>)
      .flatMap(([path, item]) => Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`))
      .sort();
    expect(documented).toEqual(server.routes.map(({ method, path }) => `${method} ${path}`).sort());
    const request = body.paths["/api/mesh/request"].post;
    expect(request.security).toEqual([{ apiKey: [] }]);
    const schema = request.requestBody.content["application/json"].schema;
    expect(Object.keys(schema.properties)).toEqual([
      "message",
      "entry_point",
      "session_id",
      "device",
      "devices",
      "context",
      "stream",
    ]);
    expect(schema.required).toEqual(["message"]);
    expect(schema.additionalProperties).toBe(false);
  });

  it("names what is not there and what is not allowed", async () => {
    const server = await start();
    expect((await server.call("GET", "/nope")).body.error.code).toBe("no_such_route");
    const wrong = await server.call("GET", "/api/mesh/request");
    expect([wrong.status, wrong.body.error.code, wrong.headers.get("allow")]).toEqual([
      405,
      "method_not_allowed",
      "POST",
    ]);
  });

  it("hides what went wrong inside from the caller", async () => {
    const server = await start();
    await server.backend.close();
    const { status, body } = await server.call("POST", "/api/sessions", { json: {} });
    expect(status).toBe(503);
    expect(body.error.code).toBe("storage_unavailable");
    expect((await server.call("GET", "/readyz")).status).toBe(503);
  });
});

interface Frame {
  readonly id: number | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: payloads of every shape are looked into
  readonly data: { type: string; payload: any; ts: number };
}

function framesIn(text: string): Frame[] {
  return text
    .split("\n\n")
    .filter((block) => block.includes("data: "))
    .map((block) => {
      const id = /^id: (\d+)$/m.exec(block)?.[1];
      return { id: id ? Number(id) : undefined, data: JSON.parse(/^data: (.*)$/m.exec(block)?.[1] ?? "{}") };
    });
}

interface OpenedStream {
  readonly frames: Frame[];
  readonly ended: Promise<void>;
  until(matches: (frame: Frame, seen: readonly Frame[]) => boolean): Promise<Frame>;
  close(): void;
}

async function openStream(
  server: TestServer,
  path: string,
  headers: Record<string, string> = {},
): Promise<OpenedStream> {
  const stop = new AbortController();
  const response = await fetch(server.url + path, { headers, signal: stop.signal });
  if (response.status !== 200 || !response.body) throw new Error(`HTTP ${response.status}`);
  const frames: Frame[] = [];
  const checks = new Set<() => void>();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const ended = (async () => {
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += value;
      const complete = text.lastIndexOf("\n\n");
      if (complete < 0) continue;
      for (const frame of framesIn(text.slice(0, complete))) {
        frames.push(frame);
        for (const check of [...checks]) check();
      }
      text = text.slice(complete + 2);
    }
  })().catch(() => {});
  return {
    frames,
    ended,
    until(matches) {
      return new Promise((resolve) => {
        let at = 0;
        const check = (): void => {
          for (; at < frames.length; at++) {
            const frame = frames[at];
            if (frame && matches(frame, frames.slice(0, at + 1))) {
              checks.delete(check);
              resolve(frame);
              return;
            }
          }
        };
        checks.add(check);
        check();
      });
    },
    close: () => stop.abort(),
  };
}

function rawStatus(port: number, host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = createConnection(port, "127.0.0.1");
    socket.on("error", reject);
    socket.once("data", (chunk) => {
      resolve(Number(/^HTTP\/1\.1 (\d+)/.exec(chunk.toString())?.[1]));
      socket.destroy();
    });
    socket.write(`GET /healthz HTTP/1.1\r\nhost: ${host}\r\n\r\n`);
  });
}
