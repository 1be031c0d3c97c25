/** The reads of the contract. */
import { sql } from "kysely";
import type { Backend } from "../contract.ts";
import {
  toCall,
  toCallback,
  toDevice,
  toFrame,
  toIdempotency,
  toOffer,
  toRun,
  toSession,
  toTool,
  toUpload,
  toWait,
} from "../embedded/rows.ts";
import type { Database } from "./database.ts";
import { toEvent, toMessage } from "./rows.ts";

export type Reads = Pick<
  Backend,
  | "session"
  | "sessionByKey"
  | "sessions"
  | "countOpenSessions"
  | "idleSessions"
  | "devices"
  | "messages"
  | "run"
  | "runs"
  | "wait"
  | "waits"
  | "call"
  | "calls"
  | "offers"
  | "events"
  | "lastEventSeq"
  | "upload"
  | "frames"
  | "tools"
  | "tool"
  | "dueCallbacks"
  | "idempotency"
>;

/** As the partial index has it. */
const OPEN_RUN = sql<boolean>`exists (
  select 1 from runs where runs.session_id = sessions.id and runs.status in ('queued', 'running', 'suspended'))`;
const OWNER_OR_NONE = sql<string>`coalesce(owner, '')`;

export function createReads(database: Database): Reads {
  return {
    session: async (id) =>
      mapped(await database.selectFrom("sessions").selectAll().where("id", "=", id).executeTakeFirst(), toSession),
    run: async (id) =>
      mapped(await database.selectFrom("runs").selectAll().where("id", "=", id).executeTakeFirst(), toRun),
    wait: async (id) =>
      mapped(await database.selectFrom("waits").selectAll().where("id", "=", id).executeTakeFirst(), toWait),
    call: async (id) =>
      mapped(await database.selectFrom("calls").selectAll().where("id", "=", id).executeTakeFirst(), toCall),
    upload: async (id) =>
      mapped(await database.selectFrom("uploads").selectAll().where("id", "=", id).executeTakeFirst(), toUpload),
    tool: async (slug) =>
      mapped(await database.selectFrom("tools").selectAll().where("slug", "=", slug).executeTakeFirst(), toTool),

    async sessionByKey(owner, key) {
      const row = await database
        .selectFrom("sessions")
        .selectAll()
        .where("ended_at", "is", null)
        .where("session_key", "is not", null)
        .where("session_key", "=", key)
        .where(OWNER_OR_NONE, "=", owner ?? "")
        .executeTakeFirst();
      return mapped(row, toSession);
    },

    async sessions({ owner, limit, before }) {
      const rows = await database
        .selectFrom("sessions")
        .selectAll()
        .select(OPEN_RUN.as("running"))
        .$if(owner !== undefined, (query) => query.where("owner", "=", owner ?? null))
        .$if(before !== undefined, (query) => query.where("created_at", "<", before ?? 0))
        .orderBy("created_at", "desc")
        .orderBy("number", "desc")
        .limit(limit)
        .execute();
      return rows.map((row) => ({
        session: toSession(row),
        state: row.ended_at !== null ? "ended" : row.running ? "running" : "idle",
      }));
    },

    async countOpenSessions(owner) {
      const { count } = await database
        .selectFrom("sessions")
        .select((select) => select.fn.countAll<number>().as("count"))
        .where("ended_at", "is", null)
        .where("owner", owner === undefined ? "is" : "=", owner ?? null)
        .executeTakeFirstOrThrow();
      return count;
    },

    async idleSessions(before, limit) {
      const rows = await database
        .selectFrom("sessions")
        .selectAll()
        .where("ended_at", "is", null)
        .where("last_active_at", "<", before)
        .where((is) => is.not(OPEN_RUN))
        .orderBy("last_active_at")
        .limit(limit)
        .execute();
      return rows.map(toSession);
    },

    async devices(sessionId) {
      const query = database.selectFrom("devices").selectAll().where("session_id", "=", sessionId).orderBy("position");
      return (await query.execute()).map(toDevice);
    },

    async messages(sessionId, { runId, limit } = {}) {
      const rows = await database
        .selectFrom("messages")
        .selectAll()
        .where("session_id", "=", sessionId)
        .$if(runId !== undefined, (query) => query.where("run_id", "=", runId ?? ""))
        .orderBy("position", "desc")
        .$if(limit !== undefined, (query) => query.limit(limit ?? 0))
        .execute();
      return rows.reverse().map(toMessage);
    },

    async runs({ sessionId, statuses, limit }) {
      const rows = await database
        .selectFrom("runs")
        .selectAll()
        .$if(sessionId !== undefined, (query) => query.where("session_id", "=", sessionId ?? ""))
        .$if(statuses !== undefined, (query) => query.where(oneOf("status", statuses)))
        .orderBy("created_at")
        .orderBy("number")
        .$if(limit !== undefined, (query) => query.limit(limit ?? 0))
        .execute();
      return rows.map(toRun);
    },

    async waits({ runId, states, faces, limit }) {
      const rows = await database
        .selectFrom("waits")
        .selectAll()
        .$if(runId !== undefined, (query) => query.where("run_id", "=", runId ?? ""))
        .$if(states !== undefined, (query) => query.where(oneOf("state", states)))
        .$if(faces !== undefined, (query) => query.where(oneOf("face", faces)))
        .orderBy("number")
        .$if(limit !== undefined, (query) => query.limit(limit ?? 0))
        .execute();
      return rows.map(toWait);
    },

    async calls({ sessionId, runId, waitId, faces, states, newestFirst, limit }) {
      const order = newestFirst ? "desc" : "asc";
      const rows = await database
        .selectFrom("calls")
        .selectAll()
        .$if(sessionId !== undefined, (query) => query.where("session_id", "=", sessionId ?? ""))
        .$if(runId !== undefined, (query) => query.where("run_id", "=", runId ?? ""))
        .$if(waitId !== undefined, (query) => query.where("wait_id", "=", waitId ?? ""))
        .$if(faces !== undefined, (query) => query.where(oneOf("face", faces)))
        .$if(states !== undefined, (query) => query.where(oneOf("state", states)))
        .orderBy("created_at", order)
        .orderBy("number", order)
        .$if(limit !== undefined, (query) => query.limit(limit ?? 0))
        .execute();
      return rows.map(toCall);
    },

    async offers(callId) {
      const query = database.selectFrom("offers").selectAll().where("call_id", "=", callId).orderBy("position");
      return (await query.execute()).map(toOffer);
    },

    async events(sessionId, { after = 0, limit, types } = {}) {
      const rows = await database
        .selectFrom("events")
        .selectAll()
        .where("session_id", "=", sessionId)
        .where("seq", ">", after)
        .$if(types !== undefined, (query) => query.where(oneOf("type", types)))
        .orderBy("seq")
        .$if(limit !== undefined, (query) => query.limit(limit ?? 0))
        .execute();
      return rows.map(toEvent);
    },

    async lastEventSeq(sessionId) {
      const last = await database
        .selectFrom("events")
        .select((select) => select.fn.max("seq").as("seq"))
        .where("session_id", "=", sessionId)
        .executeTakeFirst();
      return last?.seq ?? 0;
    },

    async frames(runId, { after = 0, limit, types } = {}) {
      const rows = await database
        .selectFrom("frames")
        .selectAll()
        .where("run_id", "=", runId)
        .where("seq", ">", after)
        .$if(types !== undefined, (query) => query.where(oneOf("type", types)))
        .orderBy("seq")
        .$if(limit !== undefined, (query) => query.limit(limit ?? 0))
        .execute();
      return rows.map(toFrame);
    },

    async tools() {
      const query = database.selectFrom("tools").selectAll().orderBy(sql`slug collate "C"`);
      return (await query.execute()).map(toTool);
    },

    async dueCallbacks(now, limit) {
      const rows = await database
        .selectFrom("callbacks")
        .selectAll()
        .where(sql<boolean>`state = 'waiting'`)
        .where("due_at", "<=", now)
        .orderBy("due_at")
        .orderBy("number")
        .limit(limit)
        .execute();
      return rows.map(toCallback);
    },

    async idempotency(owner, key) {
      const row = await database
        .selectFrom("idempotency_keys")
        .selectAll()
        .where("owner", "=", owner ?? "")
        .where("key", "=", key)
        .executeTakeFirst();
      return mapped(row, toIdempotency);
    },
  };
}

/** One parameter for any number of values, so that the statement stays the same. */
function oneOf(column: string, values: readonly string[] | undefined) {
  return sql<boolean>`${sql.ref(column)} = any(${[...(values ?? [])]}::text[])`;
}

function mapped<Row, Record>(row: Row | undefined, toRecord: (row: Row) => Record): Record | undefined {
  return row === undefined ? undefined : toRecord(row);
}
