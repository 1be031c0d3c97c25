/** The engine: conversations in, runs driven to their end, across restarts. */
import { type Clock, FINAL_RUN_STATUSES, type HistoryEntry, type Logger, type NewId } from "@leafmesh/protocol";
import { createPendingCalls } from "../calls/pending-calls.ts";
import type { Mesh } from "../config/mesh.ts";
import type { Models } from "../models/contract.ts";
import type { Sealer } from "../security/sealer.ts";
import { createDeviceDirectory } from "../sessions/device-directory.ts";
import type { DeviceDirectory } from "../sessions/devices.ts";
import { historyEntry } from "../sessions/history.ts";
import {
  type CreateSessionRequest,
  SessionService,
  type SubmitRequest,
  type Submitted,
} from "../sessions/session-service.ts";
import { SessionSweep } from "../sessions/sweep.ts";
import type { Backend, RunRecord, SessionRecord, SessionSummary } from "../storage/contract.ts";
import type { ToolProvider } from "../tools/contract.ts";
import { EngineError } from "./engine-error.ts";
import { MeshLeases } from "./mesh-leases.ts";
import { RunDriver } from "./run-driver.ts";
import type { UploadReader } from "./shown-images.ts";
import { SETTLE_GRACE_MS } from "./tool-execution.ts";
import { abortable, finishedElsewhere } from "./wait-for-run.ts";

/** What an engine stands on. It owns none of it but the models, which it closes. */
export interface EngineDependencies {
  /** The mesh to start with. */
  readonly mesh: Mesh;
  /** Migrated, and not started. */
  readonly backend: Backend;
  /** Opens the models of a mesh; called at once and for every {@link Engine.swapMesh}. Must not connect anywhere yet. */
  readonly models: (mesh: Mesh) => Models;
  /** Asked in this order; a tool of a later one replaces an earlier one of the same name. */
  readonly toolProviders: readonly ToolProvider[];
  readonly sealer: Sealer;
  readonly uploads: UploadReader;
  readonly clock: Clock;
  readonly newId: NewId;
  /** 0 up to 1, for the spread of retries. */
  readonly random: () => number;
  readonly logger: Logger;
}

export interface Engine {
  /**
   * Starts to work. Runs that an earlier process left unfinished are taken up first: `resumed` of them go on, `ended`
   * of them can only be closed (past their deadline, or their agent is not in the mesh any more). Also ends sessions
   * that have been idle for too long, now and every hour.
   */
  start(): Promise<{ readonly resumed: number; readonly ended: number }>;

  /**
   * Opens a conversation.
   *
   * @throws {EngineError} `no_such_entry_point`, `too_many_sessions`, `too_many_devices`, `duplicate_device`, `stopping`
   */
  createSession(request: CreateSessionRequest): Promise<{ readonly sessionId: string }>;

  /**
   * Takes a message into a conversation. When it resolves the message is stored and will be answered, also across a
   * restart. When it rejects it will not be answered.
   *
   * @throws {EngineError} as {@link Engine.createSession}, and `no_such_session` (also for a session of another owner),
   *   `session_ended`, `too_many_queued_runs`, `message_too_long`
   */
  submit(request: SubmitRequest): Promise<Submitted>;

  /**
   * The run once it has ended, however it ended. Rejects with the signal's reason when that comes first.
   *
   * @throws {EngineError} `no_such_run`; `stopping` when the engine stops before the run has ended
   */
  waitForRun(runId: string, signal: AbortSignal): Promise<RunRecord>;

  /**
   * Ends a run as `cancelled`; its open tool calls are settled first and the history stays closed. Resolves with the
   * run when that is stored. A run that has ended stays as it is.
   *
   * @throws {EngineError} `no_such_run`; `stopping` when the engine stops meanwhile, and the run goes on after its start
   */
  cancelRun(runId: string): Promise<RunRecord>;

  /**
   * Cancels the session's runs, then ends it: push tokens and uploads are erased, the history stays. Ending it twice is
   * fine.
   *
   * @throws {EngineError} `no_such_session`
   */
  endSession(sessionId: string): Promise<void>;

  session(sessionId: string): Promise<SessionRecord | undefined>;
  /** Newest first. `owner` limits to one key's; `before` is the `createdAt` of the last one seen. */
  sessions(query: Parameters<Backend["sessions"]>[0]): Promise<readonly SessionSummary[]>;
  /** What was said, oldest first: the last `limit` messages, 1000 unless given. Empty for an unknown session. */
  history(sessionId: string, query?: { readonly limit?: number | undefined }): Promise<HistoryEntry[]>;
  run(runId: string): Promise<RunRecord | undefined>;
  /** Whether a run of the session waits or is under way. */
  isRunning(sessionId: string): Promise<boolean>;

  /**
   * From now on new runs use `mesh`; runs under way keep theirs, and its models are closed after the last of them. How
   * many runs may be under way at once stays as it was at the start.
   */
  swapMesh(mesh: Mesh): void;

  /**
   * Takes no more work, lets runs under way finish for up to `graceMs` milliseconds, then interrupts them. An
   * interrupted run stays unfinished in the store, with nothing of it half written, and the next start goes on with it.
   */
  stop(options: { readonly graceMs: number }): Promise<void>;

  /** The devices of a conversation with their push tokens opened, for the notifiers. */
  readonly directory: DeviceDirectory;
}

const UNFINISHED = ["queued", "running"] as const;
const HISTORY_PAGE = 1_000;

/** Makes an engine; nothing runs before {@link Engine.start}. */
export function createEngine(dependencies: EngineDependencies): Engine {
  const { backend, clock, logger, newId, sealer } = dependencies;
  const leases = new MeshLeases(dependencies.mesh, dependencies.models, logger);
  const calls = createPendingCalls({ backend, clock, newId });
  const driver = new RunDriver({ ...dependencies, leases, calls });
  /** `undefined`: the run is not under way. */
  const cancel = async (runId: string): Promise<RunRecord | undefined> => {
    const control = await driver.take(runId);
    return control && driver.interrupt(control, "cancelled");
  };
  const sessions = new SessionService({
    backend,
    sealer,
    clock,
    newId,
    mesh: () => leases.mesh,
    async queue(run, { opensConversation }) {
      const control = driver.add(run);
      control.opensConversation = opensConversation;
      try {
        await backend.queue.push({ runId: run.id, sessionId: run.sessionId });
      } catch (error) {
        void driver.interrupt(control, "cancelled").catch(() => {});
        throw error;
      }
    },
    async cancelRuns(sessionId) {
      const runs = await backend.runs({ sessionId, statuses: UNFINISHED });
      await Promise.all(runs.map((run) => cancel(run.id)));
    },
  });
  const sweep = new SessionSweep({
    backend,
    clock,
    logger,
    ttlMs: () => leases.mesh.storage.sessionTtlMs,
    end: (sessionId, idleBefore) => sessions.end(sessionId, idleBefore),
  });
  const stopping = new AbortController();
  let stopped: Promise<void> | undefined;

  const refuseWhenStopping = (): void => {
    if (stopping.signal.aborted) throw isStopping();
  };

  const knownRun = async (runId: string): Promise<RunRecord> => {
    const run = await backend.run(runId);
    if (!run) throw new EngineError("no_such_run", "There is no such run.");
    return run;
  };

  const stop = async (graceMs: number): Promise<void> => {
    sweep.stop();
    const drained = backend.queue.stop();
    await withinTime(drained, graceMs, clock);
    const letGo = Promise.all([drained, driver.stop()]).then(() => {});
    const inTime = await withinTime(letGo, LAST_WAIT_MS, clock);
    if (!inTime) logger.error("a run did not let go while the mesh stopped; the next start continues it");
    driver.abandonAll();
    await leases.close();
  };

  return {
    directory: createDeviceDirectory(backend, sealer, logger),

    async start() {
      refuseWhenStopping();
      const counts = await takeUpUnfinished(backend, driver, leases.mesh, clock);
      await backend.queue.start({
        concurrency: leases.mesh.limits.maxConcurrentRuns,
        work: ({ runId }) => driver.work(runId),
      });
      await sweep.start();
      return counts;
    },

    async createSession(request) {
      refuseWhenStopping();
      return sessions.create(request);
    },

    async submit(request) {
      refuseWhenStopping();
      return sessions.submit(request);
    },

    async waitForRun(runId, signal) {
      const here = driver.get(runId);
      if (here) return abortable(here.finished, signal);
      const run = await knownRun(runId);
      if (FINAL_RUN_STATUSES.has(run.status)) return run;
      return finishedElsewhere(backend, run, AbortSignal.any([signal, stopping.signal]));
    },

    async cancelRun(runId) {
      refuseWhenStopping();
      return (await cancel(runId)) ?? (await knownRun(runId));
    },

    async endSession(sessionId) {
      refuseWhenStopping();
      await sessions.end(sessionId);
    },

    session: (sessionId) => backend.session(sessionId),
    sessions: (query) => backend.sessions(query),
    async history(sessionId, { limit = HISTORY_PAGE } = {}) {
      return (await backend.messages(sessionId, { limit })).map(historyEntry);
    },
    run: (runId) => backend.run(runId),
    async isRunning(sessionId) {
      return (await backend.runs({ sessionId, statuses: UNFINISHED, limit: 1 })).length > 0;
    },

    swapMesh: (mesh) => leases.swap(mesh),

    stop({ graceMs }) {
      stopping.abort(isStopping());
      stopped ??= stop(graceMs);
      return stopped;
    },
  };
}

/** Interrupted runs settle their calls one after the other at worst; a process must end all the same. */
const LAST_WAIT_MS = 2 * SETTLE_GRACE_MS;

function isStopping(): EngineError {
  return new EngineError("stopping", "The mesh is stopping. Send the request again in a moment.");
}

/** Puts what an earlier process left back into the queue: of one session's runs the one that was under way first. */
async function takeUpUnfinished(backend: Backend, driver: RunDriver, mesh: Mesh, clock: Clock) {
  const unfinished = await backend.runs({ statuses: UNFINISHED });
  const underWay = unfinished.filter(({ status }) => status !== "queued");
  const waiting = unfinished.filter(({ status }) => status === "queued");
  let resumed = 0;
  for (const run of [...underWay, ...waiting]) {
    if (run.deadlineAt > clock.nowMs() && mesh.agents.has(run.agent)) resumed++;
    driver.add(run);
    await backend.queue.push({ runId: run.id, sessionId: run.sessionId });
  }
  return { resumed, ended: unfinished.length - resumed };
}

/** False when `promise` has not resolved in time. */
function withinTime(promise: Promise<void>, ms: number, clock: Clock): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const timer = clock.schedule(ms, () => resolve(false));
    promise.then(() => resolve(true), reject).finally(() => timer.cancel());
  });
}
