import { type Compilable, sql } from "kysely";
import { builder } from "./compile.ts";

/**
 * Schema version 3. What one commit adds to a session - events, messages or both - is one row, and there are fewer
 * indexes: each page that a commit touches is written to the log and copied later, however little of it changed.
 */
export function sessionLogTables(): readonly Compilable[] {
  const { schema } = builder;
  return [
    // The numbers of the row's last event and last message count up together, so either finds its row by the key. With
    // row ids, because rows in order of the key spill what does not fit in a quarter of a page, and because those of
    // many sessions then go one after the other to the same page.
    schema
      .createTable("session_log")
      .addColumn("session_id", "text", (column) => column.notNull().references("sessions.id"))
      .addColumn("last_seq", "integer", (column) => column.notNull())
      .addColumn("last_position", "integer", (column) => column.notNull())
      .addColumn("events_json", "text")
      .addColumn("messages_json", "text")
      .addPrimaryKeyConstraint("session_log_key", ["session_id", "last_seq", "last_position"])
      .modifyEnd(sql`strict`),
    statement(sql`insert into session_log (session_id, last_seq, last_position, events_json)
      select session_id, seq, 0, json_array(json_object('at', at, 'type', type, 'payload', json(payload_json)))
      from events`),
    // Nobody asks how old events and messages lay between each other: the messages follow the last event.
    statement(sql`insert into session_log (session_id, last_seq, last_position, messages_json)
      select session_id, (select coalesce(max(seq), 0) from events where events.session_id = messages.session_id),
        position, json_array(json_object('runId', run_id, 'turn', turn, 'agent', agent,
          'message', json(message_json), 'createdAt', created_at))
      from messages`),
    schema.dropTable("events"),
    schema.dropTable("messages"),

    // Whoever looks for runs, waits or calls by their state wants those that are not over.
    schema.dropIndex("runs_by_status"),
    schema.dropIndex("open_runs_by_session"),
    schema
      .createIndex("open_runs")
      .on("runs")
      .columns(["status", "session_id"])
      .where(sql.ref("status"), "in", sql`('queued', 'running', 'suspended')`),
    schema.dropIndex("waits_by_state"),
    schema.createIndex("open_waits").on("waits").column("state").where(sql.ref("state"), "=", sql`'open'`),
    schema.dropIndex("calls_by_state"),
    schema
      .createIndex("unused_calls")
      .on("calls")
      .columns(["state", "created_at"])
      .where(sql.ref("state"), "<>", sql`'used'`),
  ];
}

function statement(text: ReturnType<typeof sql>): Compilable {
  return { compile: () => text.compile(builder) };
}
