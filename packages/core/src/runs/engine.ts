/** The engine: conversations in, runs driven to their end, across restarts. */

import { createGuardedFetch, type GuardedFetch } from "@leafmesh/guarded-fetch";
import {
  type Clock,
  FINAL_RUN_STATUSES,
  type HistoryEntry,
  type Logger,
  type NewId,
  type SessionEventPayload,
  type StoredEvent,
} from "@leafmesh/protocol";
import type { DeviceToolAnswer, DeviceToolAnswered } from "../bridge/answer-call.ts";
import { createDeviceToolBridge } from "../bridge/bridge.ts";
import type { EventNotices } from "../callbacks/event-notices.ts";
import { closeForgottenCalls } from "../calls/forgotten-calls.ts";
import { createPendingCalls } from "../calls/pending-calls.ts";
import { createDeclaredTools } from "../client-tools/declared-tools.ts";
import { OutsideAnswers } from "../client-tools/outside-answers.ts";
import type { Answer, Resumed } from "../client-tools/resume.ts";
import type { Mesh } from "../config/mesh.ts";
import type { Models } from "../models/contract.ts";
import type { Sealer } from "../security/sealer.ts";
import { createDeviceDirectory } from "../sessions/device-directory.ts";
import type { DeviceDirectory } from "../sessions/devices.ts";
import { historyEntry } from "../sessions/history.ts";
import { createKeyedSubmit, type SubmitRunRequest } from "../sessions/keyed-submit.ts";
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
import type { RunControl } from "./run-control.ts";
import { RunDriver } from "./run-driver.ts";
import { createSharedRuns } from "./shared-runs.ts";
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
  /** For tools of the mesh and notices; closed by the engine. One that goes to the network unless given. */
  readonly fetch?: GuardedFetch | undefined;
  /**
   * How long a run whose tool calls only wait for devices keeps its worker, {@link PARK_AFTER_MS} unless given. After
   * that it leaves memory but for its record and goes on from the store once its calls have their outcomes.
   */
  readonly parkAfterMs?: number | undefined;
}

/** Longer than a device takes that is at hand: reading a run again costs more than a moment of its memory. */
export const PARK_AFTER_MS = 1_500;

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
   *   `session_ended`, `too_many_queued_runs`, `message_too_long`, `no_such_agent`, `bad_callback_url`,
   *   `idempotency_conflict`
   */
  submit(request: SubmitRequest): Promise<Submitted>;

  /**
   * As {@link Engine.submit}, into the conversation that the app calls `sessionKey` (opened if there is none), and once
   * for every idempotency key: a repeat gets the run of the first.
   */
  submitRun(request: SubmitRunRequest): Promise<Submitted>;

  /**
   * The run once it has ended, however it ended. Rejects with the signal's reason when that comes first.
   *
   * @throws {EngineError} `no_such_run`; `stopping` when the engine stops before the run has ended
   */
  waitForRun(runId: string, signal: AbortSignal): Promise<RunRecord>;

  /**
   * Takes the answer that a suspended run waits for; when it resolves as accepted the answer is stored and the run goes
   * on. The same answer again changes nothing. A refusal changes nothing either.
   *
   * @param answeredBy name of the API key that brings the answer
   * @throws {EngineError} `no_such_run`, `stopping`
   */
  resumeRun(runId: string, answer: Answer, answeredBy: string | undefined): Promise<Resumed>;

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

  /**
   * Takes the result of a call that the session's client executed. When it resolves with `resolved` the result is stored
   * and the model will read it.
   */
  answerDeviceTool(answer: DeviceToolAnswer): Promise<DeviceToolAnswered>;
  /** The session's calls that wait for its client, with the tokens that answer them. */
  openDeviceToolCalls(sessionId: string): Promise<readonly SessionEventPayload<"device_tool_call">[]>;
  /**
   * The event as it goes to a stream of the session's owner: a call that waits for the client gets the token that
   * answers it. `undefined` when it goes as it is.
   */
  forStream(event: StoredEvent): Promise<StoredEvent> | undefined;

  /** The devices of a conversation with their push tokens opened, for the notifiers. */
  readonly directory: DeviceDirectory;

  /** What is stored beside an event that the app is told of. */
  readonly notices: EventNotices;
}

/** Runs that a worker drives, or will. */
const DRIVEN = ["queued", "running"] as const;
const UNFINISHED = [...DRIVEN, "suspended"] as const;
const HISTORY_PAGE = 1_000;

/** Makes an engine; nothing runs before {@link Engine.start}. */
export function createEngine(dependencies: EngineDependencies): Engine {
  const { backend, clock, logger, newId, sealer } = dependencies;
  const stopping = new AbortController();
  const leases = new MeshLeases(dependencies.mesh, dependencies.models, logger);
  const calls = createPendingCalls({ backend, clock, newId });
  const bridge = createDeviceToolBridge({ backend, calls, sealer, clock, newId, logger });
  const fetch = dependencies.fetch ?? createGuardedFetch({ clock });
  const declared = createDeclaredTools({ backend, fetch, logger });
  const toolProviders = [declared, bridge.provider, ...dependencies.toolProviders];
  const answers = new OutsideAnswers({
    ...dependencies,
    calls,
    fetch,
    callbackSettings: () => leases.mesh.server.callbacks,
  });
  const driver = new RunDriver({
    ...dependencies,
    parkAfterMs: dependencies.parkAfterMs ?? PARK_AFTER_MS,
    toolProviders,
    leases,
    calls,
    onSuspended: (wait) => answers.suspended(wait),
    onReleased: (run) => answers.released(run),
  });
  const shared = createSharedRuns({ backend, driver, clock, logger, onEnded: (run) => answers.released(run) });
  /** `undefined`: the run is not under way. */
  const cancel = async (runId: string): Promise<RunRecord | undefined> => {
    if (shared) return shared.cancel(runId, stopping.signal);
    const control = await driver.take(runId);
    return control && driver.interrupt(control, "cancelled");
  };
  const sessions = new SessionService({
    backend,
    sealer,
    clock,
    newId,
    mesh: () => leases.mesh,
    beginsAtOnce: () => backend.queue.isFree?.() ?? false,
    async queue(run, { opensConversation }) {
      if (shared) return shared.queue(run);
      const control = driver.add(run);
      control.opensConversation = opensConversation;
      control.begunWithSession = run.status === "running";
      control.announced = control.begunWithSession;
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
  const submitKeyed = createKeyedSubmit({ backend, clock, submit: (request) => sessions.submit(request) });
  const sweep = new SessionSweep({
    backend,
    clock,
    logger,
    ttlMs: () => leases.mesh.storage.sessionTtlMs,
    end: (sessionId, idleBefore) => sessions.end(sessionId, idleBefore),
  });
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
    await shared?.stop();
    const drained = backend.queue.stop();
    await withinTime(drained, graceMs, clock);
    const letGo = Promise.all([drained, driver.stop()]).then(() => {});
    const inTime = await withinTime(letGo, LAST_WAIT_MS, clock);
    if (!inTime) logger.error("a run did not let go while the mesh stopped; the next start continues it");
    driver.abandonAll();
    await answers.stop();
    await fetch.close();
    await leases.close();
  };

  return {
    directory: createDeviceDirectory(backend, sealer, logger),
    notices: answers.notices,
    answerDeviceTool: bridge.answer,
    openDeviceToolCalls: bridge.openCalls,
    forStream: bridge.forStream,

    async start() {
      refuseWhenStopping();
      await closeForgottenCalls({ backend, calls, clock, logger });
      const counts = shared
        ? { resumed: await shared.start(), ended: 0 }
        : await takeUpUnfinished(backend, driver, leases.mesh, clock);
      await backend.queue.start({
        concurrency: leases.mesh.limits.maxConcurrentRuns,
        work: (run) => driver.work(run),
      });
      await answers.start();
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

    async submitRun(request) {
      refuseWhenStopping();
      return submitKeyed(request);
    },

    async waitForRun(runId, signal) {
      const here = driver.get(runId);
      const left = here && (await abortable(unlessLost(here), signal));
      if (left && FINAL_RUN_STATUSES.has(left.status)) return left;
      const run = await knownRun(runId);
      if (FINAL_RUN_STATUSES.has(run.status)) return run;
      return finishedElsewhere(backend, run, AbortSignal.any([signal, stopping.signal]));
    },

    async resumeRun(runId, answer, answeredBy) {
      refuseWhenStopping();
      const resumed = await answers.resume(runId, answer, answeredBy);
      if (!resumed) throw new EngineError("no_such_run", "There is no such run.");
      return resumed;
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

/**
 * Puts what an earlier process left back into the queue: of one session's runs the one that was under way first. Those
 * that wait for somebody outside are left to their deadlines.
 */
async function takeUpUnfinished(backend: Backend, driver: RunDriver, mesh: Mesh, clock: Clock) {
  const unfinished = await backend.runs({ statuses: DRIVEN });
  const underWay = unfinished.filter(({ startedAt }) => startedAt !== undefined);
  const waiting = unfinished.filter(({ startedAt }) => startedAt === undefined);
  let resumed = 0;
  for (const run of [...underWay, ...waiting]) {
    if (run.deadlineAt > clock.nowMs() && mesh.agents.has(run.agent)) resumed++;
    driver.add(run);
    await backend.queue.push({ runId: run.id, sessionId: run.sessionId });
  }
  return { resumed, ended: unfinished.length - resumed };
}

/** `undefined` when another process takes the run over before it has ended. */
function unlessLost(control: RunControl): Promise<RunRecord | undefined> {
  return control.finished.catch((error: unknown) => {
    if (control.isLost) return undefined;
    throw error;
  });
}

/** False when `promise` has not resolved in time. */
function withinTime(promise: Promise<void>, ms: number, clock: Clock): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const timer = clock.schedule(ms, () => resolve(false));
    promise.then(() => resolve(true), reject).finally(() => timer.cancel());
  });
}
