import type { SessionRecord } from "@leafmesh/core";
import {
  createSessionSchema,
  historyEntrySchema,
  querySchema,
  runAcceptedSchema,
  type SessionView,
  sessionCreatedSchema,
  sessionViewSchema,
} from "@leafmesh/protocol";
import * as z from "zod";
import type { ApiDependencies } from "../dependencies.ts";
import { ApiError } from "../errors.ts";
import { openEventStream } from "../event-stream.ts";
import { EXECUTES_DEVICE_TOOLS, executesDeviceTools } from "../executor-header.ts";
import { followSession } from "../follow-session.ts";
import { type Caller, defineRoute, type Route } from "../route.ts";
import type { StreamLimit } from "../stream-limit.ts";
import { answering, refusals, takeDevices } from "./shared.ts";

const seconds = (ms: number): number => ms / 1000;

export function sessionRoutes(api: ApiDependencies, streams: StreamLimit): readonly Route[] {
  /** The session, if it is the caller's; somebody else's reads as one that does not exist. */
  const own = async (sessionId: string | undefined, caller: Caller): Promise<SessionRecord> => {
    const session = await api.engine.session(sessionId ?? "");
    if (!session || session.owner !== caller.owner) {
      throw new ApiError(404, "no_such_session", "There is no such session.");
    }
    return session;
  };

  const view = async (session: SessionRecord, state?: SessionView["state"]): Promise<SessionView> => ({
    session_id: session.id,
    created_at: seconds(session.createdAt),
    last_active_at: seconds(session.lastActiveAt),
    state: state ?? (session.endedAt ? "ended" : (await api.engine.isRunning(session.id)) ? "running" : "idle"),
    entry_point: session.entryPoint,
    devices: (await api.backend.devices(session.id)).map(({ id, name, platform, capabilities }) => ({
      id,
      ...(name === undefined ? {} : { name }),
      ...(platform === undefined ? {} : { platform }),
      ...(capabilities === undefined ? {} : { capabilities: [...capabilities] }),
    })),
  });

  return [
    defineRoute({
      method: "POST",
      path: "/api/sessions",
      summary: "Open a conversation",
      tag: "sessions",
      access: "key",
      body: createSessionSchema,
      answers: { 201: { description: "Opened.", schema: sessionCreatedSchema }, ...refusals },
      async handle({ body, caller }) {
        const devices = takeDevices(body);
        const { sessionId } = await answering(() =>
          api.engine.createSession({
            entryPoint: body.entry_point,
            owner: caller.owner,
            devices,
            context: body.context,
          }),
        );
        return { status: 201, body: { session_id: sessionId } };
      },
    }),

    defineRoute({
      method: "GET",
      path: "/api/sessions",
      summary: "The caller's conversations, newest first",
      tag: "sessions",
      access: "key",
      query: z.object({
        limit: z.coerce.number().int().min(1).max(200).default(50),
        before: z.coerce.number().optional().meta({ description: "`created_at` of the last one seen." }),
      }),
      answers: {
        200: { description: "One page.", schema: z.object({ sessions: z.array(sessionViewSchema) }) },
        401: refusals[401],
      },
      async handle({ query, caller }) {
        const page = await api.engine.sessions({
          owner: caller.owner,
          limit: query.limit,
          before: query.before === undefined ? undefined : query.before * 1000,
        });
        const sessions = await Promise.all(page.map(({ session, state }) => view(session, state)));
        return { status: 200, body: { sessions } };
      },
    }),

    defineRoute({
      method: "GET",
      path: "/api/sessions/{session_id}",
      summary: "One conversation",
      tag: "sessions",
      access: "key",
      answers: { 200: { description: "The conversation.", schema: sessionViewSchema }, ...refusals },
      async handle({ params, caller }) {
        return { status: 200, body: await view(await own(params.session_id, caller)) };
      },
    }),

    defineRoute({
      method: "DELETE",
      path: "/api/sessions/{session_id}",
      summary: "End a conversation",
      description: "Cancels what runs, settles open asks, and erases push tokens and uploads. The history stays.",
      tag: "sessions",
      access: "key",
      answers: { 204: { description: "Ended; a repeat is the same." }, ...refusals },
      async handle({ params, caller }) {
        const session = await own(params.session_id, caller);
        await answering(() => api.engine.endSession(session.id));
        return { status: 204 };
      },
    }),

    defineRoute({
      method: "POST",
      path: "/api/sessions/{session_id}/query",
      summary: "Send a message into a conversation",
      tag: "sessions",
      access: "key",
      body: querySchema,
      answers: {
        200: { description: "With `wait: true`: the run has ended.", schema: runAcceptedSchema },
        202: { description: "Accepted; follow the session's stream.", schema: runAcceptedSchema },
        ...refusals,
        410: { description: "The conversation has ended." },
        429: { description: "Too many runs wait in this conversation." },
      },
      async handle({ params, body, caller, signal }) {
        const session = await own(params.session_id, caller);
        const message = body.query ?? body.message;
        if (message === undefined || (body.query !== undefined && body.message !== undefined)) {
          throw new ApiError(400, "invalid_request", "query: give the text as query, or as its alias message", {
            details: [{ field: "query", message: "give the text as query, or as its alias message" }],
          });
        }
        const devices = takeDevices(body);
        const { runId, agent } = await answering(() =>
          api.engine.submit({ sessionId: session.id, owner: caller.owner, message, devices, context: body.context }),
        );
        if (!body.wait) return { status: 202, body: { run_id: runId, session_id: session.id, status: "queued" } };
        const run = await api.engine.waitForRun(runId, signal);
        return {
          status: 200,
          body: {
            run_id: runId,
            session_id: session.id,
            status: run.status,
            agent,
            reply: run.reply,
            error: run.error,
          },
        };
      },
    }),

    defineRoute({
      method: "GET",
      path: "/api/sessions/{session_id}/stream",
      summary: "The conversation's events: backlog, then live",
      description:
        "Server-sent events; `id:` is the sequence number. `Last-Event-ID` or `after` (exclusive) resumes. The stream " +
        "stays open while the conversation is idle and ends with `stream_end` when it is over. A client that executes " +
        `device tools says so with the header \`${EXECUTES_DEVICE_TOOLS}\`; its frames of type ` +
        "`device_tool_call` carry the token that answers the call while the call is open.",
      tag: "sessions",
      access: "key",
      query: z.object({ after: z.coerce.number().int().min(0).optional() }),
      answers: {
        200: { description: "Frames `{type, payload, ts}`.", contentType: "text/event-stream" },
        ...refusals,
        503: { description: "limits.max_streams is reached; Retry-After says when to come back." },
      },
      async handle({ params, query, caller, incoming, outgoing }) {
        const session = await own(params.session_id, caller);
        const release = streams.take();
        const after = resumeAfter(incoming.headers["last-event-id"], query.after);
        const executor = executesDeviceTools(incoming);
        try {
          // Attached before the first byte: whoever has seen the stream open can be called.
          const attached = await api.backend.attachStream(session.id, { executor });
          await streamSession(api, session, after, outgoing).finally(() => attached.close());
        } finally {
          release();
        }
        return { streamed: true };
      },
    }),

    defineRoute({
      method: "GET",
      path: "/api/sessions/{session_id}/history",
      summary: "What was said",
      tag: "sessions",
      access: "key",
      answers: {
        200: { description: "Oldest first.", schema: z.object({ messages: z.array(historyEntrySchema) }) },
        ...refusals,
      },
      async handle({ params, caller }) {
        const session = await own(params.session_id, caller);
        return { status: 200, body: { messages: await api.engine.history(session.id) } };
      },
    }),
  ];
}

function resumeAfter(lastEventId: string | string[] | undefined, after: number | undefined): number {
  const fromHeader =
    typeof lastEventId === "string" && /^\d{1,15}$/.test(lastEventId) ? Number(lastEventId) : undefined;
  return fromHeader ?? after ?? 0;
}

async function streamSession(
  api: ApiDependencies,
  session: SessionRecord,
  after: number,
  outgoing: import("node:http").ServerResponse,
): Promise<void> {
  const events = openEventStream(outgoing, api.clock, {});
  const stop = new AbortController();
  void events.closed.then(() => stop.abort());
  let lastSeq = after;
  let caughtUp = false;

  const announce = (state: "idle" | "running"): void =>
    events.transient({
      type: "session_state",
      payload: { state, last_seq: lastSeq, server_now: api.clock.nowMs() / 1000 },
    });

  await followSession(
    api.backend,
    session.id,
    after,
    {
      prepare: (event) => api.engine.forStream(event),
      room: () => events.room(),
      onEvent(event) {
        lastSeq = event.seq;
        events.event(event);
        if (!caughtUp) return;
        if (event.type === "run.started") announce("running");
        if (event.type === "run.finished") {
          void api.engine.isRunning(session.id).then((running) => {
            if (!running) announce("idle");
          }, stop.abort);
        }
      },
      onTransient(event) {
        events.transient(event);
        if (event.type === "stream_end") events.end();
      },
      onCaughtUp() {
        caughtUp = true;
      },
      onFailed(error) {
        api.logger.error("an event could not be prepared for a stream, which is ended", {
          sessionId: session.id,
          error,
        });
        events.end();
      },
    },
    stop.signal,
  );
  announce((await api.engine.isRunning(session.id)) ? "running" : "idle");
  const now = await api.engine.session(session.id);
  if (!now || now.endedAt) {
    events.transient({ type: "stream_end", payload: { reason: "session_ended" } });
    events.end();
  }
  await events.closed;
}
