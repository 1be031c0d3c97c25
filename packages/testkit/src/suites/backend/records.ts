/** Records for the tests of a backend, with what a test does not care about filled in. */
import type {
  CallRecord,
  DeviceRecord,
  MessageRecord,
  RunRecord,
  SessionRecord,
  StoredMessage,
  UploadRecord,
  WaitRecord,
  Write,
} from "@leafmesh/core/storage";
import type { SessionEvent } from "@leafmesh/protocol";

export const T0 = 1_800_000_000_000;

export function aSession(id: string, changes: Partial<SessionRecord> = {}): SessionRecord {
  return { id, meshName: "test", entryPoint: "chat", createdAt: T0, lastActiveAt: T0, context: {}, ...changes };
}

export function aDevice(sessionId: string, id: string, changes: Partial<DeviceRecord> = {}): DeviceRecord {
  return { sessionId, id, sealedPushToken: `sealed-${id}`, ...changes };
}

export function aRun(id: string, sessionId: string, changes: Partial<RunRecord> = {}): RunRecord {
  return {
    id,
    sessionId,
    agent: "helper",
    status: "queued",
    input: "Is my battery OK?",
    createdAt: T0,
    deadlineAt: T0 + 3_600_000,
    version: 1,
    ...changes,
  };
}

export function aMessage(sessionId: string, content: string, runId = "run"): Omit<MessageRecord, "position"> {
  return { sessionId, runId, turn: 0, message: { role: "user", content }, createdAt: T0 };
}

export function aWait(id: string, run: Pick<RunRecord, "id" | "sessionId">, callIds: readonly string[]): WaitRecord {
  const { id: runId, sessionId } = run;
  return {
    id,
    runId,
    sessionId,
    agent: "helper",
    face: "device",
    turn: 1,
    state: "open",
    deadlineAt: T0 + 60_000,
    callIds,
  };
}

export function aCall(
  id: string,
  wait: Pick<WaitRecord, "id" | "runId" | "sessionId">,
  changes: Partial<CallRecord> = {},
): CallRecord {
  return {
    id,
    waitId: wait.id,
    runId: wait.runId,
    sessionId: wait.sessionId,
    agent: "helper",
    face: "device",
    turn: 1,
    position: 0,
    providerCallId: "call_0",
    tool: "device_action",
    arguments: { action: "read_battery" },
    state: "created",
    reached: "no",
    device: "phone-7",
    expiresAt: T0 + 60_000,
    createdAt: T0,
    version: 1,
    ...changes,
  };
}

export function anUpload(id: string, sessionId: string, changes: Partial<UploadRecord> = {}): UploadRecord {
  const sealedContent = new Uint8Array([1, 2, 3, 0, 255]);
  return {
    id,
    sessionId,
    callId: "call",
    name: "photo.jpg",
    mediaType: "image/jpeg",
    size: 5,
    sealedContent,
    createdAt: T0,
    ...changes,
  };
}

export function aWarning(message: string): SessionEvent {
  return { type: "warning", payload: { code: "test", message } };
}

export function appendEvent(sessionId: string, message: string, at = T0): Write {
  return { kind: "event.append", sessionId, at, event: aWarning(message) };
}

export function appendMessage(sessionId: string, content: string, runId?: string): Write {
  return { kind: "message.append", message: aMessage(sessionId, content, runId) };
}

export function createSession(id: string, changes?: Partial<SessionRecord>): Write {
  return { kind: "session.create", session: aSession(id, changes) };
}

export function createRun(id: string, sessionId: string, changes?: Partial<RunRecord>): Write {
  return { kind: "run.create", run: aRun(id, sessionId, changes) };
}

/** What every kind of tool call needs around it: a session, a run and an open wait with one call. */
export function createCall(names: { session: string; run: string; wait: string; call: string }): Write[] {
  const wait = aWait(names.wait, { id: names.run, sessionId: names.session }, [names.call]);
  return [
    createSession(names.session),
    createRun(names.run, names.session, { status: "running" }),
    { kind: "wait.create", wait },
    { kind: "call.create", call: aCall(names.call, wait) },
  ];
}

export function toolMessage(toolCallId: string, content: string, uploads?: readonly string[]): StoredMessage {
  return { role: "tool", toolCallId, content, ...(uploads ? { uploads } : {}) };
}
