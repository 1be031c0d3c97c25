/** The contract of a backend in the plainest form: arrays in memory, searched from front to back. */
import type {
  CallbackRecord,
  CallRecord,
  CommitResult,
  DeviceRecord,
  IdempotencyRecord,
  MessageRecord,
  OfferRecord,
  RunRecord,
  SessionRecord,
  StoredFrame,
  ToolRecord,
  UploadRecord,
  WaitRecord,
  Write,
} from "@leafmesh/core/storage";
import type { StoredEvent } from "@leafmesh/protocol";

type Refusal = "exists" | "missing" | "conflict";
type Changeable<Record> = { -readonly [Key in keyof Record]: Record[Key] };

interface State {
  sessions: Changeable<SessionRecord>[];
  devices: DeviceRecord[];
  messages: MessageRecord[];
  runs: Changeable<RunRecord>[];
  waits: Changeable<WaitRecord>[];
  calls: Changeable<CallRecord>[];
  offers: OfferRecord[];
  events: StoredEvent[];
  uploads: UploadRecord[];
  frames: StoredFrame[];
  tools: ToolRecord[];
  callbacks: Changeable<CallbackRecord>[];
  idempotency: IdempotencyRecord[];
}

export interface BackendModel {
  readonly state: State;
  commit(writes: readonly Write[]): CommitResult;
}

export function createBackendModel(): BackendModel {
  let state: State = {
    sessions: [],
    devices: [],
    messages: [],
    runs: [],
    waits: [],
    calls: [],
    offers: [],
    events: [],
    uploads: [],
    frames: [],
    tools: [],
    callbacks: [],
    idempotency: [],
  };

  return {
    get state() {
      return state;
    },
    commit(writes) {
      const before = structuredClone(state);
      const events: StoredEvent[] = [];
      for (const [at, write] of writes.entries()) {
        const reason = apply(state, write, events);
        if (reason) {
          state = before;
          return { committed: false, at, reason };
        }
      }
      return { committed: true, events };
    },
  };
}

function has(records: readonly { readonly id: string }[], id: string): boolean {
  return records.some((record) => record.id === id);
}

function liveSession(state: State, id: string): Refusal | undefined {
  const session = state.sessions.find((candidate) => candidate.id === id);
  if (!session) return "missing";
  return session.endedAt === undefined ? undefined : "conflict";
}

function holdsKey(state: State, { key, owner }: SessionRecord): boolean {
  if (key === undefined) return false;
  return state.sessions.some(
    (session) => session.endedAt === undefined && session.key === key && session.owner === owner,
  );
}

function framesOf(state: State, runId: string): readonly StoredFrame[] {
  return state.frames.filter((frame) => frame.runId === runId);
}

function update(
  records: readonly { readonly id: string; version: number }[],
  id: string,
  version: number,
  patch: object,
): Refusal | undefined {
  const record = records.find((candidate) => candidate.id === id);
  if (!record) return "missing";
  if (record.version !== version) return "conflict";
  Object.assign(record, patch, { version: version + 1 });
  return undefined;
}

function apply(state: State, write: Write, events: StoredEvent[]): Refusal | undefined {
  switch (write.kind) {
    case "session.create":
      if (has(state.sessions, write.session.id) || holdsKey(state, write.session)) return "exists";
      state.sessions.push({ ...write.session });
      return undefined;
    case "session.touch": {
      const session = state.sessions.find((candidate) => candidate.id === write.sessionId);
      if (!session) return "missing";
      session.lastActiveAt = Math.max(session.lastActiveAt, write.at);
      if (write.context) session.context = write.context;
      return undefined;
    }
    case "session.end": {
      const session = state.sessions.find((candidate) => candidate.id === write.sessionId);
      if (!session || session.endedAt !== undefined) return session ? "conflict" : "missing";
      session.endedAt = write.at;
      state.devices = state.devices.filter((device) => device.sessionId !== session.id);
      state.uploads = state.uploads.filter((upload) => upload.sessionId !== session.id);
      for (const call of state.calls) {
        if (call.sessionId === session.id) Object.assign(call, { tokenHash: undefined, sealedToken: undefined });
      }
      return undefined;
    }
    case "devices.replace": {
      const refusal = liveSession(state, write.sessionId);
      if (refusal) return refusal;
      if (new Set(write.devices.map((device) => device.id)).size < write.devices.length) return "exists";
      state.devices = state.devices.filter((device) => device.sessionId !== write.sessionId);
      state.devices.push(...write.devices);
      return undefined;
    }
    case "run.create": {
      const refusal = liveSession(state, write.run.sessionId);
      if (refusal) return refusal;
      if (has(state.runs, write.run.id)) return "exists";
      state.runs.push({ ...write.run });
      return undefined;
    }
    case "run.update":
      return update(state.runs, write.runId, write.version, write.patch);
    case "message.append": {
      const { sessionId } = write.message;
      if (!has(state.sessions, sessionId)) return "missing";
      const position = state.messages.filter((message) => message.sessionId === sessionId).length + 1;
      state.messages.push({ ...write.message, position });
      return undefined;
    }
    case "wait.create": {
      const refusal = liveSession(state, write.wait.sessionId);
      if (refusal) return refusal;
      if (has(state.waits, write.wait.id)) return "exists";
      if (!has(state.runs, write.wait.runId)) return "missing";
      state.waits.push({ ...write.wait });
      return undefined;
    }
    case "wait.update": {
      const wait = state.waits.find((candidate) => candidate.id === write.waitId);
      if (!wait) return "missing";
      if (wait.state !== write.from) return "conflict";
      wait.state = write.to;
      if (write.answerDigest !== undefined) wait.answerDigest = write.answerDigest;
      return undefined;
    }
    case "call.create": {
      const refusal = liveSession(state, write.call.sessionId);
      if (refusal) return refusal;
      if (has(state.calls, write.call.id)) return "exists";
      if (!has(state.waits, write.call.waitId)) return "missing";
      state.calls.push({ ...write.call });
      return undefined;
    }
    case "call.update":
      return update(state.calls, write.callId, write.version, write.patch);
    case "offer.append":
      if (!has(state.calls, write.offer.callId)) return "missing";
      state.offers.push(write.offer);
      return undefined;
    case "event.append": {
      const { sessionId, at, event } = write;
      if (!has(state.sessions, sessionId)) return "missing";
      const seq = state.events.filter((stored) => stored.session_id === sessionId).length + 1;
      const stored = { ...event, seq, session_id: sessionId, ts: at / 1000 };
      state.events.push(stored);
      events.push(stored);
      return undefined;
    }
    case "upload.create": {
      const refusal = liveSession(state, write.upload.sessionId);
      if (refusal) return refusal;
      if (has(state.uploads, write.upload.id)) return "exists";
      state.uploads.push(write.upload);
      return undefined;
    }
    case "frame.append": {
      const { runId, at, frame } = write;
      if (!has(state.runs, runId)) return "missing";
      state.frames.push({ ...frame, runId, at, seq: framesOf(state, runId).length + 1 });
      return undefined;
    }
    case "tool.create":
      if (state.tools.some((tool) => tool.slug === write.tool.slug)) return "exists";
      state.tools.push(write.tool);
      return undefined;
    case "tool.delete": {
      const kept = state.tools.filter((tool) => tool.slug !== write.slug);
      if (kept.length === state.tools.length) return "missing";
      state.tools = kept;
      return undefined;
    }
    case "callback.create": {
      const { event, runId } = write.callback;
      const frameSeq = event ? 0 : framesOf(state, runId).length;
      if (event ? !has(state.runs, runId) : frameSeq === 0) return "missing";
      if (has(state.callbacks, write.callback.id)) return "exists";
      state.callbacks.push({ ...write.callback, frameSeq });
      return undefined;
    }
    case "callback.update":
      return update(state.callbacks, write.callbackId, write.version, write.patch);
    case "idempotency.create": {
      const { owner, key } = write.idempotency;
      if (state.idempotency.some((other) => other.owner === owner && other.key === key)) return "exists";
      state.idempotency.push(write.idempotency);
      return undefined;
    }
    case "idempotency.forget":
      state.idempotency = state.idempotency.filter((record) => record.createdAt >= write.before);
      return undefined;
  }
}
