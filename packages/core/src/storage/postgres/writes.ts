/** Each write of the contract inside the transaction that is open. */
import type { StoredEvent } from "@leafmesh/protocol";
import { type Kysely, sql } from "kysely";
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
} from "../embedded/rows.ts";
import type { LockedSessions } from "./locked-sessions.ts";
import { toMessageRow } from "./rows.ts";
import type { Tables } from "./tables.ts";

export type Refusal = Extract<CommitResult, { committed: false }>["reason"];

/** What a commit brings to listeners. */
export interface Announced {
  readonly events: StoredEvent[];
  readonly frames: StoredFrame[];
}

type Transaction = Kysely<Tables>;
type WriteOf<Kind extends Write["kind"]> = Extract<Write, { kind: Kind }>;

/**
 * Does one write; adds what it stored for listeners to `announced`. A taken id or a row that a foreign key does not find
 * shows as a violated constraint, which the caller turns into a refusal; everything else that a write may meet is
 * returned.
 */
export async function applyWrite(
  database: Transaction,
  write: Write,
  sessions: LockedSessions,
  announced: Announced,
): Promise<Refusal | undefined> {
  switch (write.kind) {
    case "session.create":
      await database
        .insertInto("sessions")
        .values({ ...toSessionRow(write.session), driver: null })
        .execute();
      sessions.created(write.session.id, write.session.endedAt !== undefined);
      return undefined;

    case "session.touch":
      return touchSession(database, write);

    case "session.end":
      return sessions.refuseUnlessLive(write.sessionId) ?? endSession(database, write, sessions);

    case "devices.replace":
      return sessions.refuseUnlessLive(write.sessionId) ?? replaceDevices(database, write);

    case "run.create": {
      const refusal = sessions.refuseUnlessLive(write.run.sessionId);
      if (!refusal) await database.insertInto("runs").values(toRunRow(write.run)).execute();
      return refusal;
    }

    case "run.update": {
      const change = { ...toRunColumns(write.patch), version: write.version + 1 };
      const { numUpdatedRows } = await database
        .updateTable("runs")
        .set(change)
        .where("id", "=", write.runId)
        .where("version", "=", write.version)
        .executeTakeFirst();
      return numUpdatedRows > 0n ? undefined : conflictOrMissing(database, "runs", write.runId);
    }

    case "message.append": {
      const { sessionId, runId } = write.message;
      if (!sessions.mayAddTo(sessionId, runId)) return "conflict";
      const position = sql<number>`(select coalesce(max(position), 0) + 1 from messages where session_id = ${sessionId})`;
      await database
        .insertInto("messages")
        .values({ ...toMessageRow(write.message), position })
        .execute();
      return undefined;
    }

    case "wait.create": {
      const refusal = sessions.refuseUnlessLive(write.wait.sessionId);
      if (!refusal) await database.insertInto("waits").values(toWaitRow(write.wait)).execute();
      return refusal;
    }

    case "wait.update": {
      const { waitId, from, to: state, answerDigest } = write;
      const { numUpdatedRows } = await database
        .updateTable("waits")
        .set({ state, ...(answerDigest === undefined ? {} : { answer_digest: answerDigest }) })
        .where("id", "=", waitId)
        .where("state", "=", from)
        .executeTakeFirst();
      return numUpdatedRows > 0n ? undefined : conflictOrMissing(database, "waits", waitId);
    }

    case "call.create": {
      const refusal = sessions.refuseUnlessLive(write.call.sessionId);
      if (!refusal) await database.insertInto("calls").values(toCallRow(write.call)).execute();
      return refusal;
    }

    case "call.update": {
      const change = { ...toCallColumns(write.patch), version: write.version + 1 };
      const { numUpdatedRows } = await database
        .updateTable("calls")
        .set(change)
        .where("id", "=", write.callId)
        .where("version", "=", write.version)
        .executeTakeFirst();
      return numUpdatedRows > 0n ? undefined : conflictOrMissing(database, "calls", write.callId);
    }

    case "offer.append":
      return appendOffer(database, write);

    case "event.append":
      announced.events.push(await appendEvent(database, write));
      return undefined;

    case "upload.create": {
      const refusal = sessions.refuseUnlessLive(write.upload.sessionId);
      if (!refusal) await database.insertInto("uploads").values(toUploadRow(write.upload)).execute();
      return refusal;
    }

    case "frame.append": {
      const frame = await appendFrame(database, write);
      if (frame) announced.frames.push(frame);
      return frame ? undefined : "missing";
    }

    case "tool.create":
      await database.insertInto("tools").values(toToolRow(write.tool)).execute();
      return undefined;

    case "tool.delete": {
      const { numDeletedRows } = await database.deleteFrom("tools").where("slug", "=", write.slug).executeTakeFirst();
      return numDeletedRows > 0n ? undefined : "missing";
    }

    case "callback.create":
      return createCallback(database, write);

    case "callback.update": {
      const change = { ...toCallbackColumns(write.patch), version: write.version + 1 };
      const { numUpdatedRows } = await database
        .updateTable("callbacks")
        .set(change)
        .where("id", "=", write.callbackId)
        .where("version", "=", write.version)
        .executeTakeFirst();
      return numUpdatedRows > 0n ? undefined : conflictOrMissing(database, "callbacks", write.callbackId);
    }

    case "idempotency.create":
      await database.insertInto("idempotency_keys").values(toIdempotencyRow(write.idempotency)).execute();
      return undefined;

    case "idempotency.forget":
      await database.deleteFrom("idempotency_keys").where("created_at", "<", wholeMs(write.before)).execute();
      return undefined;

    default:
      throw new TypeError(`unknown write: ${JSON.stringify(write satisfies never)}`);
  }
}

/** Why an update that names what it saw changed nothing. */
async function conflictOrMissing(
  database: Transaction,
  table: "runs" | "waits" | "calls" | "callbacks",
  id: string,
): Promise<Refusal> {
  const row = await database.selectFrom(table).select("id").where("id", "=", id).executeTakeFirst();
  return row ? "conflict" : "missing";
}

async function touchSession(database: Transaction, write: WriteOf<"session.touch">): Promise<Refusal | undefined> {
  const { numUpdatedRows } = await database
    .updateTable("sessions")
    .set({
      last_active_at: sql<number>`greatest(last_active_at, ${wholeMs(write.at)})`,
      ...(write.context === undefined ? {} : { context_json: JSON.stringify(write.context) }),
    })
    .where("id", "=", write.sessionId)
    .executeTakeFirst();
  return numUpdatedRows > 0n ? undefined : "missing";
}

async function endSession(
  database: Transaction,
  { sessionId, at }: WriteOf<"session.end">,
  sessions: LockedSessions,
): Promise<undefined> {
  const ended_at = wholeMs(at);
  await database.updateTable("sessions").set({ ended_at }).where("id", "=", sessionId).execute();
  await database.deleteFrom("devices").where("session_id", "=", sessionId).execute();
  await database.deleteFrom("uploads").where("session_id", "=", sessionId).execute();
  await database
    .updateTable("calls")
    .set({ token_hash: null, sealed_token: null })
    .where("session_id", "=", sessionId)
    .where((is) => is.or([is("token_hash", "is not", null), is("sealed_token", "is not", null)]))
    .execute();
  sessions.ended(sessionId);
}

async function replaceDevices(
  database: Transaction,
  { sessionId, devices }: WriteOf<"devices.replace">,
): Promise<undefined> {
  await database.deleteFrom("devices").where("session_id", "=", sessionId).execute();
  const rows = devices.map((device, position) => toDeviceRow(device, sessionId, position));
  if (rows.length > 0) await database.insertInto("devices").values(rows).execute();
}

async function appendOffer(database: Transaction, { offer }: WriteOf<"offer.append">): Promise<Refusal | undefined> {
  const call = await database
    .selectFrom("calls")
    .select("id")
    .where("id", "=", offer.callId)
    .forNoKeyUpdate()
    .executeTakeFirst();
  if (!call) return "missing";
  const position = sql<number>`(select coalesce(max(position), 0) + 1 from offers where call_id = ${offer.callId})`;
  await database
    .insertInto("offers")
    .values({ ...toOfferRow(offer), position })
    .execute();
  return undefined;
}

async function appendEvent(database: Transaction, write: WriteOf<"event.append">): Promise<StoredEvent> {
  const at = wholeMs(write.at);
  const { type, payload } = write.event;
  const { seq } = await database
    .insertInto("events")
    .values({
      session_id: write.sessionId,
      seq: sql<number>`(select coalesce(max(seq), 0) + 1 from events where session_id = ${write.sessionId})`,
      at,
      type,
      payload_json: JSON.stringify(payload),
    })
    .returning("seq")
    .executeTakeFirstOrThrow();
  return { ...write.event, seq, session_id: write.sessionId, ts: at / 1000 };
}

/** `undefined`: there is no such run. */
async function appendFrame(
  database: Transaction,
  { runId, at, frame }: WriteOf<"frame.append">,
): Promise<StoredFrame | undefined> {
  const { type, data } = frame;
  const storedAt = wholeMs(at);
  const run = await database
    .selectFrom("runs")
    .select("id")
    .where("id", "=", runId)
    .forNoKeyUpdate()
    .executeTakeFirst();
  if (!run) return undefined;
  const { seq } = await database
    .insertInto("frames")
    .values({
      run_id: runId,
      seq: sql<number>`(select coalesce(max(seq), 0) + 1 from frames where run_id = ${runId})`,
      at: storedAt,
      type,
      data_json: JSON.stringify(data),
    })
    .returning("seq")
    .executeTakeFirstOrThrow();
  return { type, data, runId, seq, at: storedAt };
}

async function createCallback(
  database: Transaction,
  { callback }: WriteOf<"callback.create">,
): Promise<Refusal | undefined> {
  const row = toCallbackRow(callback);
  if (callback.event) {
    const run = await database.selectFrom("runs").select("id").where("id", "=", row.run_id).executeTakeFirst();
    if (!run) return "missing";
    await database
      .insertInto("callbacks")
      .values({ ...row, frame_seq: 0 })
      .execute();
    return undefined;
  }
  const last = await database
    .selectFrom("frames")
    .select((select) => select.fn.max("seq").as("seq"))
    .where("run_id", "=", row.run_id)
    .executeTakeFirst();
  if (!last?.seq) return "missing";
  await database
    .insertInto("callbacks")
    .values({ ...row, frame_seq: last.seq })
    .execute();
  return undefined;
}
