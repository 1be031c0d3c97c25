/** What a call can fail with, and which failures may be tried again. */
import * as z from "zod";
import { parseJson } from "./parse-json.ts";
import { readText } from "./read-text.ts";

/** Longest error body that is looked at. */
const MAX_REFUSAL_CHARACTERS = 1024 * 1024;

interface ErrorFields {
  readonly status: number;
  readonly code: string;
  readonly details?: unknown;
  readonly retryAfterMs?: number | undefined;
  readonly body?: unknown;
  readonly cause?: unknown;
}

/**
 * A call did not work. `code` does not change between versions. The mesh's own codes are in its API's documentation; three
 * come from this library, with status 0 or the status of the answer: `unreachable` (no answer came), `timeout` (none came
 * in time) and `bad_answer` (what came is not what the mesh answers).
 */
export class LeafMeshError extends Error {
  override readonly name = "LeafMeshError";
  /** HTTP status, or 0 when there was no answer. */
  readonly status: number;
  readonly code: string;
  /** What the mesh added, such as the places of a request that are wrong. */
  readonly details: unknown;
  /** What the mesh said in `Retry-After`. */
  readonly retryAfterMs: number | undefined;
  /** The answer's whole body, when it was JSON. */
  readonly body: unknown;

  constructor(message: string, { status, code, details, retryAfterMs, body, cause }: ErrorFields) {
    super(message, { cause });
    this.status = status;
    this.code = code;
    this.details = details;
    this.retryAfterMs = retryAfterMs;
    this.body = body;
  }
}

const RETRYABLE_STATUSES: ReadonlySet<number> = new Set([408, 425, 429, 500, 502, 503, 504]);

/** Whether the same call may work later. Whether it may be *made* again is another question: see `safe` of a request. */
export function mayWorkLater(error: unknown): error is LeafMeshError {
  if (!(error instanceof LeafMeshError)) return false;
  return error.status === 0 || RETRYABLE_STATUSES.has(error.status);
}

/** The three shapes in which the API's faces refuse: `{error: {…}}`, `{code, message, details}`, `{message, error}`. */
const refusalSchema = z.object({
  code: z.string().optional(),
  message: z.string().optional(),
  details: z.json().optional(),
  error: z
    .object({
      code: z.string().optional(),
      message: z.string().optional(),
      reason: z.string().optional(),
      details: z.json().optional(),
    })
    .optional(),
});

/** What the mesh refused with. Never rejects: a body that cannot be read leaves the status to speak. */
export async function readRefusal(response: Response, nowMs: number): Promise<LeafMeshError> {
  const body = await readText(response, MAX_REFUSAL_CHARACTERS).then(parseJson, () => undefined);
  const refusal = refusalSchema.safeParse(body).data;
  const message = refusal?.error?.message ?? refusal?.message ?? refusal?.error?.reason;
  return new LeafMeshError(message ?? `The mesh answered ${response.status}.`, {
    status: response.status,
    code: refusal?.error?.code ?? refusal?.code ?? `http_${response.status}`,
    details: refusal?.error?.details ?? refusal?.details,
    retryAfterMs: readRetryAfter(response.headers.get("retry-after"), nowMs),
    body,
  });
}

/** Seconds or a date, as RFC 9110 has it (https://www.rfc-editor.org/rfc/rfc9110#field.retry-after). */
function readRetryAfter(value: string | null, nowMs: number): number | undefined {
  if (value === null) return undefined;
  const ms = /^\d+$/.test(value.trim()) ? Number(value) * 1000 : Date.parse(value) - nowMs;
  return Number.isFinite(ms) ? Math.max(ms, 0) : undefined;
}
