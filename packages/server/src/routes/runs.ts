/** Runs that are submitted by themselves, followed by their frames, and continued by their client. */
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { type Answer, frameView, type RunRecord, runState, type Submitted } from "@leafmesh/core";
import {
  approvalValueSchema,
  DEFAULT_CLIENT_TOOL_TIMEOUT_SECONDS,
  MAX_RESUME_BYTES,
  resultValueSchema,
  resumeSchema,
  runAcceptedSchema,
  runFrameSchema,
  runStateSchema,
  runsErrorSchema,
  submitRunSchema,
} from "@leafmesh/protocol";
import * as z from "zod";
import type { ApiDependencies } from "../dependencies.ts";
import { ApiError } from "../errors.ts";
import { flatErrorBody, parseFields, readFields, validationFailed } from "../flat-errors.ts";
import { streamRun } from "../follow-run.ts";
import { type Caller, defineRoute, MAX_BODY_BYTES, type Route } from "../route.ts";
import type { StreamLimit } from "../stream-limit.ts";
import { answering, takeDevices } from "./shared.ts";

const refused = {
  401: { description: "No valid API key.", schema: runsErrorSchema },
  404: { description: "There is no such run, or it is not the caller's.", schema: runsErrorSchema },
};
const cursor = z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER).optional();
const accepted = { description: "Accepted.", schema: runAcceptedSchema };

export function runRoutes(api: ApiDependencies, streams: StreamLimit): readonly Route[] {
  const { engine, backend } = api;
  const shared = { tag: "runs", access: "key", errorBody: flatErrorBody } as const;

  /** The run, if it is the caller's and was submitted here; somebody else's reads as one that does not exist. */
  const own = async (runId: string | undefined, caller: Caller): Promise<RunRecord> => {
    const run = await engine.run(runId ?? "");
    const session = run?.options && (await engine.session(run.sessionId));
    if (!run || !session || session.owner !== caller.owner) {
      throw new ApiError(404, "no_such_run", "There is no such run.");
    }
    return run;
  };

  /** A repeat of a request may find its run anywhere. */
  const submitted = async ({ runId, sessionId }: Submitted, mayBeRepeat: boolean) => {
    const status = mayBeRepeat ? ((await engine.run(runId))?.status ?? "queued") : "queued";
    return { status: 202, body: { run_id: runId, session_id: sessionId, status } };
  };

  return [
    defineRoute({
      ...shared,
      method: "POST",
      path: "/runs",
      summary: "Submit a run",
      description: "The header `Idempotency-Key` makes a repeat of the same request lead to the same run for a day.",
      documentedBody: submitRunSchema,
      answers: {
        202: accepted,
        401: refused[401],
        404: { description: "There is no such agent.", schema: runsErrorSchema },
        409: { description: "The Idempotency-Key came with another request before.", schema: runsErrorSchema },
        422: { description: "The body is not as documented.", schema: runsErrorSchema },
        429: { description: "Too many runs wait in this conversation, or too many are open.", schema: runsErrorSchema },
      },
      async handle({ caller, incoming }) {
        const body = await readFields(incoming, submitRunSchema, MAX_BODY_BYTES);
        const timeoutSeconds = body.client_tool_timeout_s ?? DEFAULT_CLIENT_TOOL_TIMEOUT_SECONDS;
        const idempotency = takeIdempotency(incoming, ["submit", body]);
        const run = await answeringFields(() =>
          engine.submitRun({
            agent: body.agent_slug,
            owner: caller.owner,
            sessionKey: body.session_key,
            message: body.input.message,
            devices: takeDevices(body),
            timeoutMs: body.timeout_s === undefined ? undefined : body.timeout_s * 1000,
            run: {
              clientTools: body.client_tools,
              clientToolTimeoutMs: timeoutSeconds * 1000,
              callbackUrl: body.callback_url,
            },
            idempotency,
          }),
        );
        return submitted(run, idempotency !== undefined);
      },
    }),

    defineRoute({
      ...shared,
      method: "GET",
      path: "/runs/{run_id}/stream",
      summary: "The run's frames: from the first, then live",
      description:
        "Server-sent events; `id:` is the frame's `seq`. `Last-Event-ID` or `after_seq` (exclusive) resumes. The stream " +
        "stays open while the run waits for its client and ends after `run.end`.",
      query: z.object({ after_seq: cursor }),
      answers: {
        200: { description: "Frames of protocol 2.", contentType: "text/event-stream" },
        ...refused,
        503: { description: "limits.max_streams is reached; Retry-After says when to come back." },
      },
      async handle({ params, query, caller, incoming, outgoing }) {
        const run = await own(params.run_id, caller);
        const release = streams.take();
        try {
          await streamRun(api, run, lastEventId(incoming) ?? query.after_seq ?? 0, outgoing);
        } finally {
          release();
        }
        return { streamed: true };
      },
    }),

    defineRoute({
      ...shared,
      method: "GET",
      path: "/runs/{run_id}/events",
      summary: "The run's frames, without a stream",
      query: z.object({
        type: z
          .string()
          .max(200)
          .optional()
          .meta({ description: "Only frames of this type, or of several with commas." }),
        after_seq: cursor,
        limit: z.coerce.number().int().min(1).max(1_000).default(500),
      }),
      answers: {
        200: {
          description: "In order of `seq`.",
          schema: z.object({ events: z.array(runFrameSchema), has_more: z.boolean() }),
        },
        ...refused,
      },
      async handle({ params, query, caller }) {
        const run = await own(params.run_id, caller);
        const { type, after_seq: after, limit } = query;
        const found = await backend.frames(run.id, { after, limit: limit + 1, types: type?.split(",") });
        const events = found.slice(0, limit).map(frameView);
        return { status: 200, body: { events, has_more: found.length > limit } };
      },
    }),

    defineRoute({
      ...shared,
      method: "GET",
      path: "/runs/{run_id}/state",
      summary: "Where the run stands, and what it waits for",
      answers: { 200: { description: "The run.", schema: runStateSchema }, ...refused },
      async handle({ params, caller }) {
        return { status: 200, body: await runState(backend, await own(params.run_id, caller)) };
      },
    }),

    defineRoute({
      ...shared,
      method: "POST",
      path: "/runs/{run_id}/resume",
      summary: "Answer what a suspended run waits for",
      description: "The same answer again is accepted and changes nothing. A refusal changes nothing either.",
      documentedBody: resumeSchema.extend({ value: z.union([resultValueSchema, approvalValueSchema]) }),
      answers: {
        202: accepted,
        ...refused,
        409: { description: "The run does not take this answer now.", schema: runsErrorSchema },
        422: { description: "The answer is not as documented, or not to what is waited for.", schema: runsErrorSchema },
      },
      async handle({ params, caller, incoming }) {
        const run = await own(params.run_id, caller);
        const answer = toAnswer(await readFields(incoming, resumeSchema, MAX_RESUME_BYTES));
        const resumed = await answering(() => engine.resumeRun(run.id, answer, caller.owner));
        if (resumed.status === "refused") {
          const { code, message, details } = resumed;
          const status = code === "tool_results_mismatch" ? 422 : 409;
          throw new ApiError(status, code, message, { details: details && toJson(details) });
        }
        const { id, sessionId, status } = resumed.run;
        return { status: 202, body: { run_id: id, session_id: sessionId, status } };
      },
    }),

    defineRoute({
      ...shared,
      method: "POST",
      path: "/runs/{run_id}/cancel",
      summary: "End a run",
      description: "What it waits for is settled first. A run that has ended stays as it is.",
      answers: { 200: { description: "The run as it has ended.", schema: runAcceptedSchema }, ...refused },
      async handle({ params, caller }) {
        const { id } = await own(params.run_id, caller);
        const run = await answering(() => engine.cancelRun(id));
        return { status: 200, body: { run_id: id, session_id: run.sessionId, status: run.status } };
      },
    }),

    defineRoute({
      ...shared,
      method: "POST",
      path: "/runs/{run_id}/replay",
      summary: "A new run from a run's input",
      description: 'In a conversation of its own, and always with `client_tools: "end"`: it waits for nobody.',
      answers: { 202: accepted, ...refused },
      async handle({ params, caller, incoming }) {
        const original = await own(params.run_id, caller);
        const idempotency = takeIdempotency(incoming, ["replay", original.id]);
        const clientToolTimeoutMs = DEFAULT_CLIENT_TOOL_TIMEOUT_SECONDS * 1000;
        const run = await answeringFields(() =>
          engine.submitRun({
            agent: original.agent,
            owner: caller.owner,
            message: original.input,
            run: { clientTools: "end", clientToolTimeoutMs, replayOf: original.id },
            idempotency,
          }),
        );
        return submitted(run, idempotency !== undefined);
      },
    }),
  ];
}

/** An answer of a contract that nobody knows is judged like any other: the run says what it waits for. */
function toAnswer({ contract, value }: z.output<typeof resumeSchema>): Answer {
  if (contract === "result") {
    return { contract, results: parseFields(resultValueSchema, value, ["value"]).tool_results };
  }
  if (contract === "approval") return { contract, approval: parseFields(approvalValueSchema, value, ["value"]) };
  return { contract: "unknown", name: contract };
}

/** As `answering`, with the place of what is wrong with a field. */
async function answeringFields<Value>(work: () => Promise<Value>): Promise<Value> {
  try {
    return await answering(work);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "bad_callback_url") throw error;
    throw validationFailed([{ field: "callback_url", code: error.code, message: error.message }]);
  }
}

function takeIdempotency(incoming: IncomingMessage, request: unknown) {
  const key = incoming.headers["idempotency-key"];
  if (key === undefined) return undefined;
  if (typeof key !== "string" || !/^[\x21-\x7e]{1,256}$/.test(key)) {
    const message = "must be 1 to 256 visible ASCII characters";
    throw validationFailed([{ field: "Idempotency-Key", code: "invalid_format", message }]);
  }
  return { key, digest: createHash("sha256").update(JSON.stringify(request)).digest("hex") };
}

function lastEventId({ headers }: IncomingMessage): number | undefined {
  const given = headers["last-event-id"];
  return typeof given === "string" && /^\d{1,15}$/.test(given) ? Number(given) : undefined;
}

function toJson({
  errors,
  pending_tool_call_ids,
}: NonNullable<
  Extract<Awaited<ReturnType<ApiDependencies["engine"]["resumeRun"]>>, { status: "refused" }>["details"]
>) {
  return {
    errors: errors.map(({ field, code, value = "" }) => ({ field, code, value })),
    pending_tool_call_ids: [...pending_tool_call_ids],
  };
}
