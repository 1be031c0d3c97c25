/** The contract of a backend in the plainest form: arrays in memory, searched from front to back. */
import type {
  CallRecord,
  CommitResult,
  DeviceRecord,
  MessageRecord,
  OfferRecord,
  RunRecord,
  SessionRecord,
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
      if (has(state.sessions, write.session.id)) return "exists";
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
  }
}
