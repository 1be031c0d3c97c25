/** The calls, against the real server's description of itself, and what each failure looks like. */
import { createFakeClock } from "@leafmesh/testkit";
import { describe, expect, it } from "vitest";
import { createHastyClock } from "../testing/hasty-clock.ts";
import { type Client, type ClientOptions, createClient } from "./client.ts";

interface Sent {
  readonly method: string;
  readonly path: string;
  readonly headers: Headers;
  readonly body: unknown;
}

/** A client whose requests are answered by `answer`. */
function clientWith(
  answer: (sent: Sent, tries: number) => Response | Promise<Response>,
  more: Partial<ClientOptions> = {},
) {
  const sent: Sent[] = [];
  const fetch: typeof globalThis.fetch = async (input, init) => {
    const url = new URL(String(input));
    const request = {
      method: init?.method ?? "GET",
      path: url.pathname + url.search,
      headers: new Headers(init?.headers),
      body: typeof init?.body === "string" ? JSON.parse(init.body) : init?.body,
    };
    sent.push(request);
    return answer(request, sent.length);
  };
  const client = createClient({
    url: "http://mesh/",
    fetch,
    clock: createHastyClock(20_000),
    random: () => 0,
    ...more,
  });
  return { client, sent };
}

const refuse = (status: number, body: unknown, headers: Record<string, string> = {}) =>
  Response.json(body, { status, headers });
const entryPoints = { mesh: "m", entry_points: [{ name: "chat", target: "helper" }] };
const accepted = { run_id: "run_1", session_id: "s", status: "queued" };

describe("a request", () => {
  it("carries the key in its header and nowhere else, and the key cannot be printed", async () => {
    const { client, sent } = clientWith(() => Response.json(entryPoints), { apiKey: "key-1" });
    expect(await client.entryPoints()).toEqual(entryPoints);
    expect(sent[0]?.headers.get("x-api-key")).toBe("key-1");
    expect(sent[0]?.path).toBe("/api/mesh/entry_points");
    expect(JSON.stringify(client)).not.toContain("key-1");
  });

  it("puts ids into its path as they are meant", async () => {
    const { client, sent } = clientWith(() => new Response(null, { status: 204 }));
    await client.session("../tools?x=1").end();
    expect(sent[0]?.path).toBe("/api/sessions/..%2Ftools%3Fx%3D1");
  });

  it.each(["mesh", "ftp://mesh", ""])("to %j is refused before anything is sent", (url) => {
    expect(() => createClient({ url })).toThrow(/^url: /);
  });
});

describe("a refusal", () => {
  it.each([
    ["wrapped", { error: { code: "too_many_devices", message: "17", details: [1] } }, [1]],
    ["flat", { code: "too_many_devices", message: "17", details: { a: 1 } }, { a: 1 }],
    ["of the bridge", { message: "17", error: { code: "too_many_devices", message: "17" }, same: false }, undefined],
  ])("is an error with its code: %s", async (_shape, body, details) => {
    const { client } = clientWith(() => refuse(400, body));
    await expect(client.request({ message: "m" })).rejects.toMatchObject({
      name: "LeafMeshError",
      status: 400,
      code: "too_many_devices",
      message: "17",
      details,
      body,
    });
  });

  it("with a reason instead of a message is read all the same", async () => {
    const { client } = clientWith(() =>
      refuse(410, { error: { code: "session_terminated", reason: "session_ended" } }),
    );
    await expect(client.request({ message: "m" })).rejects.toMatchObject({
      code: "session_terminated",
      message: "session_ended",
    });
  });

  it.each([
    ["no JSON", () => new Response("<h1>Bad gateway</h1>", { status: 404 })],
    ["nothing", () => new Response(null, { status: 404 })],
    ["another JSON", () => refuse(404, ["?"])],
  ])("by something that is no mesh (%s) has its status", async (_what, answer) => {
    const { client } = clientWith(answer);
    await expect(client.entryPoints()).rejects.toMatchObject({ status: 404, code: "http_404" });
  });

  it.each([
    ["seconds", "7", 7_000],
    ["a date", new Date(1_800_000_009_000).toUTCString(), 9_000],
    ["nonsense", "soon", undefined],
  ])("says when to come back, in %s", async (_form, value, retryAfterMs) => {
    const clock = createFakeClock(1_800_000_000_000);
    const { client } = clientWith(() => refuse(429, {}, { "retry-after": value }), { clock });
    await expect(client.request({ message: "m" })).rejects.toMatchObject({ status: 429, retryAfterMs });
  });
});

describe("an answer", () => {
  it.each([
    ["no JSON", "<html>"],
    ["JSON of another kind", '{"hello":1}'],
  ])("that is %s is an error that asks about the address", async (_what, text) => {
    const { client } = clientWith(() => new Response(text));
    await expect(client.entryPoints()).rejects.toMatchObject({ code: "bad_answer", message: /address of a mesh\?$/ });
  });

  it("that does not come in time is given up", async () => {
    const clock = createFakeClock();
    const hang = (_input: unknown, init?: RequestInit) =>
      new Promise<Response>((_resolve, reject) =>
        init?.signal?.addEventListener("abort", () => reject(init.signal?.reason)),
      );
    const client = createClient({ url: "http://mesh", fetch: hang, clock });
    const failed = client.sessions.create({}, { timeoutMs: 5_000 }).catch((error: unknown) => error);
    await clock.advance(5_000);
    expect(await failed).toMatchObject({
      status: 0,
      code: "timeout",
      message: "http://mesh did not answer within 5 s.",
    });
    expect(clock.pendingTimers).toBe(0);
  });

  it("that is not wanted any more rejects with the signal's reason", async () => {
    const { client } = clientWith((_sent) => new Promise(() => {}));
    const stop = new AbortController();
    const hang = createClient({
      url: "http://mesh",
      fetch: (_input, init) =>
        new Promise((_resolve, reject) => init?.signal?.addEventListener("abort", () => reject(init.signal?.reason))),
    });
    const failed = hang.entryPoints({ signal: stop.signal }).catch((error: unknown) => error);
    stop.abort(new Error("enough"));
    expect(await failed).toMatchObject({ message: "enough" });
    expect(client.url).toBe("http://mesh");
  });
});

describe("what is tried again", () => {
  const failing = (times: number, body: unknown) =>
    clientWith((_sent, tries) => {
      if (tries > times) return Response.json(body);
      if (tries % 2 === 1) throw new TypeError("fetch failed");
      return refuse(503, {});
    });
  const safe: readonly [string, unknown, (client: Client) => Promise<unknown>][] = [
    ["reading", entryPoints, (client) => client.entryPoints()],
    [
      "submitting a run, by its key",
      accepted,
      (client) => client.runs.submit({ agent_slug: "a", input: { message: "m" } }),
    ],
    ["replaying a run, by its key", accepted, (client) => client.run("r").replay()],
    [
      "resuming with the same results",
      accepted,
      (client) => client.run("r").resume([{ tool_call_id: "a", content: "x" }]),
    ],
    [
      "a decision that names its call",
      accepted,
      (client) => client.run("r").decide({ decision: "approve", tool_call_id: "a" }),
    ],
    ["cancelling a run", accepted, (client) => client.run("r").cancel()],
    ["ending a conversation", {}, (client) => client.session("s").end()],
  ];

  it.each(safe)("%s", async (_what, body, call) => {
    const { client, sent } = failing(3, body);
    await call(client);
    expect(sent).toHaveLength(4);
    expect(new Set(sent.map((each) => JSON.stringify(each.body))).size).toBe(1);
    expect(new Set(sent.map(({ headers }) => headers.get("idempotency-key"))).size).toBe(1);
  });

  it("ends after four tries", async () => {
    const { client, sent } = failing(9, entryPoints);
    await expect(client.entryPoints()).rejects.toMatchObject({ status: 503 });
    expect(sent).toHaveLength(4);
  });

  it("is nothing that could happen twice", async () => {
    const { client, sent } = clientWith(() => {
      throw new TypeError("fetch failed");
    });
    const calls = [
      client.request({ message: "m" }),
      client.sessions.create(),
      client.session("s").query({ query: "q" }),
      client.session("s").answerDeviceTool("c", { call_token: "t", status: "ok", result: 1 }),
      client.run("r").decide({ decision: "approve" }),
      client.asks.cancel("a"),
    ];
    const ends = await Promise.allSettled(calls);
    expect(ends.map((end) => end.status === "rejected" && end.reason.code)).toEqual(calls.map(() => "unreachable"));
    expect(sent).toHaveLength(calls.length);
  });

  it("is no refusal", async () => {
    const { client, sent } = clientWith(() => refuse(404, {}));
    await expect(client.asks.get("a")).rejects.toMatchObject({ status: 404 });
    expect(sent).toHaveLength(1);
  });
});

describe("a streamed message", () => {
  const frame = (seq: number | undefined, type: string, payload: object) =>
    `${seq === undefined ? "" : `id: ${seq}\n`}data: ${JSON.stringify({ type, payload, ts: 1 })}\n\n`;
  const run = { run_id: "run_1", agent: "helper" };
  const stream = (text: string, headers: Record<string, string> = {}) =>
    new Response(text, { headers: { "content-type": "text/event-stream", ...headers } });
  const finished = frame(9, "run.finished", { run_id: "run_1", status: "succeeded", reply: "r" });

  const read = async (client: Client) => {
    const events = client.stream({ message: "m" });
    const seen: unknown[] = [];
    for await (const event of events) seen.push(event.seq ?? event.type);
    return { seen, sessionId: events.sessionId, runId: events.runId };
  };

  it("is sent once and read on from the conversation when its connection is lost", async () => {
    const { client, sent } = clientWith(({ method, headers }) => {
      if (method === "POST") {
        const head = { "x-leafmesh-session-id": "s/1", "x-leafmesh-run-id": "run_1" };
        return stream(
          frame(7, "run.queued", run) + frame(undefined, "model.delta", { run_id: "run_1", text: "t" }),
          head,
        );
      }
      expect(headers.get("last-event-id")).toBe("7");
      return stream(frame(8, "run.started", run) + finished);
    });
    expect(await read(client)).toEqual({ seen: [7, "model.delta", 8, 9], sessionId: "s/1", runId: "run_1" });
    expect(sent.map(({ method, path }) => `${method} ${path}`)).toEqual([
      "POST /api/mesh/request",
      "GET /api/sessions/s%2F1/stream",
    ]);
    expect(sent[0]?.body).toEqual({ message: "m", stream: true });
  });

  it("that is lost before its first event begins with its own message, not with older ones", async () => {
    const { client } = clientWith(({ method }) =>
      method === "POST"
        ? stream("", { "x-leafmesh-session-id": "s", "x-leafmesh-run-id": "run_1" })
        : stream(
            frame(1, "message.received", { run_id: "run_0", content: "old" }) +
              frame(2, "message.received", { run_id: "run_1", content: "m" }) +
              finished,
          ),
    );
    expect((await read(client)).seen).toEqual([2, 9]);
  });

  it("finds its conversation where headers cannot be read", async () => {
    const reply = { session_id: "s", run_id: "run_1", status: "running", agent: "helper" };
    const { client, sent } = clientWith(({ method, path }) => {
      if (method === "POST") return stream(frame(7, "run.queued", run));
      return path.startsWith("/api/runs/") ? Response.json(reply) : stream(frame(8, "run.started", run) + finished);
    });
    expect((await read(client)).seen).toEqual([7, 8, 9]);
    expect(sent.map(({ path }) => path).slice(1)).toEqual(["/api/runs/run_1", "/api/sessions/s/stream"]);
  });

  it("is what a request waits on, so that a lost connection does not lose the reply", async () => {
    const reply = { session_id: "s", run_id: "run_1", status: "succeeded", agent: "helper", reply: "r" };
    const { client, sent } = clientWith(({ method, path }) => {
      if (method === "POST") return stream(frame(8, "run.queued", run), { "x-leafmesh-session-id": "s" });
      return path.startsWith("/api/runs/") ? Response.json(reply) : stream(finished);
    });
    expect(await client.session("s").ask({ query: "q", context: { a: 1 } })).toEqual(reply);
    expect(sent.map(({ method, path }) => `${method} ${path}`)).toEqual([
      "POST /api/mesh/request",
      "GET /api/sessions/s/stream",
      "GET /api/runs/run_1",
    ]);
    expect(sent[0]?.body).toEqual({ message: "q", context: { a: 1 }, session_id: "s", stream: true });
  });

  it("whose run takes too long is given up", async () => {
    const clock = createFakeClock();
    const silent = (signal: AbortSignal | null | undefined) =>
      new ReadableStream({
        start: (controller) => signal?.addEventListener("abort", () => controller.error(signal.reason)),
      });
    const client = createClient({
      url: "http://mesh",
      clock,
      fetch: async (_input, init) =>
        new Response(silent(init?.signal), { headers: { "content-type": "text/event-stream" } }),
    });
    const failed = client.request({ message: "m" }, { timeoutMs: 5_000 }).catch((error: unknown) => error);
    await clock.advance(5_000);
    expect(await failed).toMatchObject({ code: "timeout", message: "The run did not end within 5 s." });
  });

  it("whose sending fails is not sent again", async () => {
    const { client, sent } = clientWith(() => {
      throw new TypeError("fetch failed");
    });
    await expect(read(client)).rejects.toMatchObject({ code: "unreachable" });
    expect(sent).toHaveLength(1);
  });
});
