import { type Compilable, sql } from "kysely";
import { builder } from "./compile.ts";

const STRICT = sql`strict`;
/** The primary key is the table: one tree to write instead of two, and a session's rows lie together. */
const STRICT_BY_KEY = sql`strict, without rowid`;

/** Schema version 1. Every read of the contract has a key or an index here that it follows. */
export function firstTables(): readonly Compilable[] {
  const { schema } = builder;
  return [
    schema
      .createTable("sessions")
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("mesh_name", "text", (column) => column.notNull())
      .addColumn("entry_point", "text", (column) => column.notNull())
      .addColumn("owner", "text")
      .addColumn("created_at", "integer", (column) => column.notNull())
      .addColumn("last_active_at", "integer", (column) => column.notNull())
      .addColumn("ended_at", "integer")
      .addColumn("context_json", "text", (column) => column.notNull())
      .modifyEnd(STRICT),
    schema.createIndex("sessions_by_age").on("sessions").column("created_at"),
    schema.createIndex("sessions_by_owner").on("sessions").columns(["owner", "created_at"]),
    schema.createIndex("open_sessions_by_owner").on("sessions").column("owner").where(sql.ref("ended_at"), "is", null),
    schema
      .createIndex("open_sessions_by_activity")
      .on("sessions")
      .column("last_active_at")
      .where(sql.ref("ended_at"), "is", null),

    schema
      .createTable("devices")
      .addColumn("session_id", "text", (column) => column.notNull().references("sessions.id"))
      .addColumn("position", "integer", (column) => column.notNull())
      .addColumn("id", "text", (column) => column.notNull())
      .addColumn("name", "text")
      .addColumn("platform", "text")
      .addColumn("capabilities_json", "text")
      .addColumn("sealed_push_token", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("devices_key", ["session_id", "position"])
      .addUniqueConstraint("devices_id", ["session_id", "id"])
      .modifyEnd(STRICT_BY_KEY),

    schema
      .createTable("runs")
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("session_id", "text", (column) => column.notNull().references("sessions.id"))
      .addColumn("agent", "text", (column) => column.notNull())
      .addColumn("status", "text", (column) => column.notNull())
      .addColumn("input", "text", (column) => column.notNull())
      .addColumn("reply", "text")
      .addColumn("error_json", "text")
      .addColumn("created_at", "integer", (column) => column.notNull())
      .addColumn("started_at", "integer")
      .addColumn("finished_at", "integer")
      .addColumn("deadline_at", "integer", (column) => column.notNull())
      .addColumn("version", "integer", (column) => column.notNull())
      .modifyEnd(STRICT),
    schema.createIndex("runs_by_session").on("runs").columns(["session_id", "created_at"]),
    schema.createIndex("runs_by_status").on("runs").columns(["status", "created_at"]),
    schema
      .createIndex("open_runs_by_session")
      .on("runs")
      .column("session_id")
      .where(sql.ref("status"), "in", sql`('queued', 'running', 'suspended')`),

    schema
      .createTable("messages")
      .addColumn("session_id", "text", (column) => column.notNull().references("sessions.id"))
      .addColumn("position", "integer", (column) => column.notNull())
      .addColumn("run_id", "text", (column) => column.notNull())
      .addColumn("turn", "integer", (column) => column.notNull())
      .addColumn("agent", "text")
      .addColumn("message_json", "text", (column) => column.notNull())
      .addColumn("created_at", "integer", (column) => column.notNull())
      .addPrimaryKeyConstraint("messages_key", ["session_id", "position"])
      .modifyEnd(STRICT_BY_KEY),

    schema
      .createTable("waits")
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("run_id", "text", (column) => column.notNull().references("runs.id"))
      .addColumn("session_id", "text", (column) => column.notNull())
      .addColumn("agent", "text", (column) => column.notNull())
      .addColumn("face", "text", (column) => column.notNull())
      .addColumn("turn", "integer", (column) => column.notNull())
      .addColumn("state", "text", (column) => column.notNull())
      .addColumn("deadline_at", "integer", (column) => column.notNull())
      .addColumn("call_ids_json", "text", (column) => column.notNull())
      .modifyEnd(STRICT),

    schema
      .createTable("calls")
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("wait_id", "text", (column) => column.notNull().references("waits.id"))
      .addColumn("session_id", "text", (column) => column.notNull())
      .addColumn("run_id", "text", (column) => column.notNull())
      .addColumn("agent", "text", (column) => column.notNull())
      .addColumn("face", "text", (column) => column.notNull())
      .addColumn("turn", "integer", (column) => column.notNull())
      .addColumn("position", "integer", (column) => column.notNull())
      .addColumn("provider_call_id", "text", (column) => column.notNull())
      .addColumn("tool", "text", (column) => column.notNull())
      .addColumn("arguments_json", "text", (column) => column.notNull())
      .addColumn("state", "text", (column) => column.notNull())
      .addColumn("reached", "text", (column) => column.notNull())
      .addColumn("device", "text")
      .addColumn("room_json", "text")
      .addColumn("expires_at", "integer", (column) => column.notNull())
      .addColumn("result_json", "text")
      .addColumn("outcome", "text")
      .addColumn("result_digest", "text")
      .addColumn("created_at", "integer", (column) => column.notNull())
      .addColumn("settled_at", "integer")
      .addColumn("used_at", "integer")
      .addColumn("version", "integer", (column) => column.notNull())
      .modifyEnd(STRICT),
    schema.createIndex("calls_by_session").on("calls").columns(["session_id", "created_at"]),
    schema.createIndex("calls_by_run").on("calls").columns(["run_id", "created_at"]),
    schema.createIndex("calls_by_state").on("calls").columns(["state", "created_at"]),

    schema
      .createTable("offers")
      .addColumn("call_id", "text", (column) => column.notNull().references("calls.id"))
      .addColumn("position", "integer", (column) => column.notNull())
      .addColumn("channel", "text", (column) => column.notNull())
      .addColumn("via", "text", (column) => column.notNull())
      .addColumn("at", "integer", (column) => column.notNull())
      .addColumn("receipt", "text")
      .addColumn("error", "text")
      .addPrimaryKeyConstraint("offers_key", ["call_id", "position"])
      .modifyEnd(STRICT_BY_KEY),

    schema
      .createTable("events")
      .addColumn("session_id", "text", (column) => column.notNull().references("sessions.id"))
      .addColumn("seq", "integer", (column) => column.notNull())
      .addColumn("at", "integer", (column) => column.notNull())
      .addColumn("type", "text", (column) => column.notNull())
      .addColumn("payload_json", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("events_key", ["session_id", "seq"])
      .modifyEnd(STRICT_BY_KEY),

    schema
      .createTable("uploads")
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("session_id", "text", (column) => column.notNull().references("sessions.id"))
      .addColumn("call_id", "text", (column) => column.notNull())
      .addColumn("name", "text", (column) => column.notNull())
      .addColumn("media_type", "text", (column) => column.notNull())
      .addColumn("size", "integer", (column) => column.notNull())
      .addColumn("sealed_content", "blob", (column) => column.notNull())
      .addColumn("created_at", "integer", (column) => column.notNull())
      .modifyEnd(STRICT),
    schema.createIndex("uploads_by_session").on("uploads").column("session_id"),

    schema
      .createTable("probe")
      .addColumn("id", "integer", (column) => column.primaryKey())
      .addColumn("count", "integer", (column) => column.notNull())
      .modifyEnd(STRICT),
  ];
}
