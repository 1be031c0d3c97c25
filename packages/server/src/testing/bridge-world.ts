/** A conversation whose client executes tools, as that client meets it over HTTP. For tests. */
import type { Model, ModelRequest } from "@leafmesh/core";
import type { Clock } from "@leafmesh/protocol";
import type { FakeClock } from "@leafmesh/testkit";
import type { BackendUnderTest } from "@leafmesh/testkit/suites";
import { afterEach } from "vitest";
import { asks, says, strictly } from "../test-runs.ts";
import { startTestServer, type TestServer, type TestServerOptions } from "../test-server.ts";
import { openSessionStream, type SessionStream, type StreamFrame } from "./session-stream.ts";

export const SEND_SMS = {
  tool_id: "device_send_sms",
  description: "Send an SMS to a phone number.",
  parameters: {
    type: "object",
    properties: { to: { type: "string" }, body: { type: "string" } },
    required: ["to", "body"],
  },
};

export const SMS_ARGUMENTS = { to: "+15550001234", body: "Running late, be there soon." };

/** Calls the tool once for every message, then repeats what it read. */
export const callsOnce: Model["answer"] = async ({ messages, tools }) => {
  const last = messages.at(-1);
  const results = messages.filter((message) => message.role === "tool");
  if (last?.role === "user" && typeof last.content === "string" && tools.length > 0) {
    return asks([SEND_SMS.tool_id, SMS_ARGUMENTS, `call_${results.length}`]);
  }
  return says(results.at(-1)?.content ?? "no tools");
};

const ENDED = ["succeeded", "failed", "cancelled", "timed_out"];
const LOOK_EVERY_MS = 3;

export interface WaitingCall {
  readonly stream: SessionStream;
  readonly runId: string;
  readonly frame: StreamFrame;
  readonly callId: string;
  readonly token: string;
  /** A body that resolves the call. */
  readonly ok: { readonly call_token: string; readonly status: "ok"; readonly result: unknown };
}

type QueryAnswer = { status: number; body: { run_id: string; error: { code: string; message: string } } };

export interface BridgeWorld {
  readonly server: TestServer;
  readonly sessionId: string;
  /** What the model was asked, in order. */
  readonly requests: readonly ModelRequest[];
  /** Any route, with the world's key. */
  call: TestServer["call"];
  stream(headers?: Record<string, string>, query?: string): Promise<SessionStream>;
  query(more?: object): Promise<QueryAnswer>;
  post(callId: string, json: unknown, session?: string): ReturnType<TestServer["call"]>;
  /** A client that is attached, and a call that waits for it. */
  withCall(more?: object): Promise<WaitingCall>;
  /** The run's reply, or its status, once it has ended. */
  reply(runId: string): Promise<string>;
  /** Another conversation of the same mesh. */
  another(): Promise<BridgeWorld>;
  close(): Promise<void>;
}

export interface BridgeWorldOptions extends TestServerOptions {
  /** Sent with every request. */
  readonly key?: string;
  /** A conversation that exists already; a new one unless given. */
  readonly sessionId?: string;
}

/** Starts worlds, and closes them after each test. */
export function bridgeWorlds(open?: (clock?: Clock) => Promise<BackendUnderTest>) {
  const closing: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });

  const store = async (clock?: Clock): Promise<BackendUnderTest | undefined> => {
    const opened = await open?.(clock);
    if (opened) closing.push(() => opened.dispose());
    return opened;
  };
  const start = async (options: BridgeWorldOptions = {}): Promise<BridgeWorld> => {
    const backend = options.backend ?? (await store(options.clock))?.backend;
    const world = await startWorld({ ...options, ...(backend ? { backend } : {}) });
    closing.push(() => world.close());
    return world;
  };
  return { start, store };
}

async function startWorld({ key, ...options }: BridgeWorldOptions): Promise<BridgeWorld> {
  const { answer = callsOnce } = options;
  const requests: ModelRequest[] = [];
  const server = await startTestServer({
    ...options,
    limits: { runTimeoutMs: 3_600_000, maxStreams: 100, maxConcurrentRuns: 64, ...options.limits },
    ...(key === undefined ? {} : { apiKeys: [key, ...(options.apiKeys ?? [])] }),
    answer: strictly(requests, answer),
  });
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closed ??= passing(options.clock, server.close());
    return closed;
  };
  return conversation({ server, requests, key, close }, options.sessionId);
}

interface Place extends Pick<BridgeWorld, "server" | "requests" | "close"> {
  readonly key: string | undefined;
}

async function conversation(place: Place, existing?: string): Promise<BridgeWorld> {
  const { server, requests, key } = place;
  const streams: SessionStream[] = [];
  const auth: Record<string, string> = key === undefined ? {} : { "x-api-key": key };
  const call: TestServer["call"] = (method, path, more = {}) =>
    server.call(method, path, { ...more, headers: { ...auth, ...more.headers } });
  const created = existing ? undefined : await call("POST", "/api/sessions", { json: {} });
  const sessionId: string = existing ?? created?.body.session_id;
  const path = `/api/sessions/${sessionId}`;

  const world: BridgeWorld = {
    server,
    sessionId,
    requests,
    call,
    async stream(headers = {}, query = "") {
      const stream = await openSessionStream(`${server.url}${path}/stream${query}`, { ...auth, ...headers });
      streams.push(stream);
      return stream;
    },
    query: (more = {}) =>
      call("POST", `${path}/query`, {
        json: { query: "Text mom that I will be late.", context: { device_tools: [SEND_SMS] }, ...more },
      }),
    post: (callId, json, session = sessionId) =>
      call("POST", `/api/sessions/${session}/device_tools/${callId}/result`, { json }),
    async withCall(more) {
      const stream = await world.stream({}, `?after=${await server.backend.lastEventSeq(sessionId)}`);
      const { body } = await world.query(more);
      const frame = await stream.next("device_tool_call");
      const { call_id: callId, call_token: token } = frame.payload as { call_id: string; call_token: string };
      const ok = { call_token: token, status: "ok", result: { delivered: true } } as const;
      return { stream, runId: body.run_id, frame, callId, token, ok };
    },
    async reply(runId) {
      for (;;) {
        const { body } = await call("GET", `/api/runs/${runId}`);
        if (ENDED.includes(body.status)) return body.reply ?? body.status;
        await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
      }
    },
    another: () => conversation(place),
    close() {
      for (const stream of streams) stream.close();
      return place.close();
    },
  };
  return world;
}

/** Real time for each second of a test's clock: a store elsewhere must not be overtaken by all deadlines at once. */
const PACE_MS = 10;

/** What `work` comes to, when it waits for time: it gets that from a clock that a test moves, a second at a time. */
export async function passing<Value>(clock: Clock | undefined, work: Promise<Value>): Promise<Value> {
  if (!clock || !("advance" in clock)) return work;
  let isOver = false;
  const over = (): void => {
    isOver = true;
  };
  work.then(over, over);
  while (!isOver) {
    await (clock as FakeClock).advance(1_000);
    await new Promise((resolve) => setTimeout(resolve, PACE_MS));
  }
  return work;
}
