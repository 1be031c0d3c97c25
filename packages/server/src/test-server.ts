/** A whole mesh behind a real socket, with a model that the test writes. For tests of this package only. */
import {
  type Agent,
  type Backend,
  createEngine,
  type DeclaredTool,
  getAsk,
  listAsks,
  type Mesh,
  type Model,
  type Tool,
} from "@leafmesh/core";
import { createSealer } from "@leafmesh/core/security";
import { createEmbeddedBackend } from "@leafmesh/core/storage/embedded";
import { createUploads } from "@leafmesh/core/uploads";
import { type Clock, type Logger, randomId, Secret, silentLogger, systemClock } from "@leafmesh/protocol";
import { createApi } from "./app.ts";
import type { AskControl, RoomCallbackControl } from "./dependencies.ts";
import { type Listening, listen } from "./listen.ts";

/** What a test leaves open is not worth waiting for. */
const CLOSING_GRACE_MS = 50;

const agent: Agent = {
  name: "helper",
  type: "llm",
  endpoint: "test",
  model: "any",
  prompt: "Help.",
  toolChoice: "auto",
  maxToolCallsPerMessage: 5,
  toolCallTimeoutMs: 30_000,
  allowParallelToolCalls: true,
  historyLimit: 20,
};

function testMesh({ server, limits, agents = {}, declaredTools = [] }: TestServerOptions): Mesh {
  return {
    name: "test",
    version: "1.0.0",
    logLevel: "info",
    folder: "/nowhere",
    digest: "0",
    models: new Map(),
    connections: new Map(),
    agents: new Map([
      [agent.name, { ...agent, ...agents.helper }],
      ...Object.entries(agents).flatMap(([name, more]) =>
        name === agent.name ? [] : [[name, { ...agent, ...more, name }] as const],
      ),
    ]),
    tools: new Map(declaredTools.map((tool) => [tool.name, tool])),
    entryPoints: [
      { name: "chat", target: agent.name },
      { name: "second", target: agent.name },
    ],
    limits: {
      runTimeoutMs: 60_000,
      maxOpenAsksPerSession: 16,
      maxAsksPerRun: 32,
      maxSessionsPerKey: 100,
      maxStreams: 3,
      maxConcurrentRuns: 8,
      maxQueuedRunsPerSession: 2,
      toolResultMaxChars: 10_000,
      ...limits,
    },
    server: { host: "127.0.0.1", port: 0, apiKeys: [], corsOrigins: [], ...server },
    storage: { url: ":memory:", kind: "sqlite", durable: false, sessionTtlMs: 60_000 },
  };
}

export interface TestServer {
  readonly url: string;
  readonly port: number;
  readonly backend: Backend;
  readonly uploads: ReturnType<typeof createUploads>;
  readonly routes: ReturnType<typeof createApi>["routes"];
  /** Ask ids that somebody asked to cancel. */
  readonly cancelled: string[];
  ready: boolean;
  // biome-ignore lint/suspicious/noExplicitAny: answers of every shape are looked into
  call(method: string, path: string, options?: CallOptions): Promise<{ status: number; headers: Headers; body: any }>;
  close(): Promise<void>;
}

export interface CallOptions {
  readonly json?: unknown;
  readonly raw?: string | Uint8Array;
  readonly headers?: Record<string, string>;
}

export interface TestServerOptions {
  readonly answer?: Model["answer"];
  readonly tools?: readonly Tool[];
  readonly apiKeys?: readonly string[];
  readonly server?: Partial<Mesh["server"]>;
  readonly limits?: Partial<Mesh["limits"]>;
  /** Changes of the agent `helper`, and agents beside it. */
  readonly agents?: Readonly<Record<string, Partial<Agent>>>;
  /** Tools of the file. */
  readonly declaredTools?: readonly DeclaredTool[];
  readonly clock?: Clock;
  /** Migrated; a store of its own in memory unless given. Closed with the server. */
  readonly backend?: Backend;
  readonly logger?: Logger;
  readonly roomCallbacks?: RoomCallbackControl;
}

async function memoryBackend(clock: Clock): Promise<Backend> {
  const backend = createEmbeddedBackend({ path: ":memory:", durable: false, clock, logger: silentLogger });
  await backend.migrate();
  return backend;
}

/** The model repeats what it was told, unless `answer` says otherwise. */
export async function startTestServer(options: TestServerOptions = {}): Promise<TestServer> {
  const apiKeys = (options.apiKeys ?? []).map((key) => ({ name: `owner-of-${key}`, key: new Secret(key) }));
  const mesh = testMesh({ ...options, server: { ...options.server, apiKeys } });
  const { clock = systemClock, logger = silentLogger } = options;
  const backend = options.backend ?? (await memoryBackend(clock));
  const sealer = createSealer(new Uint8Array(32));
  const uploads = createUploads({ backend, sealer, clock, maxBytes: 64 * 1024 });
  const model: Model = {
    answer:
      options.answer ??
      (async ({ messages }, { onText }) => {
        const said = messages.at(-1)?.content;
        const content = `You said: ${typeof said === "string" ? said : "something"}`;
        onText?.(content);
        return { content, toolCalls: [], finishReason: "stop" };
      }),
    close: async () => {},
  };
  const engine = createEngine({
    mesh,
    backend,
    models: () => ({ model: async () => model, close: async () => {} }),
    toolProviders: [{ toolsFor: async () => options.tools ?? [] }],
    sealer,
    uploads,
    clock,
    newId: randomId,
    random: Math.random,
    logger,
  });
  await engine.start();

  const cancelled: string[] = [];
  const asks: AskControl = {
    list: (query) => listAsks(backend, query),
    get: (askId) => getAsk(backend, askId),
    cancel: async (askId) => {
      cancelled.push(askId);
      return "cancelled";
    },
  };
  const state = { ready: true };
  const api = createApi({
    mesh: () => mesh,
    engine,
    backend,
    asks,
    uploads,
    links: { look: async () => ({ state: "unknown" }), open: async () => ({ state: "unknown" }) },
    roomCallbacks: options.roomCallbacks ?? { answer: () => undefined },
    joinPageScript: async () => "export {};",
    meshKeys: [{ kid: "k", kty: "OKP", crv: "Ed25519", x: "x" }],
    clock,
    logger,
    version: "0.0.0-test",
    isReady: () => state.ready,
  });
  const listening: Listening = await listen(api, {
    host: "127.0.0.1",
    port: 0,
    hasKeys: apiKeys.length > 0,
    services: [],
    logger,
  });

  return {
    url: listening.url,
    port: listening.port,
    backend,
    uploads,
    routes: api.routes,
    cancelled,
    get ready() {
      return state.ready;
    },
    set ready(value) {
      state.ready = value;
    },
    async call(method, path, { json, raw, headers } = {}) {
      const body = json === undefined ? raw : JSON.stringify(json);
      const response = await fetch(listening.url + path, {
        method,
        headers: { ...(json === undefined ? {} : { "content-type": "application/json" }), ...headers },
        ...(body === undefined ? {} : { body: body as string }),
      });
      const text = await response.text();
      const isJson = response.headers.get("content-type")?.includes("json");
      return { status: response.status, headers: response.headers, body: isJson && text ? JSON.parse(text) : text };
    },
    async close() {
      await engine.stop({ graceMs: CLOSING_GRACE_MS });
      await listening.close(CLOSING_GRACE_MS);
      await backend.close();
    },
  };
}
