/** Links of text messages: the ring behind a code, once. */

import { isOpenCall } from "@leafmesh/core/calls";
import { joinCodeSchema, linkedRequestSchema, type OpenedJoinLink, openedLinkSchema } from "@leafmesh/protocol";
import type { ApiDependencies, LinkState } from "../dependencies.ts";
import { ApiError } from "../errors.ts";
import { defineRoute, type Route } from "../route.ts";
import { refusals } from "./shared.ts";

/** The code is a secret for one room: nothing on the way keeps what it opens. */
const NOT_KEPT = { "cache-control": "no-store" };

export function linkRoutes(api: ApiDependencies): readonly Route[] {
  return [
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
  return { ring: opened.ring, expires_in_ms: Math.max(opened.leftMs, 0), request };
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
