import { type Compilable, type CreateTableBuilder, type Kysely, sql } from "kysely";
import type { Tables } from "./tables.ts";

/** Schema version 1: everything that the contract keeps. Every read has a key or an index here that it follows. */
export function firstTables(database: Kysely<Tables>): readonly Compilable[] {
  const { schema } = database;
  const numbered = <Name extends string>(table: CreateTableBuilder<Name, string>): CreateTableBuilder<Name, string> =>
    table.addColumn("number", "bigint", (column) => column.notNull().generatedAlwaysAsIdentity());
  const open = sql<boolean>`ended_at is null`;

  return [
    numbered(columns(schema.createTable("sessions"), SESSION)).addPrimaryKeyConstraint("sessions_key", ["id"]),
    schema.createIndex("sessions_by_age").on("sessions").columns(["created_at", "number"]),
    schema.createIndex("sessions_by_owner").on("sessions").columns(["owner", "created_at", "number"]),
    schema.createIndex("open_sessions_by_owner").on("sessions").column("owner").where(open),
    schema.createIndex("open_sessions_by_activity").on("sessions").column("last_active_at").where(open),
    schema
      .createIndex("open_sessions_by_key")
      .unique()
      .on("sessions")
      .expression(sql`coalesce(owner, ''), session_key`)
      .where(sql<boolean>`ended_at is null and session_key is not null`),

    columns(schema.createTable("devices"), DEVICE)
      .addPrimaryKeyConstraint("devices_key", ["session_id", "position"])
      .addUniqueConstraint("devices_id", ["session_id", "id"])
      .addForeignKeyConstraint("devices_session", ["session_id"], "sessions", ["id"]),

    numbered(columns(schema.createTable("runs"), RUN))
      .addPrimaryKeyConstraint("runs_key", ["id"])
      .addForeignKeyConstraint("runs_session", ["session_id"], "sessions", ["id"]),
    schema.createIndex("runs_by_session").on("runs").columns(["session_id", "created_at", "number"]),
    schema.createIndex("runs_by_status").on("runs").columns(["status", "created_at", "number"]),
    schema
      .createIndex("open_runs_by_session")
      .on("runs")
      .column("session_id")
      .where(sql<boolean>`status in ('queued', 'running', 'suspended')`),

    columns(schema.createTable("messages"), MESSAGE)
      .addPrimaryKeyConstraint("messages_key", ["session_id", "position"])
      .addForeignKeyConstraint("messages_session", ["session_id"], "sessions", ["id"]),

    numbered(columns(schema.createTable("waits"), WAIT))
      .addPrimaryKeyConstraint("waits_key", ["id"])
      .addForeignKeyConstraint("waits_run", ["run_id"], "runs", ["id"]),
    schema.createIndex("waits_by_run").on("waits").column("run_id"),
    schema.createIndex("waits_by_state").on("waits").column("state"),

    numbered(columns(schema.createTable("calls"), CALL))
      .addPrimaryKeyConstraint("calls_key", ["id"])
      .addForeignKeyConstraint("calls_wait", ["wait_id"], "waits", ["id"]),
    schema.createIndex("calls_by_session").on("calls").columns(["session_id", "created_at", "number"]),
    schema.createIndex("calls_by_run").on("calls").columns(["run_id", "created_at", "number"]),
    schema.createIndex("calls_by_state").on("calls").columns(["state", "created_at", "number"]),
    schema.createIndex("calls_by_wait").on("calls").column("wait_id"),

    columns(schema.createTable("offers"), OFFER)
      .addPrimaryKeyConstraint("offers_key", ["call_id", "position"])
      .addForeignKeyConstraint("offers_call", ["call_id"], "calls", ["id"]),

    columns(schema.createTable("events"), EVENT)
      .addPrimaryKeyConstraint("events_key", ["session_id", "seq"])
      .addForeignKeyConstraint("events_session", ["session_id"], "sessions", ["id"]),

    columns(schema.createTable("uploads"), UPLOAD)
      .addPrimaryKeyConstraint("uploads_key", ["id"])
      .addForeignKeyConstraint("uploads_session", ["session_id"], "sessions", ["id"]),
    schema.createIndex("uploads_by_session").on("uploads").column("session_id"),

    columns(schema.createTable("frames"), FRAME)
      .addPrimaryKeyConstraint("frames_key", ["run_id", "seq"])
      .addForeignKeyConstraint("frames_run", ["run_id"], "runs", ["id"]),

    columns(schema.createTable("tools"), TOOL).addPrimaryKeyConstraint("tools_key", ["slug"]),

    numbered(columns(schema.createTable("callbacks"), CALLBACK))
      .addPrimaryKeyConstraint("callbacks_key", ["id"])
      .addForeignKeyConstraint("callbacks_run", ["run_id"], "runs", ["id"]),
    schema
      .createIndex("waiting_callbacks")
      .on("callbacks")
      .columns(["due_at", "number"])
      .where(sql<boolean>`state = 'waiting'`),

    columns(schema.createTable("idempotency_keys"), IDEMPOTENCY).addPrimaryKeyConstraint("idempotency_keys_key", [
      "owner",
      "key",
    ]),
    schema.createIndex("idempotency_keys_by_age").on("idempotency_keys").column("created_at"),

    columns(schema.createTable("probe"), "id integer!, count bigint!").addPrimaryKeyConstraint("probe_key", ["id"]),
    columns(schema.createTable("processes"), "id text!, beat_at bigint!").addPrimaryKeyConstraint("processes_key", [
      "id",
    ]),
    columns(schema.createTable("streams"), "session_id text!, process_id text!, executor boolean!, left_at bigint")
      .addColumn("id", "bigint", (column) => column.notNull().generatedAlwaysAsIdentity())
      .addPrimaryKeyConstraint("streams_key", ["id"]),
    schema.createIndex("streams_by_session").on("streams").column("session_id"),
    schema.createIndex("streams_by_process").on("streams").column("process_id"),
    columns(schema.createTable("agreements"), "name text!, value text!").addPrimaryKeyConstraint("agreements_key", [
      "name",
    ]),
  ];
}

const SESSION =
  "id text!, mesh_name text!, entry_point text!, owner text, created_at bigint!, last_active_at bigint!, " +
  "ended_at bigint, context_json text!, session_key text, executor_declared integer!, driver text";
const DEVICE =
  "session_id text!, position integer!, id text!, name text, platform text, capabilities_json text, sealed_push_token text!";
const RUN =
  "id text!, session_id text!, agent text!, status text!, input text!, reply text, error_json text, created_at bigint!, " +
  "started_at bigint, finished_at bigint, deadline_at bigint!, options_json text, device_tools_json text, output_json text, " +
  "failure_json text, version integer!";
const MESSAGE =
  "session_id text!, position integer!, run_id text!, turn integer!, agent text, message_json text!, created_at bigint!";
const WAIT =
  "id text!, run_id text!, session_id text!, agent text!, face text!, turn integer!, state text!, deadline_at bigint!, " +
  "call_ids_json text!, answer_digest text";
const CALL =
  "id text!, wait_id text!, session_id text!, run_id text!, agent text!, face text!, turn integer!, position integer!, " +
  "provider_call_id text!, tool text!, arguments_json text!, state text!, reached text!, device text, room_json text, " +
  "expires_at bigint!, result_json text, outcome text, result_digest text, token_hash text, sealed_token text, " +
  "arguments_digest text, answered_by text, late_json text, created_at bigint!, settled_at bigint, used_at bigint, version integer!";
const OFFER = "call_id text!, position integer!, channel text!, via text!, at bigint!, receipt text, error text";
const EVENT = "session_id text!, seq bigint!, at bigint!, type text!, payload_json text!";
const UPLOAD =
  "id text!, session_id text!, call_id text!, name text!, media_type text!, size bigint!, sealed_content bytea!, created_at bigint!";
const FRAME = "run_id text!, seq bigint!, at bigint!, type text!, data_json text!";
const TOOL =
  "slug text!, kind text!, owner text, client_owned integer!, effect text!, description text!, input_schema_json text!, " +
  "config_json text!, created_at bigint!";
const CALLBACK =
  "id text!, run_id text!, frame_seq bigint!, sealed_url text!, state text!, attempts integer!, due_at bigint!, " +
  "last_error text, created_at bigint!, finished_at bigint, version integer!";
const IDEMPOTENCY = "owner text!, key text!, request_digest text!, run_id text!, created_at bigint!";

type ColumnType = "text" | "integer" | "bigint" | "bytea" | "boolean";

/** Adds the columns of a list of names and types; one that ends in `!` is never null. */
function columns<Name extends string>(table: CreateTableBuilder<Name>, list: string): CreateTableBuilder<Name, string> {
  let built: CreateTableBuilder<Name, string> = table;
  for (const entry of list.split(", ")) {
    const [name = "", type = ""] = entry.split(" ");
    const plain = type.replace("!", "") as ColumnType;
    built = built.addColumn(name, plain, (column) => (type.endsWith("!") ? column.notNull() : column));
  }
  return built;
}
