/** Where the session's client brings the results of the calls that it executed. */
import type { IncomingMessage } from "node:http";
import type { SessionRecord } from "@leafmesh/core";
import {
  deviceToolResultSchema,
  errorBodySchema,
  isJsonDeeperThan,
  openDeviceToolCallsSchema,
} from "@leafmesh/protocol";
import * as z from "zod";
import { readBytes } from "../body.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { BridgeApiError } from "../errors.ts";
import { EXECUTES_DEVICE_TOOLS, executesDeviceTools } from "../executor-header.ts";
import { type Caller, defineRoute, type Route, type RouteAnswer } from "../route.ts";
import { refusals } from "./shared.ts";

/** An image in base64 and the JSON beside it. */
const MAX_RESULT_BODY_BYTES = 8 * 1024 * 1024;
const MAX_DEPTH = 64;

const bridgeErrorSchema = errorBodySchema.extend({ message: z.string() });

export function deviceToolRoutes({ engine }: ApiDependencies): readonly Route[] {
  const own = async (sessionId: string | undefined, caller: Caller): Promise<SessionRecord> => {
    const session = await engine.session(sessionId ?? "");
    if (!session || session.owner !== caller.owner) {
      throw new BridgeApiError(404, "no_such_session", "There is no such session.");
    }
    return session;
  };

  return [
    defineRoute({
      method: "GET",
      path: "/api/sessions/{session_id}/device_tools",
      summary: "The calls that wait for the session's client",
      description: `What an event lost on the way would have brought. With the header \`${EXECUTES_DEVICE_TOOLS}\` each has its token.`,
      tag: "device tools",
      access: "key",
      answers: { 200: { description: "Oldest first.", schema: openDeviceToolCallsSchema }, ...refusals },
      async handle({ params, caller, incoming }) {
        const session = await own(params.session_id, caller);
        const calls = await engine.openDeviceToolCalls(session.id);
        if (executesDeviceTools(incoming)) return { status: 200, body: { calls } };
        return { status: 200, body: { calls: calls.map(({ call_token: _token, ...call }) => call) } };
      },
    }),

    defineRoute({
      method: "POST",
      path: "/api/sessions/{session_id}/device_tools/{call_id}/result",
      summary: "Bring the result of a device tool call",
      description:
        "The first valid result resolves the call; it is stored before this answers. Refusals leave the call as it was.",
      tag: "device tools",
      access: "key",
      documentedBody: deviceToolResultSchema,
      answers: {
        200: { description: "The model will read the result.", schema: z.object({ resolved: z.literal(true) }) },
        400: { description: "The body is not as documented.", schema: bridgeErrorSchema },
        401: refusals[401],
        403: { description: "The token is not the call's.", schema: bridgeErrorSchema },
        404: { description: "No such call waits: unknown, or past its deadline.", schema: bridgeErrorSchema },
        409: {
          description: "A result stands already; `same` says whether it is equal to this one.",
          schema: bridgeErrorSchema.extend({ same: z.boolean() }),
        },
        410: { description: "The conversation has ended.", schema: bridgeErrorSchema },
        413: { description: "The body is too large.", schema: errorBodySchema },
      },
      async handle({ params, caller, incoming }): Promise<RouteAnswer> {
        const session = await own(params.session_id, caller);
        if (session.endedAt !== undefined) {
          throw new BridgeApiError(410, "session_terminated", "The session has ended; nobody reads results any more.", {
            reason: "session_ended",
            retryable: false,
          });
        }
        const answered = await engine.answerDeviceTool({
          sessionId: session.id,
          callId: params.call_id ?? "",
          owner: caller.owner,
          body: await readLoosely(incoming),
        });
        switch (answered.status) {
          case "resolved":
            return { status: 200, body: { resolved: true } };
          case "malformed":
            throw new BridgeApiError(400, "invalid_result", answered.message);
          case "wrong_token":
            throw new BridgeApiError(403, "wrong_call_token", "call_token is not the one of this call.");
          case "no_such_call":
            throw new BridgeApiError(404, "no_such_call", "No call of this id waits for a result.");
          case "already_resolved":
            throw new BridgeApiError(409, "already_resolved", "A result of this call was delivered before.", {
              same: answered.same,
            });
          default:
            return answered satisfies never;
        }
      },
    }),
  ];
}

/** The posted JSON whatever its content type; `undefined` for what is not JSON. */
async function readLoosely(incoming: IncomingMessage): Promise<unknown> {
  const text = (await readBytes(incoming, MAX_RESULT_BODY_BYTES)).toString("utf8");
  if (isJsonDeeperThan(text, MAX_DEPTH)) {
    throw new BridgeApiError(400, "invalid_result", `The body is nested more than ${MAX_DEPTH} levels deep.`);
  }
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
