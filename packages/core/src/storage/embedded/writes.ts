import type { StoredEvent } from "@leafmesh/protocol";
import type { CommitResult, StoredFrame, Write } from "../contract.ts";
import {
  toCallbackColumns,
  toCallbackRow,
  toCallColumns,
  toCallRow,
  toDeviceRow,
  toIdempotencyRow,
  toMessageRow,
  toOfferRow,
  toRunColumns,
  toRunRow,
  toSessionRow,
  toToolRow,
  toUploadRow,
  toWaitRow,
  wholeMs,
} from "./rows.ts";
import type { Prepare } from "./statements.ts";
import { prepareWrites } from "./write-statements.ts";

export type Refusal = Extract<CommitResult, { committed: false }>["reason"];

/** What a commit brings to listeners. */
export interface Announced {
  readonly events: StoredEvent[];
  readonly frames: StoredFrame[];
}

/** Does one write inside the transaction that is open; adds what it stored for listeners to `announced`. */
export type ApplyWrite = (write: Write, announced: Announced) => Refusal | undefined;

/**
 * A taken id or a row that a foreign key does not find shows as a violated constraint, which the caller turns into a
 * refusal; everything else that a write may meet is returned.
 */
export function createApplyWrite(prepare: Prepare): ApplyWrite {
  const statements = prepareWrites(prepare);

  /** A session that has ended takes no new work and no new secrets; `undefined` means that it may. */
  const refuseUnlessLive = (sessionId: string): Refusal | undefined => {
    const session = statements.sessionEnd.get({ id: sessionId });
    if (!session) return "missing";
    return session.ended_at === null ? undefined : "conflict";
  };

  const appendEvent = (write: Extract<Write, { kind: "event.append" }>): StoredEvent => {
    const at = wholeMs(write.at);
    const { type, payload } = write.event;
    const row = statements.insertEvent.get({
      session_id: write.sessionId,
      at,
      type,
      payload_json: JSON.stringify(payload),
    });
    if (!row) throw new Error("an inserted event gave back no sequence number");
    return { ...write.event, seq: row.seq, session_id: write.sessionId, ts: at / 1000 };
  };

  const appendFrame = ({ runId, at, frame }: Extract<Write, { kind: "frame.append" }>): StoredFrame => {
    const { type, data } = frame;
    const storedAt = wholeMs(at);
    const row = statements.insertFrame.get({ run_id: runId, at: storedAt, type, data_json: JSON.stringify(data) });
    if (!row) throw new Error("an inserted frame gave back no sequence number");
    return { type, data, runId, seq: row.seq, at: storedAt };
  };

  return function applyWrite(write, { events, frames }) {
    switch (write.kind) {
      case "session.create":
        statements.insertSession.run(toSessionRow(write.session));
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

      case "message.append":
        statements.insertMessage.run(toMessageRow(write.message));
        return undefined;

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

      case "event.append":
        events.push(appendEvent(write));
        return undefined;

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
        const frame_seq = statements.lastFrame.get({ run_id: row.run_id })?.seq ?? undefined;
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
}
