import type { StoredEvent } from "@leafmesh/protocol";
import type { CommitResult, StoredFrame, Write } from "../contract.ts";
import {
  toCallbackColumns,
  toCallbackRow,
  toCallColumns,
  toCallRow,
  toDeviceRow,
  toIdempotencyRow,
  toOfferRow,
  toRunColumns,
  toRunRow,
  toSessionRow,
  toToolRow,
  toUploadRow,
  toWaitRow,
  wholeMs,
} from "./rows.ts";
import { createSessionHeads, type SessionHead } from "./session-heads.ts";
import { type LoggedEvent, type LoggedMessage, toLogRow } from "./session-log.ts";
import type { Prepare } from "./statements.ts";
import { prepareWrites } from "./write-statements.ts";

export type Refusal = Extract<CommitResult, { committed: false }>["reason"];

/** What a commit brings to listeners. */
export interface Announced {
  readonly events: StoredEvent[];
  readonly frames: StoredFrame[];
}

/** Does the writes of commits inside the transaction that is open. */
export interface Writer {
  /** Does one write; adds what it brings to listeners to `announced`. */
  apply(write: Write, announced: Announced): Refusal | undefined;
  /** To be called after the last write of each commit: what it adds to a session is stored together. */
  endCommit(): void;
  /** To be called when writes were undone. */
  undone(): void;
}

/** What a commit under way adds to a session's log. */
interface OpenLogRow {
  readonly sessionId: string;
  readonly head: SessionHead;
  readonly events: LoggedEvent[];
  readonly messages: LoggedMessage[];
}

/**
 * A taken id or a row that a foreign key does not find shows as a violated constraint, which the caller turns into a
 * refusal; everything else that a write may meet is returned.
 */
export function createWriter(prepare: Prepare): Writer {
  const statements = prepareWrites(prepare);
  const heads = createSessionHeads((id) => {
    const row = statements.sessionHead.get({ id });
    return row && { hasEnded: row.ended_at !== null, lastSeq: row.last_seq ?? 0, lastPosition: row.last_position ?? 0 };
  });
  let openRows: OpenLogRow[] = [];

  /** A session that has ended takes no new work and no new secrets; `undefined` means that it may. */
  const refuseUnlessLive = (sessionId: string): Refusal | undefined => {
    const head = heads.of(sessionId);
    if (!head) return "missing";
    return head.hasEnded ? "conflict" : undefined;
  };

  const openRow = (sessionId: string): OpenLogRow | undefined => {
    const open = openRows.find((row) => row.sessionId === sessionId);
    if (open) return open;
    const head = heads.of(sessionId);
    if (!head) return undefined;
    const row = { sessionId, head, events: [], messages: [] };
    openRows.push(row);
    return row;
  };

  const appendEvent = (
    { at, event }: Extract<Write, { kind: "event.append" }>,
    { sessionId, head, events }: OpenLogRow,
  ): StoredEvent => {
    const storedAt = wholeMs(at);
    events.push({ at: storedAt, type: event.type, payload: event.payload } as LoggedEvent);
    return { ...event, seq: ++head.lastSeq, session_id: sessionId, ts: storedAt / 1000 };
  };

  const appendMessage = ({ message }: Extract<Write, { kind: "message.append" }>, { head, messages }: OpenLogRow) => {
    const { runId, turn, agent, createdAt } = message;
    head.lastPosition++;
    messages.push({ runId, turn, agent, message: message.message, createdAt: wholeMs(createdAt) });
  };

  const appendFrame = ({ runId, at, frame }: Extract<Write, { kind: "frame.append" }>): StoredFrame => {
    const { type, data } = frame;
    const storedAt = wholeMs(at);
    const row = statements.insertFrame.get({ run_id: runId, at: storedAt, type, data_json: JSON.stringify(data) });
    if (!row) throw new Error("an inserted frame gave back no sequence number");
    return { type, data, runId, seq: row.seq, at: storedAt };
  };

  const apply = (write: Write, { events, frames }: Announced): Refusal | undefined => {
    switch (write.kind) {
      case "session.create":
        statements.insertSession.run(toSessionRow(write.session));
        heads.created(write.session.id);
        return undefined;

      case "session.touch": {
        const context_json = write.context === undefined ? null : JSON.stringify(write.context);
        const touched = statements.touchSession.run({ id: write.sessionId, at: wholeMs(write.at), context_json });
        return touched === 0 ? "missing" : undefined;
      }

      case "session.end":
        if (statements.endSession.run({ id: write.sessionId, at: wholeMs(write.at) }) === 0) {
          return refuseUnlessLive(write.sessionId);
        }
        heads.ended(write.sessionId);
        statements.deleteDevices.run({ session_id: write.sessionId });
        statements.deleteUploads.run({ session_id: write.sessionId });
        statements.forgetTokens.run({ session_id: write.sessionId });
        return undefined;

      case "devices.replace": {
        const refusal = refuseUnlessLive(write.sessionId);
        if (refusal) return refusal;
        statements.deleteDevices.run({ session_id: write.sessionId });
        for (const [position, device] of write.devices.entries()) {
          statements.insertDevice.run(toDeviceRow(device, write.sessionId, position));
        }
        return undefined;
      }

      case "run.create": {
        const refusal = refuseUnlessLive(write.run.sessionId);
        if (!refusal) statements.insertRun.run(toRunRow(write.run));
        return refusal;
      }

      case "run.update": {
        const { runId: id, version } = write;
        const changed = statements.updateRun({ ...toRunColumns(write.patch), id, seen: version, version: version + 1 });
        return changed > 0 ? undefined : statements.runExists.get({ id }) ? "conflict" : "missing";
      }

      case "message.append": {
        const row = openRow(write.message.sessionId);
        if (!row) return "missing";
        appendMessage(write, row);
        return undefined;
      }

      case "wait.create": {
        const refusal = refuseUnlessLive(write.wait.sessionId);
        if (!refusal) statements.insertWait.run(toWaitRow(write.wait));
        return refusal;
      }

      case "wait.update": {
        const { waitId: id, from, to, answerDigest = null } = write;
        if (statements.moveWait.run({ id, from, to, answer_digest: answerDigest }) > 0) return undefined;
        return statements.waitExists.get({ id }) ? "conflict" : "missing";
      }

      case "call.create": {
        const refusal = refuseUnlessLive(write.call.sessionId);
        if (!refusal) statements.insertCall.run(toCallRow(write.call));
        return refusal;
      }

      case "call.update": {
        const { callId: id, version } = write;
        const changed = statements.updateCall({
          ...toCallColumns(write.patch),
          id,
          seen: version,
          version: version + 1,
        });
        return changed > 0 ? undefined : statements.callExists.get({ id }) ? "conflict" : "missing";
      }

      case "offer.append":
        statements.insertOffer.run(toOfferRow(write.offer));
        return undefined;

      case "event.append": {
        const row = openRow(write.sessionId);
        if (!row) return "missing";
        events.push(appendEvent(write, row));
        return undefined;
      }

      case "upload.create": {
        const refusal = refuseUnlessLive(write.upload.sessionId);
        if (!refusal) statements.insertUpload.run(toUploadRow(write.upload));
        return refusal;
      }

      case "frame.append":
        frames.push(appendFrame(write));
        return undefined;

      case "tool.create":
        statements.insertTool.run(toToolRow(write.tool));
        return undefined;

      case "tool.delete":
        return statements.deleteTool.run({ slug: write.slug }) > 0 ? undefined : "missing";

      case "callback.create": {
        const row = toCallbackRow(write.callback);
        const isOfEvent = write.callback.event !== undefined;
        if (isOfEvent && !statements.runExists.get({ id: row.run_id })) return "missing";
        const frame_seq = isOfEvent ? 0 : (statements.lastFrame.get({ run_id: row.run_id })?.seq ?? undefined);
        if (frame_seq === undefined) return "missing";
        statements.insertCallback.run({ ...row, frame_seq });
        return undefined;
      }

      case "callback.update": {
        const { callbackId: id, version } = write;
        const columns = toCallbackColumns(write.patch);
        const changed = statements.updateCallback({ ...columns, id, seen: version, version: version + 1 });
        return changed > 0 ? undefined : statements.callbackExists.get({ id }) ? "conflict" : "missing";
      }

      case "idempotency.create":
        statements.insertIdempotency.run(toIdempotencyRow(write.idempotency));
        return undefined;

      case "idempotency.forget":
        statements.forgetIdempotency.run({ before: wholeMs(write.before) });
        return undefined;

      default:
        throw new TypeError(`unknown write: ${JSON.stringify(write satisfies never)}`);
    }
  };

  return {
    apply,
    endCommit() {
      if (openRows.length === 0) return;
      const ending = openRows;
      openRows = [];
      for (const { sessionId, head, events, messages } of ending) {
        statements.insertLog.run(toLogRow(sessionId, head, events, messages));
      }
    },
    undone() {
      openRows = [];
      heads.forget();
    },
  };
}
