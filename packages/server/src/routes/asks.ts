import type { ServerResponse } from "node:http";
import { type AskView, askViewSchema } from "@leafmesh/protocol";
import * as z from "zod";
import { readBytes } from "../body.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { ApiError } from "../errors.ts";
import { type Caller, defineRoute, type Route } from "../route.ts";
import { refusals } from "./shared.ts";

const page = z.object({ asks: z.array(askViewSchema) });
const filter = z.object({
  open: z.enum(["true", "false"]).optional().meta({ description: "Only asks that wait, or only those that ended." }),
  limit: z.coerce.number().int().min(1).max(200).default(50),
});

export function askRoutes(api: ApiDependencies): readonly Route[] {
  const owns = async (sessionId: string, caller: Caller): Promise<boolean> => {
    const session = await api.engine.session(sessionId);
    return session !== undefined && session.owner === caller.owner;
  };

  const own = async (askId: string | undefined, caller: Caller): Promise<AskView> => {
    const ask = await api.asks.get(askId ?? "");
    if (!ask || !(await owns(ask.session_id, caller))) throw new ApiError(404, "no_such_ask", "There is no such ask.");
    return ask;
  };

  const open = (value: "true" | "false" | undefined) => (value === undefined ? {} : { open: value === "true" });

  return [
    defineRoute({
      method: "GET",
      path: "/api/sessions/{session_id}/asks",
      summary: "A conversation's asks, newest first",
      tag: "asks",
      access: "key",
      query: filter,
      answers: { 200: { description: "Asks with their timelines.", schema: page }, ...refusals },
      async handle({ params, query, caller }) {
        const sessionId = params.session_id ?? "";
        if (!(await owns(sessionId, caller))) throw new ApiError(404, "no_such_session", "There is no such session.");
        const asks = await api.asks.list({ sessionId, ...open(query.open), limit: query.limit });
        return { status: 200, body: { asks } };
      },
    }),

    defineRoute({
      method: "GET",
      path: "/api/asks",
      summary: "The caller's asks across conversations, newest first",
      tag: "asks",
      access: "key",
      query: filter,
      answers: { 200: { description: "Asks with their timelines.", schema: page }, 401: refusals[401] },
      async handle({ query, caller }) {
        const asks = await api.asks.list({ ...open(query.open), limit: query.limit });
        const mine = await Promise.all(asks.map(async (ask) => ((await owns(ask.session_id, caller)) ? [ask] : [])));
        return { status: 200, body: { asks: mine.flat() } };
      },
    }),

    defineRoute({
      method: "GET",
      path: "/api/asks/{ask_id}",
      summary: "One ask with its timeline",
      tag: "asks",
      access: "key",
      answers: { 200: { description: "The ask.", schema: askViewSchema }, ...refusals },
      async handle({ params, caller }) {
        return { status: 200, body: await own(params.ask_id, caller) };
      },
    }),

    defineRoute({
      method: "POST",
      path: "/api/asks/{ask_id}/cancel",
      summary: "Cancel an ask",
      description: "Before the task was sent nothing happened; afterwards the outcome says that it may have.",
      tag: "asks",
      access: "key",
      answers: {
        202: { description: "It is being ended.", schema: z.object({ ask_id: z.string() }) },
        ...refusals,
        409: { description: "It has an outcome already.", schema: refusals[404].schema },
      },
      async handle({ params, caller }) {
        const ask = await own(params.ask_id, caller);
        const result = await api.asks.cancel(ask.ask_id);
        if (result === "already_settled") {
          throw new ApiError(409, "already_settled", "The ask has its outcome already.");
        }
        if (result === "unknown") {
          throw new ApiError(409, "not_here", "The process that drives this ask is not this one, or is restarting.");
        }
        return { status: 202, body: { ask_id: ask.ask_id } };
      },
    }),

    defineRoute({
      method: "PUT",
      path: "/api/asks/{ask_id}/uploads/{name}",
      summary: "A device brings a file for its reply",
      description: "Authorised by the one-use token of the task: `Authorization: Bearer <token>`. No API key.",
      tag: "asks",
      access: "own",
      rawBody: ["image/jpeg", "image/png", "image/webp", "image/gif", "application/json", "text/plain"],
      answers: {
        201: { description: "Stored.", schema: z.object({ name: z.string(), size: z.int() }) },
        400: { description: "The name or the content is not allowed.", schema: refusals[400].schema },
        401: { description: "The token is wrong, used or expired.", schema: refusals[400].schema },
        413: { description: "Larger than the task's `max_bytes`.", schema: refusals[400].schema },
        415: { description: "A type that is not taken, or content of another type.", schema: refusals[400].schema },
      },
      async handle({ params, incoming, outgoing }) {
        const token = /^Bearer ([A-Za-z0-9_-]{1,256})$/.exec(incoming.headers.authorization ?? "")?.[1];
        const callId = params.ask_id ?? "";
        if (!token || !(await api.uploads.expects(callId, token))) throw refusedUpload("bad_token", outgoing);
        const content = await readBytes(incoming, api.uploads.maxBytes);
        const stored = await api.uploads.accept({
          callId,
          name: params.name ?? "",
          token,
          mediaType: (incoming.headers["content-type"] ?? "").split(";")[0]?.trim().toLowerCase() ?? "",
          content,
        });
        if (!stored.ok) throw refusedUpload(stored.code, outgoing);
        return { status: 201, body: { name: params.name, size: stored.size } };
      },
    }),
  ];
}

const UPLOAD_REFUSALS = {
  bad_token: [401, "The upload token is wrong, used or expired."],
  used: [401, "The upload token is wrong, used or expired."],
  expired: [401, "The upload token is wrong, used or expired."],
  too_large: [413, "The file is larger than the task allows."],
  bad_type: [415, "Send a JPEG, PNG, WebP or GIF image, JSON or plain text, with the matching content-type."],
  bad_name: [400, "A file name is 1 to 64 letters, digits, dots, hyphens or underscores."],
} as const satisfies Record<string, readonly [number, string]>;

function refusedUpload(code: keyof typeof UPLOAD_REFUSALS, outgoing: ServerResponse): ApiError {
  const [status, message] = UPLOAD_REFUSALS[code];
  outgoing.setHeader("connection", "close");
  return new ApiError(status, code === "used" || code === "expired" ? "bad_token" : code, message);
}
