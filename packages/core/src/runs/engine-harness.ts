/** For the tests of the engine: a mesh, a model that follows a function, tools that count, and strict checkers. */

import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type LogFields, type Logger, randomId } from "@leafmesh/protocol";
import { createFakeClock, type FakeClock } from "@leafmesh/testkit";
import { createPendingCalls, type PendingCalls } from "../calls/index.ts";
import type { Agent, Limits, Mesh } from "../config/mesh.ts";
import {
  type ChatMessage,
  type Model,
  type ModelAnswer,
  ModelError,
  type ModelRequest,
  type ModelToolCall,
} from "../models/contract.ts";
import { createSealer, SECRET_KEY_BYTES } from "../security/sealer.ts";
import type { Backend, MessageRecord } from "../storage/contract.ts";
import { createEmbeddedBackend } from "../storage/embedded/index.ts";
import { createRunQueue } from "../storage/embedded/run-queue.ts";
import type { Tool, ToolProvider, ToolResult, ToolScope } from "../tools/contract.ts";
import { createEngine, type Engine, type EngineDependencies } from "./engine.ts";

export function testAgent(changes: Partial<Agent> = {}): Agent {
  return {
    name: "helper",
    type: "llm",
    endpoint: "main",
    model: "test-model",
    prompt: "Help.",
    toolChoice: "auto",
    maxToolCallsPerMessage: 20,
    toolCallTimeoutMs: 30_000,
    allowParallelToolCalls: true,
    historyLimit: 20,
    ...changes,
  };
}

export function testMesh(agents: readonly Agent[] = [testAgent()], limits: Partial<Limits> = {}): Mesh {
  return {
    name: "test",
    version: "1",
    logLevel: "info",
    folder: "/",
    digest: "0",
    models: new Map(),
    connections: new Map(),
    agents: new Map(agents.map((agent) => [agent.name, agent])),
    entryPoints: agents.map((agent) => ({ name: `to_${agent.name}`, target: agent.name })),
    limits: {
      runTimeoutMs: 3_600_000,
      maxOpenAsksPerSession: 8,
      maxAsksPerRun: 8,
      maxSessionsPerKey: 100,
      maxStreams: 100,
      maxConcurrentRuns: 8,
      maxQueuedRunsPerSession: 4,
      toolResultMaxChars: 2_000,
      ...limits,
    },
    server: { host: "127.0.0.1", port: 0, apiKeys: [], corsOrigins: [] },
    storage: { url: ":memory:", kind: "sqlite", durable: false, sessionTtlMs: 7 * 24 * 3_600_000 },
  };
}

// ── Models ──────────────────────────────────────────────────────────────────────────────────────────────────────

export function says(content: string, more: Partial<ModelAnswer> = {}): ModelAnswer {
  return { content, toolCalls: [], finishReason: "stop", ...more };
}

export function call(name: string, args: unknown = {}, id = `call_${name}`): ModelToolCall {
  return { id, name, arguments: typeof args === "string" ? args : JSON.stringify(args) };
}

export function calls(...toolCalls: ModelToolCall[]): ModelAnswer {
  return { content: null, toolCalls, finishReason: "tool_calls" };
}

type Respond = (
  request: ModelRequest,
  options: { readonly number: number; readonly signal: AbortSignal; onText(text: string): void },
) => ModelAnswer | Promise<ModelAnswer>;

/** Answers by a function, keeps every request, and refuses one whose history is open, as providers do. */
export class FunctionModel implements Model {
  readonly requests: ModelRequest[] = [];
  closed = false;
  readonly #respond: Respond;

  constructor(respond: Respond) {
    this.#respond = respond;
  }

  async answer(request: ModelRequest, options: { signal: AbortSignal; onText?: (text: string) => void }) {
    checkRequest(request.messages);
    this.requests.push(request);
    const onText = options.onText ?? (() => {});
    return this.#respond(request, { number: this.requests.length, signal: options.signal, onText });
  }

  async close(): Promise<void> {
    this.closed = true;
  }
}

/** One answer after the other; a further call fails. */
export function scripted(...answers: (ModelAnswer | ModelError)[]): FunctionModel {
  return new FunctionModel((_request, { number }) => {
    const answer = answers[number - 1];
    if (!answer) throw new ModelError("unscripted", `no answer for call ${number}`);
    if (answer instanceof ModelError) throw answer;
    return answer;
  });
}

/** Never answers, and heeds its signal. */
export const silentModel = (): FunctionModel =>
  new FunctionModel(
    (_request, { signal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener("abort", () => reject(new ModelError("aborted", "aborted")), { once: true });
      }),
  );

// ── Tools ───────────────────────────────────────────────────────────────────────────────────────────────────────

export function tool(
  name: string,
  execute: (scope: ToolScope) => ToolResult | Promise<ToolResult>,
  more: Partial<Tool> = {},
): Tool {
  return {
    definition: { name, description: name, parameters: { type: "object" } },
    ownDeadline: false,
    execute: async (scope) => execute(scope),
    ...more,
  };
}

export function done(content: string, more: Partial<ToolResult> = {}): ToolResult {
  return { success: true, content, ...more };
}

export function provide(...tools: Tool[]): ToolProvider {
  return { toolsFor: async () => tools };
}

/** What a call was asked to do, told apart whatever ids the model gave. */
export function callName({ invocation }: ToolScope): string {
  return `${invocation.runId}:${invocation.turn}:${invocation.position}`;
}

/**
 * A tool with records, as `device_action` has them: stores, says that it may have left, acts, settles. `acts` counts
 * what really happened outside.
 */
export function recordingTool(
  name: string,
  pending: () => PendingCalls,
  acts: Map<string, number>,
  clock: FakeClock,
): Tool {
  const result = (outcome: "done" | "failed" | "unreachable") => ({ outcome, success: outcome === "done" }) as const;
  const toResult = (callId: string, stored: unknown): ToolResult => ({
    success: (stored as { success: boolean }).success,
    content: JSON.stringify(stored),
    callId,
  });
  return tool(
    name,
    async (scope) => {
      const { providerCallId, arguments: given, sessionId, runId, agent, turn, position } = scope.invocation;
      const id = randomId("ask");
      const opened = await pending().open({
        id,
        sessionId,
        runId,
        agent,
        turn,
        position,
        providerCallId,
        tool: name,
        arguments: given,
        expiresAt: clock.nowMs() + 60_000,
      });
      if (opened.status !== "moved") return { success: false, content: "gone" };
      const offered = await pending().advance(opened.call, { state: "offered", reached: "maybe" });
      if (offered.status !== "moved") return { success: false, content: "gone" };
      acts.set(callName(scope), (acts.get(callName(scope)) ?? 0) + 1);
      await pending().settle(offered.call, { state: "answered", reached: "yes", result: result("done") });
      return toResult(id, result("done"));
    },
    {
      ownDeadline: true,
      async recover(record) {
        const lost = result(record.reached === "no" ? "unreachable" : "failed");
        const state = record.reached === "no" ? "undeliverable" : "lost";
        const moved = await pending().settle(record, { state, reached: record.reached, result: lost });
        return toResult(record.id, moved.status === "settled" ? moved.call.result : lost);
      },
    },
  );
}

// ── Engine ──────────────────────────────────────────────────────────────────────────────────────────────────────

export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly fields: LogFields | undefined;
}

export function recordingLogger(): Logger & { readonly lines: LogLine[] } {
  const lines: LogLine[] = [];
  const log = (level: string) => (message: string, fields?: LogFields) => void lines.push({ level, message, fields });
  return { lines, debug: log("debug"), info: log("info"), warn: log("warn"), error: log("error") };
}

export interface Harness {
  readonly engine: Engine;
  readonly backend: Backend;
  readonly clock: FakeClock;
  readonly logger: ReturnType<typeof recordingLogger>;
  readonly pending: PendingCalls;
}

export interface HarnessOptions {
  readonly model: Model;
  readonly tools?: readonly Tool[] | undefined;
  readonly mesh?: Mesh | undefined;
  readonly clock?: FakeClock | undefined;
  readonly backend?: Backend | undefined;
  readonly more?: Partial<EngineDependencies> | undefined;
}

export async function memoryBackend(clock: FakeClock): Promise<Backend> {
  return openBackend(":memory:", clock);
}

async function openBackend(path: string, clock: FakeClock): Promise<Backend> {
  const backend = createEmbeddedBackend({ path, durable: false, clock, logger: recordingLogger() });
  await backend.migrate();
  return backend;
}

/** A store in a file, which outlives the processes that a test plays. */
export interface Disk extends AsyncDisposable {
  /** Opens the file, closing what had it open before. */
  open(): Promise<Backend>;
}

export async function createDisk(clock: FakeClock): Promise<Disk> {
  const folder = await mkdtemp(join(tmpdir(), "leafmesh-engine-"));
  let opened: Backend | undefined;
  return {
    async open() {
      await opened?.close();
      opened = await openBackend(join(folder, "mesh.db"), clock);
      return opened;
    },
    async [Symbol.asyncDispose]() {
      await opened?.close();
      await rm(folder, { recursive: true });
    },
  };
}

/** An engine that is not started yet, on a store of its own unless one is given. */
export async function harness(options: HarnessOptions): Promise<Harness> {
  const clock = options.clock ?? createFakeClock();
  const backend = options.backend ?? (await memoryBackend(clock));
  const logger = recordingLogger();
  const { model } = options;
  const engine = createEngine({
    mesh: options.mesh ?? testMesh(),
    backend,
    models: () => ({ model: async () => model, close: () => model.close() }),
    toolProviders: [provide(...(options.tools ?? []))],
    sealer: createSealer(randomBytes(SECRET_KEY_BYTES)),
    uploads: { open: async () => undefined },
    clock,
    newId: randomId,
    random: () => 0,
    logger,
    ...options.more,
  });
  return { engine, backend, clock, logger, pending: createPendingCalls({ backend, clock, newId: randomId }) };
}

/** Submits a message and waits for its run's end. */
export async function converse(engine: Engine, message: string, sessionId?: string) {
  const submitted = await engine.submit({ message, sessionId });
  return { ...submitted, run: await engine.waitForRun(submitted.runId, AbortSignal.timeout(10_000)) };
}

/** Lets time pass in steps of half a second until `promise` has settled. */
export async function passTime<Value>(clock: FakeClock, promise: Promise<Value>): Promise<Value> {
  let settled = false;
  const settle = (): void => {
    settled = true;
  };
  promise.then(settle, settle);
  for (let step = 0; !settled; step++) {
    if (step > 2_000) throw new Error("it does not settle, however much time passes");
    await clock.advance(500);
  }
  return promise;
}

/** A run's whole life on one disk, through as many processes as it takes. */
export interface Death {
  /** The process dies at this commit, from 1; of a later process the count starts again. */
  readonly atCommit: number;
  /** Whether that commit is on the disk: either way nobody learns what became of it. */
  readonly stored: boolean;
}

/**
 * The store as a process sees it that dies at a commit: from then on nothing that it asks of the store comes back. Has a
 * queue of its own, which is gone with the process.
 */
export function mortalBackend(
  backend: Backend,
  death: Death,
): { readonly backend: Backend; readonly died: Promise<void> } {
  const died = Promise.withResolvers<void>();
  let commits = 0;
  let dead = false;
  const forever = new Promise<never>(() => {});
  const alive = <Value>(read: () => Promise<Value>): Promise<Value> => (dead ? forever : read());
  return {
    died: died.promise,
    backend: {
      ...backend,
      queue: createRunQueue(recordingLogger()),
      async commit(writes) {
        if (dead) return forever;
        if (++commits < death.atCommit) return backend.commit(writes);
        dead = true;
        if (death.stored) await backend.commit(writes);
        died.resolve();
        return forever;
      },
      session: (id) => alive(() => backend.session(id)),
      devices: (id) => alive(() => backend.devices(id)),
      messages: (id, query) => alive(() => backend.messages(id, query)),
      run: (id) => alive(() => backend.run(id)),
      runs: (query) => alive(() => backend.runs(query)),
      wait: (id) => alive(() => backend.wait(id)),
      call: (id) => alive(() => backend.call(id)),
      calls: (query) => alive(() => backend.calls(query)),
    },
  };
}

// ── Checkers ────────────────────────────────────────────────────────────────────────────────────────────────────

/** What a provider would refuse, and what the engine promises beyond that. Throws with the place. */
export function checkRequest(messages: readonly ChatMessage[]): void {
  const fail = (index: number, why: string): never => {
    throw new Error(`message ${index}: ${why}\n${JSON.stringify(messages, undefined, 1)}`);
  };
  if (messages[0]?.role !== "system") fail(0, "is not the system prompt");
  if (messages[1]?.role !== "user") fail(1, "is not the user's");
  let open: string[] = [];
  for (const [index, message] of messages.entries()) {
    if (message.role === "tool") {
      if (open.shift() !== message.toolCallId) fail(index, "is not the next result");
      continue;
    }
    if (open.length > 0) fail(index, `comes before the results of ${open.join()}`);
    if (message.role === "system" && index > 0) fail(index, "is a second system message");
    if (message.role === "assistant") {
      open = message.toolCalls?.map(({ id }) => id) ?? [];
      if (new Set(open).size < open.length || open.includes("")) fail(index, "has calls that cannot be told apart");
      if (!message.content && open.length === 0) fail(index, "says nothing");
    }
  }
  if (open.length > 0) fail(messages.length, `lacks the results of ${open.join()}`);
  if (messages.at(-1)?.role === "assistant") fail(messages.length - 1, "leaves nothing to answer");
}

/** The stored history of a session whose runs have all ended. */
export function checkHistory(records: readonly MessageRecord[]): void {
  const fail = (index: number, why: string): never => {
    throw new Error(`entry ${index}: ${why}\n${JSON.stringify(records, undefined, 1)}`);
  };
  const seenRuns = new Set<string>();
  let open: string[] = [];
  let before: MessageRecord | undefined;
  for (const [index, record] of records.entries()) {
    const { message, runId, turn } = record;
    if (record.position !== index + 1) fail(index, "is not at its position");
    if (runId !== before?.runId) {
      if (open.length > 0) fail(index, "comes from another run before all results are in");
      if (seenRuns.has(runId)) fail(index, "comes from a run that was over");
      if (message.role !== "user" || turn !== 0) fail(index, "is not the message that a run begins with");
      seenRuns.add(runId);
    } else if (message.role === "user") fail(index, "is a second message of the user in one run");
    if (message.role === "tool") {
      if (open.shift() !== message.toolCallId) fail(index, "is not the next result");
      if (turn !== before?.turn) fail(index, "is of another turn than its call");
    } else if (message.role === "assistant") {
      if (open.length > 0) fail(index, "comes before all results are in");
      if (turn !== (before?.turn ?? 0) + 1) fail(index, "is not of the next turn");
      open = message.toolCalls?.map(({ id }) => id) ?? [];
    }
    before = record;
  }
  if (open.length > 0) fail(records.length, `lacks the results of ${open.join()}`);
}
