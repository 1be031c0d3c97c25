/** What a server's answer says about when to come back. */

/** Names in lower case, as Node has them. */
type AnswerHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

/** No wait that a server asks for counts as longer than this. */
export const MAX_RETRY_AFTER_MS = 60 * 60 * 1000;

/**
 * Milliseconds to wait, from `retry-after-ms` (OpenAI, Azure) or `retry-after` (seconds or an HTTP date,
 * https://www.rfc-editor.org/rfc/rfc9110#field.retry-after); at most an hour. `undefined` when neither makes sense.
 */
export function readRetryAfter(headers: AnswerHeaders, nowMs: number): number | undefined {
  const waitMs = readNumber(headers["retry-after-ms"]) ?? readSeconds(headers["retry-after"], nowMs);
  return waitMs === undefined ? undefined : Math.min(Math.max(Math.round(waitMs), 0), MAX_RETRY_AFTER_MS);
}

function readSeconds(value: string | readonly string[] | undefined, nowMs: number): number | undefined {
  const seconds = readNumber(value);
  if (seconds !== undefined) return seconds * 1000;
  if (typeof value !== "string" || !/^[A-Z][a-z]{2},? /.test(value)) return undefined;
  const at = Date.parse(value);
  return Number.isNaN(at) ? undefined : at - nowMs;
}

function readNumber(value: string | readonly string[] | undefined): number | undefined {
  return typeof value === "string" && /^\d{1,15}(?:\.\d+)?$/.test(value.trim()) ? Number(value) : undefined;
}
