/** Links of text messages: the page, and the ring behind a code, once. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { promisify } from "node:util";
import { gzip } from "node:zlib";

import { isOpenCall } from "@leafmesh/core/calls";
import { joinCodeSchema, linkedRequestSchema, type OpenedJoinLink, openedLinkSchema } from "@leafmesh/protocol";
import type { ApiDependencies, LinkState } from "../dependencies.ts";
import { ApiError } from "../errors.ts";
import { joinPage, PAGE_SCRIPT } from "../join-page.ts";
import { defineRoute, type Route, type RouteAnswer, SECURITY_HEADERS } from "../route.ts";
import { refusals } from "./shared.ts";

/** The code is a secret for one room: nothing on the way keeps what it opens. */
const NOT_KEPT = { "cache-control": "no-store" };

export function linkRoutes(api: ApiDependencies): readonly Route[] {
  let compressed: Promise<Buffer> | undefined;
  const compress = (script: string): Promise<Buffer> => {
    compressed ??= promisify(gzip)(script);
    return compressed;
  };

  return [
    defineRoute({
      method: "GET",
      path: "/j/{code}",
      summary: "The page behind the link of a text message",
      description: "Says whether the link still works, and nothing of the request: fetching it changes nothing.",
      tag: "devices",
      access: "none",
      answers: {
        200: { description: "A page that opens the link after a tap.", contentType: "text/html" },
        404: { description: "The page says that there is no such link.", contentType: "text/html" },
        410: { description: "The page says that the link was used, or its time is over.", contentType: "text/html" },
      },
      async handle({ params, outgoing }) {
        const page = joinPage(await linkState(api, params.code ?? ""), api.mesh().name);
        return sendText(outgoing, page.status, page.headers, page.html);
      },
    }),

    defineRoute({
      method: "GET",
      path: `/j/${PAGE_SCRIPT}`,
      summary: "The program of that page",
      tag: "devices",
      access: "none",
      answers: {
        200: { description: "The device kit, and what the page does with it.", contentType: "text/javascript" },
      },
      async handle({ incoming, outgoing }) {
        const script = await api.joinPageScript();
        const headers = {
          "content-type": "text/javascript; charset=utf-8",
          "cache-control": "no-cache",
          vary: "accept-encoding",
        };
        if (!takesGzip(incoming)) return sendText(outgoing, 200, headers, script);
        return sendText(outgoing, 200, { ...headers, "content-encoding": "gzip" }, await compress(script));
      },
    }),

    defineRoute({
      method: "POST",
      path: "/j/{code}",
      summary: "Open the link of a text message",
      description:
        "Gives the ring out, once, to whoever brings the code: the page of the mesh, or the operator's own page or app " +
        "after a tap. Needs no API key. A page elsewhere needs its origin in `server.cors_origins`.",
      tag: "devices",
      access: "none",
      answers: {
        200: { description: "The ring, and what is asked.", schema: openedLinkSchema },
        404: { description: "There is no such link, or not any more.", schema: refusals[404].schema },
        410: {
          description: "The link was used (`link_used`) or its time is over (`link_over`).",
          schema: refusals[404].schema,
        },
      },
      async handle({ params }) {
        return { status: 200, headers: NOT_KEPT, body: await openLink(api, params.code ?? "") };
      },
    }),
  ];
}

async function openLink(api: ApiDependencies, code: string): Promise<OpenedJoinLink> {
  const state = await linkState(api, code);
  if (state !== "open") throw refusedLink(state);
  const opened = await api.links.open(code);
  if (opened.state !== "open") throw refusedLink(opened.state);
  const call = await api.backend.call(opened.ask);
  const { action = "", inputs = {}, reason } = call?.arguments ?? {};
  const request = linkedRequestSchema.parse({ action, inputs, reason });
  return { ring: opened.ring, expires_in_ms: Math.max(opened.leftMs, 0), request, mesh_keys: [...api.meshKeys] };
}

/** An ask can end before its link does: the run was cancelled, or another process took it over. */
export async function linkState(api: ApiDependencies, code: string): Promise<LinkState> {
  if (!joinCodeSchema.safeParse(code).success) return "unknown";
  const { state, ask } = await api.links.look(code);
  if (state !== "open" || ask === undefined) return state;
  const call = await api.backend.call(ask);
  return call && isOpenCall(call) ? "open" : "over";
}

const REFUSALS = {
  used: [410, "link_used", "This link was used already: it works once."],
  over: [410, "link_over", "The time of this request is over."],
  unknown: [404, "no_such_link", "There is no such link, or not any more."],
} as const satisfies Record<Exclude<LinkState, "open">, readonly [number, string, string]>;

function refusedLink(state: Exclude<LinkState, "open">): ApiError {
  const [status, code, message] = REFUSALS[state];
  return new ApiError(status, code, message, { headers: NOT_KEPT });
}

function takesGzip({ headers }: IncomingMessage): boolean {
  return /\bgzip\b/.test(String(headers["accept-encoding"] ?? ""));
}

/** `HEAD` gets the headers alone, which is Node's doing. */
function sendText(
  outgoing: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string>>,
  body: string | Buffer,
): RouteAnswer {
  const length = String(Buffer.byteLength(body));
  outgoing.writeHead(status, { ...SECURITY_HEADERS, ...headers, "content-length": length }).end(body);
  return { streamed: true };
}
