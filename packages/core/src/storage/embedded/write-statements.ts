/** The queries behind each write of the contract. */
import { sql } from "kysely";
import { builder } from "./compile.ts";
import type { Prepare, Statement } from "./statements.ts";
import type {
  CallbackRow,
  CallRow,
  DeviceRow,
  FrameRow,
  IdempotencyRow,
  OfferRow,
  RunRow,
  SessionLogRow,
  SessionRow,
  ToolRow,
  UploadRow,
  WaitRow,
} from "./tables.ts";

export function prepareWrites(prepare: Prepare) {
  return {
    insertSession: prepare((row: SessionRow) =>
      builder.insertInto("sessions").values({
        id: row.id,
        mesh_name: row.mesh_name,
        entry_point: row.entry_point,
        owner: row.owner,
        created_at: row.created_at,
        last_active_at: row.last_active_at,
        ended_at: row.ended_at,
        context_json: row.context_json,
        session_key: row.session_key,
        executor_declared: row.executor_declared,
      }),
    ),
    sessionHead: prepare((row: { id: string }) => {
      const newest = builder
        .selectFrom("session_log")
        .where("session_id", "=", row.id)
        .orderBy("last_seq", "desc")
        .orderBy("last_position", "desc")
        .limit(1);
      return builder
        .selectFrom("sessions")
        .select([
          "ended_at",
          newest.select("last_seq").as("last_seq"),
          newest.select("last_position").as("last_position"),
        ])
        .where("id", "=", row.id);
    }),
    touchSession: prepare((row: { id: string; at: number; context_json: string | null }) =>
      builder
        .updateTable("sessions")
        .set({
          last_active_at: sql<number>`max(last_active_at, ${row.at})`,
          context_json: sql<string>`coalesce(${row.context_json}, context_json)`,
        })
        .where("id", "=", row.id),
    ),
    endSession: prepare((row: { id: string; at: number }) =>
      builder.updateTable("sessions").set({ ended_at: row.at }).where("id", "=", row.id).where("ended_at", "is", null),
    ),

    deleteDevices: prepare((row: { session_id: string }) =>
      builder.deleteFrom("devices").where("session_id", "=", row.session_id),
    ),
    insertDevice: prepare((row: DeviceRow) =>
      builder.insertInto("devices").values({
        session_id: row.session_id,
        position: row.position,
        id: row.id,
        name: row.name,
        platform: row.platform,
        capabilities_json: row.capabilities_json,
        sealed_push_token: row.sealed_push_token,
      }),
    ),

    insertRun: prepare((row: RunRow) =>
      builder.insertInto("runs").values({
        id: row.id,
        session_id: row.session_id,
        agent: row.agent,
        status: row.status,
        input: row.input,
        reply: row.reply,
        error_json: row.error_json,
        created_at: row.created_at,
        started_at: row.started_at,
        finished_at: row.finished_at,
        deadline_at: row.deadline_at,
        options_json: row.options_json,
        device_tools_json: row.device_tools_json,
        output_json: row.output_json,
        failure_json: row.failure_json,
        version: row.version,
      }),
    ),
    updateRun: byColumns<RunRow>((columns) =>
      prepare((row: RunRow & { seen: number }) =>
        builder
          .updateTable("runs")
          .set(pick<RunRow>(row, columns))
          .where("id", "=", row.id)
          .where("version", "=", row.seen),
      ),
    ),
    runExists: prepare((row: { id: string }) => builder.selectFrom("runs").select("id").where("id", "=", row.id)),

    insertWait: prepare((row: WaitRow) =>
      builder.insertInto("waits").values({
        id: row.id,
        run_id: row.run_id,
        session_id: row.session_id,
        agent: row.agent,
        face: row.face,
        turn: row.turn,
        state: row.state,
        deadline_at: row.deadline_at,
        call_ids_json: row.call_ids_json,
        answer_digest: row.answer_digest,
      }),
    ),
    moveWait: prepare(
      (row: { id: string; from: WaitRow["state"]; to: WaitRow["state"]; answer_digest: string | null }) =>
        builder
          .updateTable("waits")
          .set({ state: row.to, answer_digest: sql<string | null>`coalesce(${row.answer_digest}, answer_digest)` })
          .where("id", "=", row.id)
          .where("state", "=", row.from),
    ),
    waitExists: prepare((row: { id: string }) => builder.selectFrom("waits").select("id").where("id", "=", row.id)),

    insertCall: prepare((row: CallRow) =>
      builder.insertInto("calls").values({
        id: row.id,
        wait_id: row.wait_id,
        session_id: row.session_id,
        run_id: row.run_id,
        agent: row.agent,
        face: row.face,
        turn: row.turn,
        position: row.position,
        provider_call_id: row.provider_call_id,
        tool: row.tool,
        arguments_json: row.arguments_json,
        state: row.state,
        reached: row.reached,
        device: row.device,
        room_json: row.room_json,
        expires_at: row.expires_at,
        result_json: row.result_json,
        outcome: row.outcome,
        result_digest: row.result_digest,
        token_hash: row.token_hash,
        sealed_token: row.sealed_token,
        arguments_digest: row.arguments_digest,
        answered_by: row.answered_by,
        late_json: row.late_json,
        created_at: row.created_at,
        settled_at: row.settled_at,
        used_at: row.used_at,
        version: row.version,
      }),
    ),
    updateCall: byColumns<CallRow>((columns) =>
      prepare((row: CallRow & { seen: number }) =>
        builder
          .updateTable("calls")
          .set(pick<CallRow>(row, columns))
          .where("id", "=", row.id)
          .where("version", "=", row.seen),
      ),
    ),
    callExists: prepare((row: { id: string }) => builder.selectFrom("calls").select("id").where("id", "=", row.id)),

    insertOffer: prepare((row: Omit<OfferRow, "position">) =>
      builder.insertInto("offers").values({
        call_id: row.call_id,
        position: sql<number>`(select coalesce(max(position), 0) + 1 from offers where call_id = ${row.call_id})`,
        channel: row.channel,
        via: row.via,
        at: row.at,
        receipt: row.receipt,
        error: row.error,
      }),
    ),

    insertLog: prepare((row: SessionLogRow) =>
      builder.insertInto("session_log").values({
        session_id: row.session_id,
        last_seq: row.last_seq,
        last_position: row.last_position,
        events_json: row.events_json,
        messages_json: row.messages_json,
      }),
    ),

    insertUpload: prepare((row: UploadRow) =>
      builder.insertInto("uploads").values({
        id: row.id,
        session_id: row.session_id,
        call_id: row.call_id,
        name: row.name,
        media_type: row.media_type,
        size: row.size,
        sealed_content: row.sealed_content,
        created_at: row.created_at,
      }),
    ),
    deleteUploads: prepare((row: { session_id: string }) =>
      builder.deleteFrom("uploads").where("session_id", "=", row.session_id),
    ),
    forgetTokens: prepare((row: { session_id: string }) =>
      builder
        .updateTable("calls")
        .set({ token_hash: null, sealed_token: null })
        .where("session_id", "=", row.session_id)
        .where("token_hash", "is not", null),
    ),

    insertFrame: prepare((row: Omit<FrameRow, "seq">) =>
      builder
        .insertInto("frames")
        .values({
          run_id: row.run_id,
          seq: sql<number>`(select coalesce(max(seq), 0) + 1 from frames where run_id = ${row.run_id})`,
          at: row.at,
          type: row.type,
          data_json: row.data_json,
        })
        .returning("seq"),
    ),

    insertTool: prepare((row: ToolRow) =>
      builder.insertInto("tools").values({
        slug: row.slug,
        kind: row.kind,
        owner: row.owner,
        client_owned: row.client_owned,
        effect: row.effect,
        description: row.description,
        input_schema_json: row.input_schema_json,
        config_json: row.config_json,
        created_at: row.created_at,
      }),
    ),
    deleteTool: prepare((row: { slug: string }) => builder.deleteFrom("tools").where("slug", "=", row.slug)),

    lastFrame: prepare((row: { run_id: string }) =>
      builder.selectFrom("frames").select(sql<number | null>`max(seq)`.as("seq")).where("run_id", "=", row.run_id),
    ),
    insertCallback: prepare((row: CallbackRow) =>
      builder.insertInto("callbacks").values({
        id: row.id,
        run_id: row.run_id,
        frame_seq: row.frame_seq,
        sealed_url: row.sealed_url,
        event_json: row.event_json,
        state: row.state,
        attempts: row.attempts,
        due_at: row.due_at,
        last_error: row.last_error,
        created_at: row.created_at,
        finished_at: row.finished_at,
        version: row.version,
      }),
    ),
    updateCallback: byColumns<CallbackRow>((columns) =>
      prepare((row: CallbackRow & { seen: number }) =>
        builder
          .updateTable("callbacks")
          .set(pick<CallbackRow>(row, columns))
          .where("id", "=", row.id)
          .where("version", "=", row.seen),
      ),
    ),
    callbackExists: prepare((row: { id: string }) =>
      builder.selectFrom("callbacks").select("id").where("id", "=", row.id),
    ),

    insertIdempotency: prepare((row: IdempotencyRow) =>
      builder.insertInto("idempotency_keys").values({
        owner: row.owner,
        key: row.key,
        request_digest: row.request_digest,
        run_id: row.run_id,
        created_at: row.created_at,
      }),
    ),
    forgetIdempotency: prepare((row: { before: number }) =>
      builder.deleteFrom("idempotency_keys").where("created_at", "<", row.before),
    ),
  };
}

/** Marks a session whose stream says that it executes calls, once. */
export function prepareDeclareExecutor(prepare: Prepare): Statement<{ id: string }, unknown> {
  return prepare((row: { id: string }) =>
    builder
      .updateTable("sessions")
      .set({ executor_declared: 1 })
      .where("id", "=", row.id)
      .where("executor_declared", "=", 0),
  );
}

/** An update that names the version it saw, and the columns to set. */
type VersionedChange<Row extends { id: string; version: number }> = Partial<Row> & {
  readonly id: string;
  readonly version: number;
  readonly seen: number;
};

/** One statement for each set of columns that is ever updated together; how many rows changed. */
function byColumns<Row extends { id: string; version: number }>(
  prepareFor: (columns: readonly (keyof Row)[]) => Statement<Row & { seen: number }, unknown>,
): (change: VersionedChange<Row>) => number {
  const statements = new Map<string, Statement<Row & { seen: number }, unknown>>();
  return (change) => {
    const { id: _id, seen: _seen, ...changed } = change;
    const columns = Object.keys(changed);
    const key = columns.join();
    let statement = statements.get(key);
    if (!statement) {
      statement = prepareFor(columns as (keyof Row)[]);
      statements.set(key, statement);
    }
    return statement.run(change as Row & { seen: number });
  };
}

function pick<Row extends object>(row: Row, columns: readonly (keyof Row)[]): Partial<Row> {
  const picked: Partial<Row> = {};
  for (const column of columns) picked[column] = row[column];
  return picked;
}
