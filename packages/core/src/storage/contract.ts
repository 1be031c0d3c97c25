/**
 * Storage: records, one atomic `commit`, reads, a queue and a bus, as one backend. `testBackend` is the conformance
 * suite that every backend passes. Times are milliseconds since the epoch.
 */
import type { RunStatus, SessionEvent, SessionEventType, StoredEvent, TransientEvent } from "@leafmesh/protocol";
import type {
  CallbackPatch,
  CallbackRecord,
  CallFace,
  CallPatch,
  CallRecord,
  CallState,
  DeviceRecord,
  IdempotencyRecord,
  MessageRecord,
  OfferRecord,
  RunFrame,
  RunPatch,
  RunRecord,
  SessionPresence,
  SessionRecord,
  StoredFrame,
  ToolRecord,
  UploadRecord,
  WaitRecord,
} from "./records.ts";

export * from "./records.ts";

/** Holds something until it is closed; closing twice is fine. */
export interface Closable {
  close(): Promise<void>;
}

/**
 * One change. A session that has ended takes no new work and no new secrets: `run.create`, `wait.create`, `call.create`,
 * `devices.replace`, `upload.create` and a second `session.end` are a `conflict` then. What is under way can still be
 * brought to its end: updates, messages, offers and events are taken.
 */
export type Write =
  | { readonly kind: "session.create"; readonly session: SessionRecord }
  /** `lastActiveAt` moves forwards only; `context`, when given, replaces the whole. */
  | {
      readonly kind: "session.touch";
      readonly sessionId: string;
      readonly at: number;
      readonly context?: Readonly<Record<string, unknown>>;
    }
  /** Also erases the session's devices and uploads, and the tokens of its calls. */
  | { readonly kind: "session.end"; readonly sessionId: string; readonly at: number }
  /** Replaces the whole list and keeps its order; an id twice in it is `exists`. */
  | { readonly kind: "devices.replace"; readonly sessionId: string; readonly devices: readonly DeviceRecord[] }
  | { readonly kind: "run.create"; readonly run: RunRecord }
  | { readonly kind: "run.update"; readonly runId: string; readonly version: number; readonly patch: RunPatch }
  | {
      readonly kind: "message.append";
      readonly message: Omit<MessageRecord, "position">;
    }
  | { readonly kind: "wait.create"; readonly wait: WaitRecord }
  | {
      readonly kind: "wait.update";
      readonly waitId: string;
      readonly from: WaitRecord["state"];
      readonly to: WaitRecord["state"];
      readonly answerDigest?: string | undefined;
    }
  | { readonly kind: "call.create"; readonly call: CallRecord }
  | { readonly kind: "call.update"; readonly callId: string; readonly version: number; readonly patch: CallPatch }
  | { readonly kind: "offer.append"; readonly offer: OfferRecord }
  | { readonly kind: "event.append"; readonly sessionId: string; readonly at: number; readonly event: SessionEvent }
  | { readonly kind: "upload.create"; readonly upload: UploadRecord }
  | { readonly kind: "frame.append"; readonly runId: string; readonly at: number; readonly frame: RunFrame }
  | { readonly kind: "tool.create"; readonly tool: ToolRecord }
  | { readonly kind: "tool.delete"; readonly slug: string }
  /**
   * Is about its event, or else about the run's newest frame at this point of the commit; `missing` when there is none,
   * or no such run.
   */
  | { readonly kind: "callback.create"; readonly callback: Omit<CallbackRecord, "frameSeq"> }
  | {
      readonly kind: "callback.update";
      readonly callbackId: string;
      readonly version: number;
      readonly patch: CallbackPatch;
    }
  | { readonly kind: "idempotency.create"; readonly idempotency: IdempotencyRecord }
  /** Forgets keys that were used before `before`. */
  | { readonly kind: "idempotency.forget"; readonly before: number };

/** Either everything was written or nothing. */
export type CommitResult =
  | { readonly committed: true; readonly events: readonly StoredEvent[] }
  /**
   * `at` is the index of the write that was refused. `exists`: an id, or a name that is to be unique, is taken; `missing`: no such row, or none that the
   * new one refers to; `conflict`: somebody else changed it first, or its session has ended.
   */
  | { readonly committed: false; readonly at: number; readonly reason: "exists" | "missing" | "conflict" };

export interface PageOfEvents {
  /** Exclusive. */
  readonly after?: number | undefined;
  readonly limit?: number | undefined;
  readonly types?: readonly SessionEventType[] | undefined;
}

export interface PageOfFrames {
  /** Exclusive. */
  readonly after?: number | undefined;
  readonly limit?: number | undefined;
  readonly types?: readonly string[] | undefined;
}

export interface SessionSummary {
  readonly session: SessionRecord;
  readonly state: "idle" | "running" | "ended";
}

/** What `subscribe` gives: stored events in order without a gap, and transient ones as they come. */
export interface SessionListener {
  onEvents(events: readonly StoredEvent[]): void;
  onTransient(event: TransientEvent): void;
  /** Streams of the session came or went; {@link Backend.presence} says what there is now. */
  onPresence?(): void;
}

/** What `subscribeRun` gives: stored frames in order without a gap. */
export interface RunListener {
  onFrames(frames: readonly StoredFrame[]): void;
}

export interface Backend extends Closable {
  readonly kind: "embedded" | "postgres";
  /** Brings the schema up to date. Called once, before anything else. */
  migrate(): Promise<void>;
  /** Whether a write would succeed now; throws {@link StorageError} with the cause and the cure. */
  probe(): Promise<void>;

  /**
   * All writes or none, in order. Preconditions (`version`, `from`, absence) decide the winner between concurrent
   * commits. When it resolves with `committed: true` the writes are durable as far as the backend promises, and
   * listeners see the events after that and in `seq` order. Throws {@link StorageError} when storage itself fails.
   */
  commit(writes: readonly Write[]): Promise<CommitResult>;

  session(id: string): Promise<SessionRecord | undefined>;
  /** The owner's session of that key that has not ended; `undefined` looks among those without an owner. */
  sessionByKey(owner: string | undefined, key: string): Promise<SessionRecord | undefined>;
  /** Newest first. `owner` limits to one key's sessions; `before` is exclusive and compared with `createdAt`. */
  sessions(query: {
    owner?: string | undefined;
    limit: number;
    before?: number | undefined;
  }): Promise<readonly SessionSummary[]>;
  /** Sessions of the owner that have not ended; `undefined` counts those without an owner. */
  countOpenSessions(owner: string | undefined): Promise<number>;
  /** Sessions without activity since `before` that have not ended and have no open run, longest idle first. */
  idleSessions(before: number, limit: number): Promise<readonly SessionRecord[]>;
  devices(sessionId: string): Promise<readonly DeviceRecord[]>;
  /** Oldest first; the last `limit` of them when given. */
  messages(
    sessionId: string,
    query?: { runId?: string | undefined; limit?: number | undefined },
  ): Promise<readonly MessageRecord[]>;
  run(id: string): Promise<RunRecord | undefined>;
  /** Oldest first; the first `limit` of them. An empty list of statuses finds none. */
  runs(query: {
    sessionId?: string | undefined;
    statuses?: readonly RunStatus[] | undefined;
    limit?: number | undefined;
  }): Promise<readonly RunRecord[]>;
  wait(id: string): Promise<WaitRecord | undefined>;
  /** Oldest first; the first `limit` of them. */
  waits(query: {
    runId?: string | undefined;
    states?: readonly WaitRecord["state"][] | undefined;
    faces?: readonly CallFace[] | undefined;
    limit?: number | undefined;
  }): Promise<readonly WaitRecord[]>;
  call(id: string): Promise<CallRecord | undefined>;
  /** Oldest first, or newest first with `newestFirst`; the first `limit` of that order. */
  calls(query: {
    sessionId?: string | undefined;
    runId?: string | undefined;
    waitId?: string | undefined;
    faces?: readonly CallFace[] | undefined;
    states?: readonly CallState[] | undefined;
    newestFirst?: boolean | undefined;
    limit?: number | undefined;
  }): Promise<readonly CallRecord[]>;
  /** In the order in which they were appended. */
  offers(callId: string): Promise<readonly OfferRecord[]>;
  /** In order of `seq`, from the first after `after`. */
  events(sessionId: string, page?: PageOfEvents): Promise<readonly StoredEvent[]>;
  /** 0 when there is none. */
  lastEventSeq(sessionId: string): Promise<number>;
  upload(id: string): Promise<UploadRecord | undefined>;
  /** In order of `seq`, from the first after `after`. */
  frames(runId: string, page?: PageOfFrames): Promise<readonly StoredFrame[]>;
  /** By slug. */
  tools(): Promise<readonly ToolRecord[]>;
  tool(slug: string): Promise<ToolRecord | undefined>;
  /** Waiting ones that are due at `now`, longest due first; the first `limit` of them. */
  dueCallbacks(now: number, limit: number): Promise<readonly CallbackRecord[]>;
  idempotency(owner: string | undefined, key: string): Promise<IdempotencyRecord | undefined>;

  /** Counts a stream of the session until it is closed; when it resolves, every process sees it. */
  attachStream(sessionId: string, stream: { readonly executor: boolean }): Promise<Closable>;
  presence(sessionId: string): Promise<SessionPresence>;

  /**
   * Listens to one session until the returned function is called. Events committed by any process arrive, those of one
   * session in order of `seq`. To follow a session without a gap, subscribe first, then read the backlog with
   * {@link Backend.events}, and drop what came twice by its `seq`. A listener that throws is logged and stays.
   */
  subscribe(sessionId: string, listener: SessionListener): () => void;
  publishTransient(sessionId: string, event: TransientEvent): void;
  /** As {@link Backend.subscribe}, for the frames of one run. */
  subscribeRun(runId: string, listener: RunListener): () => void;

  /** Work that waits for a worker; one run at a time per session, in order of `push`. */
  readonly queue: RunQueue;
  /** The other processes; left out by a backend that one process has to itself. */
  readonly peers?: Peers | undefined;
}

export interface RunQueue {
  /**
   * The run must be stored as `queued` first. A run that waits already is not held twice; one in hand is taken again
   * once it has ended. An embedded queue is empty after a restart: the stored runs say what to push again.
   */
  push(run: { readonly runId: string; readonly sessionId: string }): Promise<void>;
  /** Starts taking work, at most `concurrency` at once. `work` must not reject. */
  start(options: { concurrency: number; work: (run: RunInHand) => Promise<WorkDone> }): Promise<void>;
  /** Stops taking work and resolves when what is in hand has ended, parked runs included. */
  stop(): Promise<void>;
  /** Whether a run of a new session, pushed now, would be taken at once by this process. Left out: that is not known. */
  isFree?(): boolean;
  /**
   * Only of a queue that several processes share, which lasts longer than each of them: takes in the stored runs that
   * are `queued` or `running` and that it does not hold, because the process that was to push them died. Answers how
   * many. Runs that another process drives, or that wait for one, are left alone.
   */
  takeUp?(): Promise<number>;
}

export interface RunInHand {
  readonly runId: string;
  readonly sessionId: string;
  /**
   * Only of a queue that several processes share: aborted when this process was taken for dead and another one drives
   * the run. What it commits to the run's history is a `conflict` from then on.
   */
  readonly signal?: AbortSignal | undefined;
}

/**
 * `unfinished`: the run is to be taken again, here or by another process; an embedded queue leaves that to the next start.
 * {@link Parked}: it waits and needs no worker.
 */
// biome-ignore lint/suspicious/noConfusingVoidType: a worker that returns nothing has done its work
export type WorkDone = "unfinished" | Parked | undefined | void;

/**
 * The run stays in hand, and its session taken, without counting as one of those at work. When `wake` is called, which
 * must come, it is taken again before others.
 */
export interface Parked {
  /** Asked once for each parking; calls at once when it is time already. */
  onAwake(wake: () => void): void;
}

/** The processes that share a backend. Only of a backend that several can share. */
export interface Peers {
  /** Brings `body` to every other process that is there now. Not stored; may be lost. False when it is too long (7 KB). */
  tell(topic: string, body: Readonly<Record<string, unknown>>): boolean;
  /** Listens to what other processes tell under `topic` until the returned function is called. */
  listen(topic: string, listener: (body: Readonly<Record<string, unknown>>) => void): () => void;
  /** What all processes must agree on: the value that the first of them brought under this name, for good. */
  agree(name: string, value: string): Promise<string>;
  /** How many processes are alive, this one included. */
  count(): Promise<number>;
}

/** Storage failed: full disk, locked file, broken connection. `message` names the cure. */
export class StorageError extends Error {
  override readonly name = "StorageError";
  readonly code: "full" | "busy" | "unavailable" | "corrupt" | "too_new";

  constructor(code: StorageError["code"], message: string, more: { cause?: unknown } = {}) {
    super(message, { cause: more.cause });
    this.code = code;
  }
}
