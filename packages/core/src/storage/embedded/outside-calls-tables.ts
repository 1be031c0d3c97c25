import { type Compilable, sql } from "kysely";
import { builder } from "./compile.ts";

const STRICT = sql`strict`;
const STRICT_BY_KEY = sql`strict, without rowid`;

/** Schema version 2: calls that clients execute, frames of runs, tools and callbacks of the API. */
export function outsideCallsTables(): readonly Compilable[] {
  const { schema } = builder;
  return [
    ...addTextColumns("sessions", ["session_key"]),
    schema.alterTable("sessions").addColumn("executor_declared", "integer", (column) => column.notNull().defaultTo(0)),
    schema
      .createIndex("open_sessions_by_key")
      .unique()
      .on("sessions")
      .expression(sql`ifnull(owner, ''), session_key`)
      .where(sql<boolean>`ended_at is null and session_key is not null`),

    ...addTextColumns("runs", ["options_json", "device_tools_json", "output_json", "failure_json"]),

    ...addTextColumns("waits", ["answer_digest"]),
    schema.createIndex("waits_by_run").on("waits").column("run_id"),
    schema.createIndex("waits_by_state").on("waits").column("state"),

    ...addTextColumns("calls", ["token_hash", "sealed_token", "arguments_digest", "answered_by", "late_json"]),
    schema.createIndex("calls_by_wait").on("calls").column("wait_id"),

    schema
      .createTable("frames")
      .addColumn("run_id", "text", (column) => column.notNull().references("runs.id"))
      .addColumn("seq", "integer", (column) => column.notNull())
      .addColumn("at", "integer", (column) => column.notNull())
      .addColumn("type", "text", (column) => column.notNull())
      .addColumn("data_json", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("frames_key", ["run_id", "seq"])
      .modifyEnd(STRICT_BY_KEY),

    schema
      .createTable("tools")
      .addColumn("slug", "text", (column) => column.primaryKey())
      .addColumn("kind", "text", (column) => column.notNull())
      .addColumn("owner", "text")
      .addColumn("client_owned", "integer", (column) => column.notNull())
      .addColumn("effect", "text", (column) => column.notNull())
      .addColumn("description", "text", (column) => column.notNull())
      .addColumn("input_schema_json", "text", (column) => column.notNull())
      .addColumn("config_json", "text", (column) => column.notNull())
      .addColumn("created_at", "integer", (column) => column.notNull())
      .modifyEnd(STRICT),

    schema
      .createTable("callbacks")
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("run_id", "text", (column) => column.notNull().references("runs.id"))
      .addColumn("frame_seq", "integer", (column) => column.notNull())
      .addColumn("sealed_url", "text", (column) => column.notNull())
      .addColumn("state", "text", (column) => column.notNull())
      .addColumn("attempts", "integer", (column) => column.notNull())
      .addColumn("due_at", "integer", (column) => column.notNull())
      .addColumn("last_error", "text")
      .addColumn("created_at", "integer", (column) => column.notNull())
      .addColumn("finished_at", "integer")
      .addColumn("version", "integer", (column) => column.notNull())
      .modifyEnd(STRICT),
    schema
      .createIndex("waiting_callbacks")
      .on("callbacks")
      .column("due_at")
      .where(sql.ref("state"), "=", sql`'waiting'`),

    // An owner of '' stands for none: a key must be unique there, too.
    schema
      .createTable("idempotency_keys")
      .addColumn("owner", "text", (column) => column.notNull())
      .addColumn("key", "text", (column) => column.notNull())
      .addColumn("request_digest", "text", (column) => column.notNull())
      .addColumn("run_id", "text", (column) => column.notNull())
      .addColumn("created_at", "integer", (column) => column.notNull())
      .addPrimaryKeyConstraint("idempotency_keys_key", ["owner", "key"])
      .modifyEnd(STRICT_BY_KEY),
    schema.createIndex("idempotency_keys_by_age").on("idempotency_keys").column("created_at"),
  ];
}

function addTextColumns(table: string, columns: readonly string[]): Compilable[] {
  return columns.map((column) => builder.schema.alterTable(table).addColumn(column, "text"));
}
