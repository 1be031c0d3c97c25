/** Conversations: opening them, taking messages into them, ending them. */
import { type Clock, MAX_MESSAGE_CHARACTERS, type NewId } from "@leafmesh/protocol";
import { bindDeviceTools, type DeclarationProblem } from "../bridge/declarations.ts";
import { sealCallbackUrl } from "../callbacks/callback-url.ts";
import type { EntryPoint, Mesh } from "../config/mesh.ts";
import { EngineError } from "../runs/engine-error.ts";
import { CommitConflict, commit } from "../runs/run-services.ts";
import { startWrites } from "../runs/run-writes.ts";
import type { Sealer } from "../security/sealer.ts";
import type { Backend, RunOptions, RunRecord, SessionRecord, Write } from "../storage/contract.ts";
import { type DeviceInput, knownDevice, mergeDevices } from "./device-list.ts";
import { KeyedLock } from "./keyed-lock.ts";

export interface CreateSessionRequest {
  /** Default: the mesh's first entry point. */
  readonly entryPoint?: string | undefined;
  /** Name of the API key that asks; only it sees the session. `undefined` on a mesh without keys. */
  readonly owner?: string | undefined;
  /** Merged into the conversation's devices by id; an empty list clears them; `undefined` leaves them. */
  readonly devices?: readonly DeviceInput[] | undefined;
  /**
   * Free data of the app. Merged over the session's, key by key. `device_tools` in it declares tools of the client: it
   * is checked when a message is submitted, and replaces what was declared before as a whole.
   */
  readonly context?: Readonly<Record<string, unknown>> | undefined;
}

export interface SubmitRequest extends CreateSessionRequest {
  /** Continue this conversation; `undefined` opens a new one. */
  readonly sessionId?: string | undefined;
  /** What the user says, at most `MAX_MESSAGE_CHARACTERS`. */
  readonly message: string;
  /** Milliseconds until the run's deadline; at most the mesh's `limits.run_timeout`, which is the default. */
  readonly timeoutMs?: number | undefined;
  /** The agent that works on the message, instead of the entry point's. */
  readonly agent?: string | undefined;
  /** The app's own name for the conversation that is opened. */
  readonly sessionKey?: string | undefined;
  /** Only of runs that are submitted by themselves: these have frames. */
  readonly run?: RunRequest | undefined;
  /** Stored with the run: the same key again is the same request. */
  readonly idempotency?: { readonly key: string; readonly digest: string } | undefined;
}

/** How a run that is submitted by itself is to go. */
export interface RunRequest extends Pick<RunOptions, "clientTools" | "clientToolTimeoutMs" | "replayOf"> {
  /** Gets notices when the run waits, goes on and ends. */
  readonly callbackUrl?: string | undefined;
}

export interface Submitted {
  readonly sessionId: string;
  readonly runId: string;
  /** The agent that works on the message. */
  readonly agent: string;
}

export interface SessionServiceOptions {
  readonly backend: Backend;
  readonly sealer: Sealer;
  readonly clock: Clock;
  readonly newId: NewId;
  /** The mesh in force. */
  mesh(): Mesh;
  /** Whether a conversation's first run, queued now, would begin at once. */
  beginsAtOnce(): boolean;
  /** Takes charge of a run that was just stored. `opensConversation`: it is its session's first. */
  queue(run: RunRecord, more: { readonly opensConversation: boolean }): Promise<void>;
  /** Cancels the session's unfinished runs and resolves when they have ended. */
  cancelRuns(sessionId: string): Promise<void>;
}

/** How long a repeat of a request is recognised. */
export const IDEMPOTENCY_KEY_LIFE_MS = 24 * 60 * 60 * 1000;

/** Several processes may share a store, so what one of them knows of an owner's sessions does not hold for long. */
const MAX_UNCOUNTED = 100;

export class SessionService {
  readonly #options: SessionServiceOptions;
  /** Per session: devices and runs of concurrent requests enter in order of arrival. Per owner: sessions are counted. */
  readonly #locks = new KeyedLock();
  /** By owner; an owner without an entry is counted. */
  readonly #room = new Map<string, number>();

  constructor(options: SessionServiceOptions) {
    this.#options = options;
  }

  async create(request: CreateSessionRequest): Promise<{ sessionId: string }> {
    const { session, writes } = this.#newSession(request);
    await this.#commitNew(session, writes);
    return { sessionId: session.id };
  }

  async submit(request: SubmitRequest): Promise<Submitted> {
    if (request.message.length > MAX_MESSAGE_CHARACTERS) {
      throw new EngineError("message_too_long", `A message has at most ${MAX_MESSAGE_CHARACTERS} characters.`);
    }
    const { sessionId } = request;
    if (sessionId !== undefined) return this.#locks.run(sessionId, () => this.#continue(sessionId, request));
    const tools = toolsOfRun(request, undefined);
    const { session, entryPoint, writes } = this.#newSession(request);
    const queued = this.#newRun(session.id, entryPoint, request, tools);
    const begun = this.#options.beginsAtOnce() ? startWrites(queued, queued.createdAt) : undefined;
    const run = { ...queued, ...begun?.patch };
    const runs = [...runWrites(run), ...idempotencyWrites(run, request), ...(begun?.told ?? [])];
    await this.#commitNew(session, [...writes, ...runs]);
    return this.#queue(run, true);
  }

  /** Ends the session: its runs are cancelled first. A session that has ended, or was active since `idleBefore`, stays as it is. */
  end(sessionId: string, idleBefore?: number): Promise<void> {
    const { backend, clock } = this.#options;
    return this.#locks.run(sessionId, async () => {
      const session = await backend.session(sessionId);
      if (!session) throw noSuchSession();
      if (session.endedAt !== undefined) return;
      if (idleBefore !== undefined && session.lastActiveAt >= idleBefore) return;
      await this.#options.cancelRuns(sessionId);
      const ended = await backend.commit([{ kind: "session.end", sessionId, at: clock.nowMs() }]);
      if (ended.committed) {
        backend.publishTransient(sessionId, { type: "stream_end", payload: { reason: "session_ended" } });
      }
    });
  }

  async #continue(sessionId: string, request: SubmitRequest): Promise<Submitted> {
    const { backend, clock } = this.#options;
    const session = await backend.session(sessionId);
    if (!session || session.owner !== request.owner) throw noSuchSession();
    if (session.endedAt !== undefined) throw sessionEnded();
    const mesh = this.#options.mesh();
    const entryPoint = findTarget(mesh, { ...request, entryPoint: request.entryPoint ?? session.entryPoint });
    await this.#refuseLongQueue(sessionId, mesh.limits.maxQueuedRunsPerSession);

    const at = clock.nowMs();
    const tools = toolsOfRun(request, session.context);
    const run = this.#newRun(sessionId, entryPoint, request, tools);
    const stored = request.devices ? await backend.devices(sessionId) : [];
    const context = request.context && { context: { ...session.context, ...request.context } };
    try {
      await commit(backend, [
        { kind: "session.touch", sessionId, at, ...context },
        ...this.#deviceWrites(sessionId, stored, request.devices, at),
        ...runWrites(run),
        ...droppedWrites(run, tools.dropped),
        ...idempotencyWrites(run, request),
      ]);
    } catch (error) {
      // What can have changed under the lock: another process ended the session, or took the same request.
      throw error instanceof CommitConflict ? sessionEnded() : error;
    }
    return this.#queue(run, false);
  }

  async #refuseLongQueue(sessionId: string, max: number): Promise<void> {
    const queued = await this.#options.backend.runs({ sessionId, statuses: ["queued"], limit: max });
    if (queued.length < max) return;
    throw new EngineError(
      "too_many_queued_runs",
      `${max} messages of this conversation wait already (limits.max_queued_runs_per_session). Send it again when one has been answered.`,
    );
  }

  async #commitNew(session: SessionRecord, writes: readonly Write[]): Promise<void> {
    const owner = session.owner ?? "";
    await this.#locks.run(`owner:${owner}`, async () => {
      const room = this.#room.get(owner) ?? (await this.#countRoom(session.owner));
      await commit(this.#options.backend, writes);
      if (room > 1) this.#room.set(owner, room - 1);
      else this.#room.delete(owner);
    });
  }

  /** Sessions that the owner may open before they are counted again: counting takes longer the more there are. */
  async #countRoom(owner: string | undefined): Promise<number> {
    const max = this.#options.mesh().limits.maxSessionsPerKey;
    const room = max - (await this.#options.backend.countOpenSessions(owner));
    if (room > 0) return Math.min(room, MAX_UNCOUNTED);
    throw new EngineError(
      "too_many_sessions",
      `${max} conversations are open (limits.max_sessions_per_key). End one with DELETE /api/sessions/{id} first.`,
    );
  }

  #newSession(request: CreateSessionRequest & Pick<SubmitRequest, "agent" | "sessionKey">) {
    const mesh = this.#options.mesh();
    const entryPoint = findTarget(mesh, request);
    const at = this.#options.clock.nowMs();
    const session: SessionRecord = {
      id: this.#options.newId("ses"),
      meshName: mesh.name,
      entryPoint: entryPoint.name,
      owner: request.owner,
      createdAt: at,
      lastActiveAt: at,
      ...(request.sessionKey === undefined ? {} : { key: request.sessionKey }),
      context: request.context ?? {},
    };
    const writes: Write[] = [
      { kind: "session.create", session },
      {
        kind: "event.append",
        sessionId: session.id,
        at,
        event: { type: "session.created", payload: { entry_point: entryPoint.name } },
      },
      ...this.#deviceWrites(session.id, [], request.devices, at),
    ];
    return { session, entryPoint, writes };
  }

  #deviceWrites(
    sessionId: string,
    stored: Parameters<typeof mergeDevices>[0],
    given: readonly DeviceInput[] | undefined,
    at: number,
  ): Write[] {
    if (!given || (given.length === 0 && stored.length === 0)) return [];
    const devices = mergeDevices(stored, given, sessionId, this.#options.sealer);
    const event = { type: "devices.changed", payload: { devices: devices.map(knownDevice) } } as const;
    return [
      { kind: "devices.replace", sessionId, devices },
      { kind: "event.append", sessionId, at, event },
    ];
  }

  #newRun(
    sessionId: string,
    entryPoint: EntryPoint,
    { message, timeoutMs = Number.POSITIVE_INFINITY, run: wanted }: SubmitRequest,
    { deviceTools }: ToolsOfRun,
  ) {
    const at = this.#options.clock.nowMs();
    const id = this.#options.newId("run");
    const run: RunRecord = {
      id,
      sessionId,
      agent: entryPoint.target,
      status: "queued",
      input: message,
      createdAt: at,
      deadlineAt: at + Math.min(timeoutMs, this.#options.mesh().limits.runTimeoutMs),
      ...(deviceTools ? { deviceTools } : {}),
      ...(wanted ? { options: this.#runOptions(id, wanted) } : {}),
      version: 1,
    };
    return run;
  }

  #runOptions(runId: string, { callbackUrl, ...options }: RunRequest): RunOptions {
    if (callbackUrl === undefined) return options;
    const settings = this.#options.mesh().server.callbacks;
    return { ...options, sealedCallbackUrl: sealCallbackUrl(callbackUrl, runId, settings, this.#options.sealer) };
  }

  async #queue(run: RunRecord, opensConversation: boolean): Promise<Submitted> {
    await this.#options.queue(run, { opensConversation });
    return { sessionId: run.sessionId, runId: run.id, agent: run.agent };
  }
}

function runWrites(run: RunRecord): Write[] {
  const { id, sessionId, agent, input, createdAt: at } = run;
  return [
    { kind: "run.create", run },
    {
      kind: "event.append",
      sessionId,
      at,
      event: { type: "message.received", payload: { run_id: id, content: input } },
    },
    { kind: "event.append", sessionId, at, event: { type: "run.queued", payload: { run_id: id, agent } } },
  ];
}

interface ToolsOfRun {
  readonly deviceTools?: RunRecord["deviceTools"];
  /** Why the declaration of the session does not count. */
  readonly dropped: readonly DeclarationProblem[];
}

/** The tools of the client that the run will have, frozen now. */
function toolsOfRun(request: SubmitRequest, stored: SessionRecord["context"] | undefined): ToolsOfRun {
  const bound = bindDeviceTools(request.context, stored);
  switch (bound.status) {
    case "bound":
      return { deviceTools: bound.tools, dropped: [] };
    case "dropped":
      return { dropped: bound.problems };
    case "refused": {
      const [first] = bound.problems;
      const where = first ? `${first.field}: ${first.message}` : "context.device_tools is not as documented";
      throw new EngineError("invalid_device_tools", where, bound.problems);
    }
    default:
      return bound satisfies never;
  }
}

function droppedWrites(run: RunRecord, problems: readonly DeclarationProblem[]): Write[] {
  const [first] = problems;
  if (!first) return [];
  const message = `The device tools that were declared earlier do not count for this run: ${first.field}: ${first.message}.`;
  const event = { type: "warning", payload: { code: "device_tools_dropped", message } } as const;
  return [{ kind: "event.append", sessionId: run.sessionId, at: run.createdAt, event }];
}

function idempotencyWrites(run: RunRecord, { idempotency, owner }: SubmitRequest): Write[] {
  if (!idempotency) return [];
  const { key, digest: requestDigest } = idempotency;
  return [
    { kind: "idempotency.forget", before: run.createdAt - IDEMPOTENCY_KEY_LIFE_MS },
    { kind: "idempotency.create", idempotency: { owner, key, requestDigest, runId: run.id, createdAt: run.createdAt } },
  ];
}

/** The entry point, or the one that stands for an agent that is named itself. */
function findTarget(mesh: Mesh, request: Pick<SubmitRequest, "agent" | "entryPoint">): EntryPoint {
  const { agent } = request;
  if (agent === undefined) return findEntryPoint(mesh, request.entryPoint);
  if (!mesh.agents.has(agent)) {
    const names = [...mesh.agents.keys()].join(", ");
    throw new EngineError("no_such_agent", `There is no agent ${JSON.stringify(agent)}. There are: ${names}.`);
  }
  const own = mesh.entryPoints.find(({ target }) => target === agent) ?? mesh.entryPoints[0];
  return { name: own?.name ?? agent, target: agent };
}

function findEntryPoint({ entryPoints }: Mesh, name: string | undefined): EntryPoint {
  const found = name === undefined ? entryPoints[0] : entryPoints.find((candidate) => candidate.name === name);
  if (found) return found;
  const names = entryPoints.map((candidate) => candidate.name).join(", ");
  throw new EngineError("no_such_entry_point", `There is no entry point ${JSON.stringify(name)}. There are: ${names}.`);
}

function noSuchSession(): EngineError {
  return new EngineError("no_such_session", "There is no such session.");
}

function sessionEnded(): EngineError {
  return new EngineError("session_ended", "The session has ended. Start a new one.");
}
