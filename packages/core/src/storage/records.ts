/** What is stored, as records. Times are milliseconds since the epoch. */
import type { Capability, DeviceTool, Outcome, RunError, RunStatus, SessionEvent } from "@leafmesh/protocol";

export interface SessionRecord {
  readonly id: string;
  readonly meshName: string;
  readonly entryPoint: string;
  /** Name of the API key that created it; `undefined` on a mesh without keys. */
  readonly owner?: string | undefined;
  readonly createdAt: number;
  readonly lastActiveAt: number;
  readonly endedAt?: number | undefined;
  /** The app's own name for the conversation: of an owner's sessions that have not ended, one has it. */
  readonly key?: string | undefined;
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

/** How a run of `POST /runs` was asked for. */
export interface RunOptions {
  /** Whether the run waits for the client when the model calls a tool that the client executes, or ends. */
  readonly clientTools: "end" | "suspend";
  readonly clientToolTimeoutMs: number;
  /** Where notices of the run go; sealed before it gets here. */
  readonly sealedCallbackUrl?: string | undefined;
  /** The run that this one repeats. */
  readonly replayOf?: string | undefined;
}

/** Why a run ended without success, in the words of `POST /runs`. */
export interface RunFailure {
  readonly class: string;
  readonly detail: string;
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
  /** Only of runs that were submitted through `POST /runs`: these have frames. */
  readonly options?: RunOptions | undefined;
  /** The tools of the client's device that were in force when the run was submitted. */
  readonly deviceTools?: readonly DeviceTool[] | undefined;
  readonly output?: Readonly<Record<string, unknown>> | undefined;
  readonly failure?: RunFailure | undefined;
  /** Raised by one with every update; an update names the version it saw. */
  readonly version: number;
}
/** What an update changes. A name that is left out stays as it is; one whose value is `undefined` is cleared. */
export type RunPatch = Partial<
  Pick<RunRecord, "status" | "reply" | "error" | "startedAt" | "finishedAt" | "output" | "failure">
>;

/**
 * Where the answer of a call comes from: a device in a room, a client on the session's stream, the client that submitted
 * the run, or a person who approves what the mesh then executes.
 */
export type CallFace = "device" | "bridge" | "client" | "approval";

/** A group of calls that a run waits for: of the face `client`, all that one turn asks for; of the others, always one. */
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
  /** Of the answer that completed the wait, to recognise its repeat. */
  readonly answerDigest?: string | undefined;
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
  /** SHA-256 of the token that answers the call. */
  readonly tokenHash?: string | undefined;
  /** The token itself, sealed, for the frames that bring it to an executor; cleared when the call is settled. */
  readonly sealedToken?: string | undefined;
  readonly argumentsDigest?: string | undefined;
  /** Name of the API key that brought the result. */
  readonly answeredBy?: string | undefined;
  /** A result that came after the call had ended without one: kept, and never part of the history. */
  readonly late?: LateResult | undefined;
  readonly createdAt: number;
  readonly settledAt?: number | undefined;
  readonly usedAt?: number | undefined;
  readonly version: number;
}
export interface LateResult {
  readonly at: number;
  readonly digest: string;
  readonly result: unknown;
  /** The run whose model was told of it. */
  readonly notedIn?: string | undefined;
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
    | "sealedToken"
    | "answeredBy"
    | "late"
    | "settledAt"
    | "usedAt"
  >
>;

/** One attempt to bring a call to its executor. Append-only: answers "was it sent?". */
export interface OfferRecord {
  readonly callId: string;
  readonly channel: "ring" | "task" | "stream" | "frame";
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

/** One frame of a run's stream, to be stored. */
export interface RunFrame {
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** `seq` is gap-free within its run, from 1. */
export interface StoredFrame extends RunFrame {
  readonly runId: string;
  readonly seq: number;
  readonly at: number;
}

/** A tool that was declared through the API. */
export interface ToolRecord {
  readonly slug: string;
  readonly kind: string;
  /** Name of the API key that declared it. */
  readonly owner?: string | undefined;
  readonly clientOwned: boolean;
  readonly effect: "read" | "write";
  readonly description: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
  readonly config: Readonly<Record<string, unknown>>;
  readonly createdAt: number;
}

/** Events of a conversation that the app is told about in a notice. */
export type NoticedEvent = Extract<SessionEvent, { readonly type: "device.token_dead" }>;

/** A notice to the address that a run was submitted with, or to the mesh's own: sent until it arrives or is given up. */
export interface CallbackRecord {
  readonly id: string;
  readonly runId: string;
  /** The frame that the notice is about; 0 when it is about an event. */
  readonly frameSeq: number;
  /** The event that the notice is about, which happened in the run. */
  readonly event?: NoticedEvent | undefined;
  /** `undefined`: to `server.callbacks.url`, wherever that leads when it is sent. */
  readonly sealedUrl?: string | undefined;
  readonly state: "waiting" | "delivered" | "given_up";
  readonly attempts: number;
  /** When to try next. */
  readonly dueAt: number;
  readonly lastError?: string | undefined;
  readonly createdAt: number;
  readonly finishedAt?: number | undefined;
  readonly version: number;
}
/** As {@link RunPatch}. */
export type CallbackPatch = Partial<Pick<CallbackRecord, "state" | "attempts" | "dueAt" | "lastError" | "finishedAt">>;

/** What a request with an idempotency key became. */
export interface IdempotencyRecord {
  /** Name of the API key; `undefined` on a mesh without keys. */
  readonly owner?: string | undefined;
  /** Unique among its owner's. */
  readonly key: string;
  readonly requestDigest: string;
  readonly runId: string;
  readonly createdAt: number;
}

/** Who follows a session's stream, in any process. Streams of a process that died are left out after 15 s at most. */
export interface SessionPresence {
  readonly streams: number;
  /** Of these, the ones that say that they execute calls. */
  readonly executors: number;
  /** Whether a stream of the session ever said so; lasts. */
  readonly executorDeclared: boolean;
  /** When the newest stream, and the newest executor, left that did; known for a minute at least. */
  readonly streamLeftAt?: number | undefined;
  readonly executorLeftAt?: number | undefined;
}
