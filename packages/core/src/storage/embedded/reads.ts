/** The reads of the contract. Each is one prepared query; a query with optional parts is one query for each form. */
import { FINAL_RUN_STATUSES } from "@leafmesh/protocol";
import { sql } from "kysely";
import type { Backend } from "../contract.ts";
import { builder } from "./compile.ts";
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
} from "./rows.ts";
import { collectEvents, collectMessages, ROWS_AT_A_TIME } from "./session-log.ts";
import type { Prepare, Statement } from "./statements.ts";
import type { CallRow, FrameRow, RunRow, SessionRow, WaitRow } from "./tables.ts";

type Reads = {
  [Name in
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
    | "idempotency"]: (...given: Parameters<Backend[Name]>) => Awaited<ReturnType<Backend[Name]>>;
};

/** What SQLite takes for "no limit". */
const NO_LIMIT = -1;

/** Order of insertion: decides between records of one millisecond. */
const ROWID = sql<number>`rowid`;

/** As the partial index has it, which is how SQLite knows that the index serves. */
const OPEN_RUN = sql<boolean>`status in ('queued', 'running', 'suspended')`;

/** As the unique index has it. */
const OWNER_OR_NONE = sql<string>`ifnull(owner, '')`;

export function createReads(prepare: Prepare): Reads & { executorDeclared(sessionId: string): boolean } {
  const byId = {
    session: prepare((key: { id: string }) => builder.selectFrom("sessions").selectAll().where("id", "=", key.id)),
    run: prepare((key: { id: string }) => builder.selectFrom("runs").selectAll().where("id", "=", key.id)),
    wait: prepare((key: { id: string }) => builder.selectFrom("waits").selectAll().where("id", "=", key.id)),
    call: prepare((key: { id: string }) => builder.selectFrom("calls").selectAll().where("id", "=", key.id)),
    upload: prepare((key: { id: string }) => builder.selectFrom("uploads").selectAll().where("id", "=", key.id)),
  };

  const byKey = prepare((key: { owner: string; session_key: string }) =>
    builder
      .selectFrom("sessions")
      .selectAll()
      .where("ended_at", "is", null)
      .where("session_key", "is not", null)
      .where("session_key", "=", key.session_key)
      .where(OWNER_OR_NONE, "=", key.owner),
  );

  const declaredExecutor = prepare((key: { id: string }) =>
    builder.selectFrom("sessions").select("executor_declared").where("id", "=", key.id),
  );

  type SessionPage = { owner: string | null; before: number; limit: number };
  type SummaryRow = SessionRow & { running: number };
  const sessionPages = forms<SessionPage, SummaryRow, "owner">((has) =>
    prepare((page: SessionPage) => {
      const query = builder
        .selectFrom("sessions")
        .selectAll("sessions")
        .select(sql<number>`exists (select 1 from runs where session_id = sessions.id and ${OPEN_RUN})`.as("running"))
        .where("created_at", "<", page.before)
        .orderBy("created_at", "desc")
        .orderBy(ROWID, "desc")
        .limit(page.limit);
      return has.owner ? query.where("owner", "=", page.owner) : query;
    }),
  );

  const openSessions = prepare((key: { owner: string | null }) =>
    builder
      .selectFrom("sessions")
      .select(sql<number>`count(*)`.as("count"))
      .where("owner", "is", key.owner)
      .where("ended_at", "is", null),
  );

  const idle = prepare((page: { before: number; limit: number }) =>
    builder
      .selectFrom("sessions")
      .selectAll("sessions")
      .where("ended_at", "is", null)
      .where("last_active_at", "<", page.before)
      .where(sql<boolean>`not exists (select 1 from runs where session_id = sessions.id and ${OPEN_RUN})`)
      .orderBy("last_active_at")
      .limit(page.limit),
  );

  const devices = prepare((key: { session_id: string }) =>
    builder.selectFrom("devices").selectAll().where("session_id", "=", key.session_id).orderBy("position"),
  );

  const messageRows = prepare(
    (page: { session_id: string; before_seq: number; before_position: number; limit: number }) =>
      builder
        .selectFrom("session_log")
        .selectAll()
        .where("session_id", "=", page.session_id)
        .where(sql<boolean>`(last_seq, last_position) < (${page.before_seq}, ${page.before_position})`)
        .where("messages_json", "is not", null)
        .orderBy("last_seq", "desc")
        .orderBy("last_position", "desc")
        .limit(page.limit),
  );

  type RunPage = { session_id: string; statuses_json: string; limit: number };
  const runPages = forms<RunPage, RunRow, "session_id" | "statuses_json" | "open">((has) =>
    prepare((page: RunPage) => {
      let query = builder.selectFrom("runs").selectAll().orderBy("created_at").orderBy(ROWID).limit(page.limit);
      if (has.session_id) query = query.where("session_id", "=", page.session_id);
      if (has.statuses_json) query = query.where(oneOf("status", page.statuses_json));
      if (has.open) query = query.where(OPEN_RUN);
      return query;
    }),
  );

  type WaitPage = { run_id: string; states_json: string; faces_json: string; limit: number };
  const waitPages = forms<WaitPage, WaitRow, "run_id" | "states_json" | "faces_json" | "open">((has) =>
    prepare((page: WaitPage) => {
      let query = builder.selectFrom("waits").selectAll().orderBy(ROWID).limit(page.limit);
      if (has.run_id) query = query.where("run_id", "=", page.run_id);
      if (has.open) query = query.where(sql<boolean>`state = 'open'`);
      else if (has.states_json) query = query.where(oneOf("state", page.states_json));
      if (has.faces_json) query = query.where(oneOf("face", page.faces_json));
      return query;
    }),
  );

  type CallPage = {
    session_id: string;
    run_id: string;
    wait_id: string;
    faces_json: string;
    states_json: string;
    limit: number;
  };
  type CallParts = "session_id" | "run_id" | "wait_id" | "faces_json" | "states_json" | "unused" | "newestFirst";
  const callPages = forms<CallPage, CallRow, CallParts>((has) =>
    prepare((page: CallPage) => {
      const order = has.newestFirst ? "desc" : "asc";
      let query = builder.selectFrom("calls").selectAll().limit(page.limit);
      query = query.orderBy("created_at", order).orderBy(ROWID, order);
      if (has.session_id) query = query.where("session_id", "=", page.session_id);
      if (has.run_id) query = query.where("run_id", "=", page.run_id);
      if (has.wait_id) query = query.where("wait_id", "=", page.wait_id);
      if (has.faces_json) query = query.where(oneOf("face", page.faces_json));
      if (has.states_json) query = query.where(oneOf("state", page.states_json));
      if (has.unused) query = query.where(sql<boolean>`state <> 'used'`);
      return query;
    }),
  );

  const offers = prepare((key: { call_id: string }) =>
    builder.selectFrom("offers").selectAll().where("call_id", "=", key.call_id).orderBy("position"),
  );

  const eventRows = prepare((page: { session_id: string; after: number; limit: number }) =>
    builder
      .selectFrom("session_log")
      .selectAll()
      .where("session_id", "=", page.session_id)
      .where("last_seq", ">", page.after)
      .where("events_json", "is not", null)
      .orderBy("last_seq")
      .limit(page.limit),
  );

  const lastSeq = prepare((key: { session_id: string }) =>
    builder
      .selectFrom("session_log")
      .select(sql<number>`coalesce(max(last_seq), 0)`.as("seq"))
      .where("session_id", "=", key.session_id),
  );

  type FramePage = { run_id: string; after: number; types_json: string; limit: number };
  const framePages = forms<FramePage, FrameRow, "types_json">((has) =>
    prepare((page: FramePage) => {
      const query = builder
        .selectFrom("frames")
        .selectAll()
        .where("run_id", "=", page.run_id)
        .where("seq", ">", page.after)
        .orderBy("seq")
        .limit(page.limit);
      return has.types_json ? query.where(oneOf("type", page.types_json)) : query;
    }),
  );

  const allTools = prepare((_none: object) => builder.selectFrom("tools").selectAll().orderBy("slug"));
  const oneTool = prepare((key: { slug: string }) =>
    builder.selectFrom("tools").selectAll().where("slug", "=", key.slug),
  );

  const due = prepare((page: { now: number; limit: number }) =>
    builder
      .selectFrom("callbacks")
      .selectAll()
      .where(sql<boolean>`state = 'waiting'`)
      .where("due_at", "<=", page.now)
      .orderBy("due_at")
      .orderBy(ROWID)
      .limit(page.limit),
  );

  const idempotencyKey = prepare((key: { owner: string; key: string }) =>
    builder.selectFrom("idempotency_keys").selectAll().where("owner", "=", key.owner).where("key", "=", key.key),
  );

  return {
    session: (id) => mapped(byId.session.get({ id }), toSession),
    run: (id) => mapped(byId.run.get({ id }), toRun),
    wait: (id) => mapped(byId.wait.get({ id }), toWait),
    call: (id) => mapped(byId.call.get({ id }), toCall),
    upload: (id) => mapped(byId.upload.get({ id }), toUpload),

    sessionByKey: (owner, key) => mapped(byKey.get({ owner: owner ?? "", session_key: key }), toSession),
    executorDeclared: (sessionId) => declaredExecutor.get({ id: sessionId })?.executor_declared === 1,
    sessions: ({ owner, limit, before = Number.MAX_SAFE_INTEGER }) =>
      sessionPages({ owner: owner ?? null, before, limit }, { owner: owner !== undefined }).map((row) => ({
        session: toSession(row),
        state: row.ended_at !== null ? "ended" : row.running ? "running" : "idle",
      })),
    countOpenSessions: (owner) => openSessions.get({ owner: owner ?? null })?.count ?? 0,
    idleSessions: (before, limit) => idle.all({ before, limit }).map(toSession),
    devices: (sessionId) => devices.all({ session_id: sessionId }).map(toDevice),
    messages: (sessionId, { runId, limit = Number.POSITIVE_INFINITY } = {}) =>
      collectMessages(
        ({ last_seq, last_position }) =>
          messageRows.all({
            session_id: sessionId,
            before_seq: last_seq,
            before_position: last_position,
            limit: ROWS_AT_A_TIME,
          }),
        { limit, isWanted: (message) => runId === undefined || message.runId === runId },
      ),
    runs: ({ sessionId, statuses, limit = NO_LIMIT }) =>
      runPages(
        { session_id: sessionId ?? "", statuses_json: JSON.stringify(statuses ?? []), limit },
        {
          session_id: sessionId !== undefined,
          statuses_json: statuses !== undefined,
          open: statuses?.every((status) => !FINAL_RUN_STATUSES.has(status)) ?? false,
        },
      ).map(toRun),
    waits: ({ runId, states, faces, limit = NO_LIMIT }) =>
      waitPages(
        {
          run_id: runId ?? "",
          states_json: JSON.stringify(states ?? []),
          faces_json: JSON.stringify(faces ?? []),
          limit,
        },
        {
          run_id: runId !== undefined,
          states_json: states !== undefined,
          faces_json: faces !== undefined,
          open: states?.length === 1 && states[0] === "open",
        },
      ).map(toWait),
    calls: ({ sessionId, runId, waitId, faces, states, newestFirst = false, limit = NO_LIMIT }) =>
      callPages(
        {
          session_id: sessionId ?? "",
          run_id: runId ?? "",
          wait_id: waitId ?? "",
          faces_json: JSON.stringify(faces ?? []),
          states_json: JSON.stringify(states ?? []),
          limit,
        },
        {
          session_id: sessionId !== undefined,
          run_id: runId !== undefined,
          wait_id: waitId !== undefined,
          faces_json: faces !== undefined,
          states_json: states !== undefined,
          unused: states !== undefined && !states.includes("used"),
          newestFirst,
        },
      ).map(toCall),
    offers: (callId) => offers.all({ call_id: callId }).map(toOffer),
    events: (sessionId, { after = 0, limit = Number.POSITIVE_INFINITY, types } = {}) =>
      collectEvents((seen) => eventRows.all({ session_id: sessionId, after: seen, limit: ROWS_AT_A_TIME }), {
        after,
        limit,
        isWanted: ({ type }) => types === undefined || types.includes(type),
      }),
    frames: (runId, { after = 0, limit = NO_LIMIT, types } = {}) =>
      framePages(
        { run_id: runId, after, types_json: JSON.stringify(types ?? []), limit },
        { types_json: types !== undefined },
      ).map(toFrame),
    tools: () => allTools.all({}).map(toTool),
    tool: (slug) => mapped(oneTool.get({ slug }), toTool),
    dueCallbacks: (now, limit) => due.all({ now, limit }).map(toCallback),
    idempotency: (owner, key) => mapped(idempotencyKey.get({ owner: owner ?? "", key }), toIdempotency),
    lastEventSeq: (sessionId) => lastSeq.get({ session_id: sessionId })?.seq ?? 0,
  };
}

/** `column` is one of the texts in a JSON array. */
function oneOf(column: string, json: string) {
  return sql<boolean>`${sql.ref(column)} in (select value from json_each(${json}))`;
}

/** A query with optional parts: prepares each form that is asked for once. */
function forms<Parameters extends object, Row, Part extends string>(
  prepareForm: (has: Readonly<Record<Part, boolean>>) => Statement<Parameters, Row>,
): (parameters: Parameters, has: Readonly<Record<Part, boolean>>) => Row[] {
  const prepared = new Map<string, Statement<Parameters, Row>>();
  return (parameters, has) => {
    const form = Object.values(has).join();
    let statement = prepared.get(form);
    if (!statement) {
      statement = prepareForm(has);
      prepared.set(form, statement);
    }
    return statement.all(parameters);
  };
}

function mapped<Row, Record>(row: Row | undefined, toRecord: (row: Row) => Record): Record | undefined {
  return row === undefined ? undefined : toRecord(row);
}
