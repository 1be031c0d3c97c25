/** A tool of the mesh: its arguments are POSTed to an address of the operator, and the answer is the result. */

import { AddressRefused, AnswerTooLarge, type GuardedAnswer, type GuardedFetch } from "@leafmesh/guarded-fetch";
import type { HttpTool } from "../config/mesh.ts";
import { RunInterrupted } from "../runs/run-control.ts";
import type { Tool, ToolResult, ToolScope } from "../tools/contract.ts";

const MAX_ANSWER_BYTES = 1024 * 1024;
/** `tool_call_timeout` ends a call earlier; this is only the last bound. */
const LONGEST_CALL_MS = 300_000;

export function createHttpTool(
  { name, description, inputSchema, url, headers = {}, requiresApproval }: HttpTool,
  fetch: Pick<GuardedFetch, "postOperator">,
): Tool {
  return {
    definition: { name, description, parameters: inputSchema },
    ownDeadline: false,
    requiresApproval,
    async execute(scope) {
      try {
        const answer = await fetch.postOperator({
          url,
          headers: {
            ...Object.fromEntries(Object.entries(headers).map(([header, value]) => [header, value.reveal()])),
            "content-type": "application/json",
            "idempotency-key": callName(scope),
          },
          body: JSON.stringify(scope.invocation.arguments),
          timeoutMs: LONGEST_CALL_MS,
          maxBytes: MAX_ANSWER_BYTES,
          signal: scope.signal,
        });
        return toResult(answer);
      } catch (error) {
        if (scope.signal.aborted && scope.signal.reason instanceof RunInterrupted) throw error;
        return { success: false, content: `error: ${whyFailed(error)}` };
      }
    },
  };
}

/** The same for every attempt at one call, so that the service can tell a repeat. */
function callName({ invocation: { runId, turn, position } }: ToolScope): string {
  return `${runId}.${turn}.${position}`;
}

function toResult({ status, body }: GuardedAnswer): ToolResult {
  const success = status >= 200 && status < 300;
  if (success) return { success, content: body };
  return { success, content: `error: the tool answered with the status ${status}. ${body}`.trimEnd() };
}

function whyFailed(error: unknown): string {
  if (error instanceof AddressRefused) return "the tool's address is not allowed. Nothing was sent.";
  if (error instanceof AnswerTooLarge) return "the tool's answer is too large. It has happened all the same.";
  if (isConnectionRefused(error)) return "the tool could not be reached. Nothing was sent.";
  return "the tool did not answer. It may have happened; check before repeating it.";
}

/** The codes of a connection that was never made. */
const NEVER_CONNECTED = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"]);

function isConnectionRefused(error: unknown): boolean {
  return error instanceof Error && "code" in error && NEVER_CONNECTED.has(String(error.code));
}
