/**
 * Storage: records, one atomic `commit`, reads, a queue and a bus, as one backend. `testBackend` is the conformance
 * suite that every backend passes. Times are milliseconds since the epoch.
 */
import type {
  Capability,
  Outcome,
  RunError,
  RunStatus,
  SessionEvent,
  SessionEventType,
  StoredEvent,
  TransientEvent,
} from "@leafmesh/protocol";

/** Holds something until it is closed; closing twice is fine. */
export interface Closable {
  close(): Promise<void>;
}

export interface SessionRecord {
  readonly id: string;
  readonly meshName: string;
  readonly entryPoint: string;
  /** Name of the API key that created it; `undefined` on a mesh without keys. */
  readonly owner?: string | undefined;
  readonly createdAt: number;
  readonly lastActiveAt: number;
  readonly endedAt?: number | undefined;
  readonly context: Readonly<Record<string, unknown>>;
}

/** A device of a conversation. The push token is sealed before it gets here. */
export interface DeviceRecord {
  readonly sessionId: string;
  readonly id: string;
  readonly name?: string | undefined;
  readonly platform?: string | undefined;
  readonly capabilities?: readonly Capability[] | undefined;
  readonly sealedPushToken: string;
}

/** An entry of the history as the model saw it. Images are upload ids, never bytes. */
export type StoredMessage =
  | { readonly role: "user"; readonly content: string }
  | {
      readonly role: "assistant";
      readonly content: string | null;
      readonly toolCalls?: readonly { readonly id: string; readonly name: string; readonly arguments: string }[];
    }
  | {
      readonly role: "tool";
      readonly toolCallId: string;
      readonly content: string;
      readonly uploads?: readonly string[] | undefined;
    };

export interface MessageRecord {
  readonly sessionId: string;
  /** Gap-free within the session, from 1. */
  readonly position: number;
  readonly runId: string;
  /** Model call within the run that this belongs to; 0 for the user's message. */
  readonly turn: number;
  readonly agent?: string | undefined;
  readonly message: StoredMessage;
  readonly createdAt: number;
}

export interface RunRecord {
  readonly id: string;
  readonly sessionId: string;
  readonly agent: string;
  readonly status: RunStatus;
  readonly input: string;
  readonly reply?: string | undefined;
  readonly error?: RunError | undefined;
  readonly createdAt: number;
  readonly startedAt?: number | undefined;
  readonly finishedAt?: number | undefined;
  readonly deadlineAt: number;
  /** Raised by one with every update; an update names the version it saw. */
  readonly version: number;
}
/** What an update changes. A name that is left out stays as it is; one whose value is `undefined` is cleared. */
export type RunPatch = Partial<Pick<RunRecord, "status" | "reply" | "error" | "startedAt" | "finishedAt">>;

export type CallFace = "device";

/** A group of calls that a run waits for. Of `device_action`, always one call. */
export interface WaitRecord {
  readonly id: string;
  readonly runId: string;
  readonly sessionId: string;
  readonly agent: string;
  readonly face: CallFace;
  readonly turn: number;
  readonly state: "open" | "complete" | "continued" | "expired" | "cancelled";
  readonly deadlineAt: number;
  readonly callIds: readonly string[];
}

export const OPEN_CALL_STATES = ["created", "reaching", "offered", "claimed"] as const;
export const SETTLED_CALL_STATES = [
  "answered",
  "declined",
  "handed_off",
  "expired",
  "lost",
  "undeliverable",
  "cancelled",
] as const;
/** `used`: the result is in the history. See the state table in docs/architecture.md. */
export type CallState = (typeof OPEN_CALL_STATES)[number] | (typeof SETTLED_CALL_STATES)[number] | "used";

/** One tool call whose result comes from outside, at most once, before a deadline. */
export interface CallRecord {
  readonly id: string;
  readonly waitId: string;
  readonly sessionId: string;
  readonly runId: string;
  readonly agent: string;
  readonly face: CallFace;
  readonly turn: number;
  readonly position: number;
  readonly providerCallId: string;
  readonly tool: string;
  readonly arguments: Readonly<Record<string, unknown>>;
  readonly state: CallState;
  /** `maybe` from the moment the task may have left; `yes` once the device says it has it. */
  readonly reached: "no" | "maybe" | "yes";
  readonly device?: string | undefined;
  /** Room provider and label, for a recovery. */
  readonly room?: { readonly connection: string | null; readonly label: string } | undefined;
  readonly expiresAt: number;
  /** The result for the agent, once settled. */
  readonly result?: unknown;
  readonly outcome?: Outcome | undefined;
  readonly resultDigest?: string | undefined;
  readonly createdAt: number;
  readonly settledAt?: number | undefined;
  readonly usedAt?: number | undefined;
  readonly version: number;
}
/** As {@link RunPatch}. */
export type CallPatch = Partial<
  Pick<
    CallRecord,
    | "state"
    | "reached"
    | "device"
    | "room"
    | "expiresAt"
    | "result"
    | "outcome"
    | "resultDigest"
    | "settledAt"
    | "usedAt"
  >
>;

/** One attempt to bring a call to its executor. Append-only: answers "was it sent?". */
export interface OfferRecord {
  readonly callId: string;
  readonly channel: "ring" | "task";
  readonly via: string;
  readonly at: number;
  readonly receipt?: string | undefined;
  readonly error?: string | undefined;
}

/** A file that a device brought. The content is sealed before it gets here. */
export interface UploadRecord {
  readonly id: string;
  readonly sessionId: string;
  readonly callId: string;
  readonly name: string;
  readonly mediaType: string;
  readonly size: number;
  readonly sealedContent: Uint8Array;
  readonly createdAt: number;
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
  /** Also erases the session's devices and uploads. */
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
    }
  | { readonly kind: "call.create"; readonly call: CallRecord }
  | { readonly kind: "call.update"; readonly callId: string; readonly version: number; readonly patch: CallPatch }
  | { readonly kind: "offer.append"; readonly offer: OfferRecord }
  | { readonly kind: "event.append"; readonly sessionId: string; readonly at: number; readonly event: SessionEvent }
  | { readonly kind: "upload.create"; readonly upload: UploadRecord };

/** Either everything was written or nothing. */
export type CommitResult =
  | { readonly committed: true; readonly events: readonly StoredEvent[] }
  /**
   * `at` is the index of the write that was refused. `exists`: an id is taken; `missing`: no such row, or none that the
   * new one refers to; `conflict`: somebody else changed it first, or its session has ended.
   */
  | { readonly committed: false; readonly at: number; readonly reason: "exists" | "missing" | "conflict" };

export interface PageOfEvents {
  /** Exclusive. */
  readonly after?: number | undefined;
  readonly limit?: number | undefined;
  readonly types?: readonly SessionEventType[] | undefined;
}

export interface SessionSummary {
  readonly session: SessionRecord;
  readonly state: "idle" | "running" | "ended";
}

/** What `subscribe` gives: stored events in order without a gap, and transient ones as they come. */
export interface SessionListener {
  onEvents(events: readonly StoredEvent[]): void;
  onTransient(event: TransientEvent): void;
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
  call(id: string): Promise<CallRecord | undefined>;
  /** Oldest first, or newest first with `newestFirst`; the first `limit` of that order. */
  calls(query: {
    sessionId?: string | undefined;
    runId?: string | undefined;
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

  /**
   * Listens to one session until the returned function is called. Events committed by any process arrive, those of one
   * session in order of `seq`. To follow a session without a gap, subscribe first, then read the backlog with
   * {@link Backend.events}, and drop what came twice by its `seq`. A listener that throws is logged and stays.
   */
  subscribe(sessionId: string, listener: SessionListener): () => void;
  publishTransient(sessionId: string, event: TransientEvent): void;

  /** Work that waits for a worker; one run at a time per session, in order of `push`. */
  readonly queue: RunQueue;
}

export interface RunQueue {
  /**
   * The run must be stored as `queued` first. A run that waits already is not held twice; one in hand is taken again
   * once it has ended. An embedded queue is empty after a restart: the stored runs say what to push again.
   */
  push(run: { readonly runId: string; readonly sessionId: string }): Promise<void>;
  /** Starts taking work, at most `concurrency` at once. `work` must not reject. */
  start(options: {
    concurrency: number;
    work: (run: { runId: string; sessionId: string }) => Promise<void>;
  }): Promise<void>;
  /** Stops taking work and resolves when what is in hand has ended. */
  stop(): Promise<void>;
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
