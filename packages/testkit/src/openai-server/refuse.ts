/** Whom and what the server turns away before its model sees anything, with the status and wording of the real API. */
import type { ParsedRequest } from "./chat-request.ts";
import { findRefusal } from "./strict-rules.ts";

export interface RefuseOptions {
  readonly apiKey?: string | undefined;
  readonly models?: readonly string[] | undefined;
  readonly refusedFields?: readonly string[] | undefined;
  readonly strict?: boolean | undefined;
}

export interface ErrorAnswer {
  readonly status: number;
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string | null;
  };
}

/** The error that the request gets, or `undefined` when it is welcome. */
export function refuse(
  head: {
    readonly method?: string | undefined;
    readonly path?: string | undefined;
    readonly authorization?: string | undefined;
  },
  parsed: ParsedRequest,
  options: RefuseOptions,
): ErrorAnswer | undefined {
  if (head.method !== "POST" || head.path !== "/v1/chat/completions")
    return refusal(404, `Invalid URL (${head.method} ${head.path})`, null, null);
  return refuseKey(head.authorization, options.apiKey) ?? refuseBody(parsed, options);
}

function refuseKey(authorization: string | undefined, apiKey: string | undefined): ErrorAnswer | undefined {
  const given = authorization?.replace(/^Bearer /, "");
  if (apiKey === undefined || given === apiKey) return undefined;
  const message =
    given === undefined
      ? "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY)."
      : `Incorrect API key provided: ${given}. You can find your API key at https://platform.openai.com/account/api-keys.`;
  return refusal(401, message, null, "invalid_api_key");
}

function refuseBody(parsed: ParsedRequest, options: RefuseOptions): ErrorAnswer | undefined {
  const { request } = parsed;
  if (!request) return refusal(400, parsed.problem.message, parsed.problem.param, null);
  for (const field of options.refusedFields ?? []) {
    if (request[field] === undefined) continue;
    const instead = field === "max_tokens" ? " Use 'max_completion_tokens' instead." : "";
    return refusal(
      400,
      `Unsupported parameter: '${field}' is not supported with this model.${instead}`,
      field,
      "unsupported_parameter",
    );
  }
  if (options.models && !options.models.includes(request.model)) {
    return refusal(
      404,
      `The model \`${request.model}\` does not exist or you do not have access to it.`,
      null,
      "model_not_found",
    );
  }
  const found = options.strict === false ? undefined : findRefusal(request);
  return found && refusal(400, found.message, found.param, found.code);
}

function refusal(status: number, message: string, param: string | null, code: string | null): ErrorAnswer {
  return { status, error: { message, type: "invalid_request_error", param, code } };
}
