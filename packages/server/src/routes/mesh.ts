import { type MeshReply, meshReplySchema, meshRequestSchema } from "@leafmesh/protocol";
import * as z from "zod";
import type { ApiDependencies } from "../dependencies.ts";
import { ApiError } from "../errors.ts";
import { openEventStream } from "../event-stream.ts";
import { followSession } from "../follow-session.ts";
import { defineRoute, type Route } from "../route.ts";
import type { StreamLimit } from "../stream-limit.ts";
import { answering, refusals, takeDevices } from "./shared.ts";

export function meshRoutes(api: ApiDependencies, streams: StreamLimit): readonly Route[] {
  const replyOf = async (runId: string, signal: AbortSignal): Promise<MeshReply> => {
    const run = await api.engine.waitForRun(runId, signal);
    return {
      session_id: run.sessionId,
      run_id: run.id,
      status: run.status,
      agent: run.agent,
      ...(run.reply === undefined ? {} : { reply: run.reply }),
      ...(run.error === undefined ? {} : { error: run.error }),
    };
  };

  return [
    defineRoute({
      method: "POST",
      path: "/api/mesh/request",
      summary: "Send a message and get the agent's reply",
      description:
        "Starts or continues a conversation. Waits for the run's end, or with `stream: true` answers with server-sent " +
        "events that end with `run.finished`. A client that goes away does not stop the run: its reply is in the history.",
      tag: "conversation",
      access: "key",
      body: meshRequestSchema,
      answers: {
        200: { description: "The run has ended; `status` says how.", schema: meshReplySchema },
        ...refusals,
        429: { description: "A limit of the mesh is reached; its name is in `code`." },
        503: { description: "The mesh is stopping or its storage failed." },
      },
      async handle({ body, caller, outgoing, signal }) {
        const { stream, message, entry_point, session_id, context } = body;
        const devices = takeDevices(body);
        const release = stream ? streams.take() : undefined;
        try {
          const cursor = session_id && stream ? await api.backend.lastEventSeq(session_id) : 0;
          const accepted = await answering(() =>
            api.engine.submit({
              sessionId: session_id,
              entryPoint: entry_point,
              owner: caller.owner,
              message,
              devices,
              context,
            }),
          );
          if (!stream) return { status: 200, body: await replyOf(accepted.runId, signal) };

          const events = openEventStream(outgoing, api.clock, {
            "x-leafmesh-session-id": accepted.sessionId,
            "x-leafmesh-run-id": accepted.runId,
          });
          const stop = new AbortController();
          void events.closed.then(() => stop.abort());
          await followSession(
            api.backend,
            accepted.sessionId,
            cursor,
            {
              onEvent(event) {
                events.event(event);
                if (event.type === "run.finished" && event.payload.run_id === accepted.runId) events.end();
              },
              room: () => events.room(),
              onTransient(event) {
                if (event.type === "model.delta" && event.payload.run_id === accepted.runId) events.transient(event);
              },
            },
            stop.signal,
          );
          await events.closed;
          return { streamed: true };
        } finally {
          release?.();
        }
      },
    }),

    defineRoute({
      method: "GET",
      path: "/api/mesh/entry_points",
      summary: "The mesh's name and where a message can enter it",
      tag: "conversation",
      access: "key",
      answers: {
        200: {
          description: "Entry points, the default one first.",
          schema: z.object({
            mesh: z.string(),
            entry_points: z.array(
              z.object({ name: z.string(), target: z.string(), description: z.string().optional() }),
            ),
          }),
        },
        401: refusals[401],
      },
      async handle() {
        const mesh = api.mesh();
        return { status: 200, body: { mesh: mesh.name, entry_points: mesh.entryPoints } };
      },
    }),

    defineRoute({
      method: "GET",
      path: "/api/runs/{run_id}",
      summary: "Where a run stands",
      tag: "conversation",
      access: "key",
      answers: { 200: { description: "The run.", schema: meshReplySchema }, ...refusals },
      async handle({ params, caller }) {
        const run = await api.engine.run(params.run_id ?? "");
        const session = run && (await api.engine.session(run.sessionId));
        if (!run || session?.owner !== caller.owner) throw new ApiError(404, "no_such_run", "There is no such run.");
        return {
          status: 200,
          body: {
            session_id: run.sessionId,
            run_id: run.id,
            status: run.status,
            agent: run.agent,
            reply: run.reply,
            error: run.error,
          },
        };
      },
    }),

    defineRoute({
      method: "POST",
      path: "/api/runs/{run_id}/cancel",
      summary: "Cancel a run",
      description: "Its open asks are settled first, honestly; the history stays closed.",
      tag: "conversation",
      access: "key",
      answers: {
        202: {
          description: "It will end as cancelled, unless it has ended already.",
          schema: z.object({ run_id: z.string() }),
        },
        ...refusals,
      },
      async handle({ params, caller }) {
        const runId = params.run_id ?? "";
        const run = await api.engine.run(runId);
        const session = run && (await api.engine.session(run.sessionId));
        if (!run || session?.owner !== caller.owner) throw new ApiError(404, "no_such_run", "There is no such run.");
        await answering(() => api.engine.cancelRun(runId));
        return { status: 202, body: { run_id: runId } };
      },
    }),
  ];
}
