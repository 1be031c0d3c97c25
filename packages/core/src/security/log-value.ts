/** Anything at all as a small, plain value for a log line: bounded in every direction, never throws. */
import { Secret } from "@leafmesh/protocol";
import type { Redactor } from "./redactor.ts";

export type LogValue = string | number | boolean | null | readonly LogValue[] | { readonly [key: string]: LogValue };

const MAX_DEPTH = 5;
const MAX_ENTRIES = 50;
const MAX_CHARACTERS = 2_000;
/** What of a long text is looked at for secrets; the rest is dropped unseen. */
const MAX_SEARCHED = 16_000;
const MAX_CAUSES = 5;

export function logText(text: string, redactor: Redactor): string {
  const searched = redactor.clean(text.slice(0, MAX_SEARCHED));
  // A text that was cut may end in the first half of a secret, which is not recognised as one.
  const known = text.length > MAX_SEARCHED ? searched.slice(0, -redactor.longest || undefined) : searched;
  if (known.length <= MAX_CHARACTERS && known.length === searched.length) return known.toWellFormed();
  return `${known.slice(0, MAX_CHARACTERS).toWellFormed()}… (${text.length} characters)`;
}

/** Every level of an error's `cause` chain is one entry of `causes`, so that a line shows all of them. */
export function logValue(value: unknown, redactor: Redactor): LogValue {
  return toLogValue(value, redactor, 0, new Set());
}

function toLogValue(value: unknown, redactor: Redactor, depth: number, above: Set<object>): LogValue {
  switch (typeof value) {
    case "string":
      return logText(value, redactor);
    case "number":
      return Number.isFinite(value) ? value : String(value);
    case "boolean":
      return value;
    case "bigint":
      return String(value);
    case "object":
      return value === null ? null : objectValue(value, redactor, depth, above);
    default:
      return `[${typeof value}]`;
  }
}

function objectValue(value: object, redactor: Redactor, depth: number, above: Set<object>): LogValue {
  if (value instanceof Secret) return value.toString();
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return `[${value.byteLength} bytes]`;
  if (above.has(value)) return "[circular]";
  if (depth >= MAX_DEPTH) return "[too deep]";
  above.add(value);
  try {
    if (value instanceof Error) return errorValue(value, redactor, depth, above);
    if (value instanceof Map) return entriesValue(value.entries(), redactor, depth, above);
    if (Array.isArray(value) || value instanceof Set) return listValue([...value], redactor, depth, above);
    if ("toJSON" in value && typeof value.toJSON === "function") {
      return toLogValue(value.toJSON(), redactor, depth + 1, above);
    }
    return entriesValue(Object.entries(value), redactor, depth, above);
  } catch {
    return "[unreadable]";
  } finally {
    above.delete(value);
  }
}

function listValue(list: readonly unknown[], redactor: Redactor, depth: number, above: Set<object>): LogValue {
  const shown = list.slice(0, MAX_ENTRIES).map((entry) => toLogValue(entry, redactor, depth + 1, above));
  return list.length > MAX_ENTRIES ? [...shown, `… (${list.length} entries)`] : shown;
}

function entriesValue(
  entries: Iterable<readonly [unknown, unknown]>,
  redactor: Redactor,
  depth: number,
  above: Set<object>,
): LogValue {
  const shown: [string, LogValue][] = [];
  for (const [key, entry] of entries) {
    if (entry === undefined) continue;
    if (shown.length === MAX_ENTRIES) {
      shown.push(["…", "more entries"]);
      break;
    }
    shown.push([logText(String(key), redactor), toLogValue(entry, redactor, depth + 1, above)]);
  }
  return Object.fromEntries(shown);
}

function errorValue(error: Error, redactor: Redactor, depth: number, above: Set<object>): LogValue {
  const causes: LogValue[] = [];
  for (let cause = error.cause; cause !== undefined && causes.length < MAX_CAUSES; cause = causeOf(cause)) {
    if (typeof cause === "object" && cause !== null && above.has(cause)) break;
    causes.push(cause instanceof Error ? oneError(cause, redactor) : toLogValue(cause, redactor, depth + 1, above));
  }
  const errors = error instanceof AggregateError ? listValue(error.errors, redactor, depth, above) : undefined;
  return {
    ...oneError(error, redactor),
    ...(typeof error.stack === "string" ? { stack: logText(error.stack, redactor) } : {}),
    ...(errors === undefined ? {} : { errors }),
    ...(causes.length > 0 ? { causes } : {}),
  };
}

function causeOf(cause: unknown): unknown {
  return cause instanceof Error ? cause.cause : undefined;
}

function oneError(error: Error, redactor: Redactor): { [key: string]: LogValue } {
  const code = "code" in error ? error.code : undefined;
  return {
    name: logText(String(error.name), redactor),
    message: logText(String(error.message), redactor),
    ...(typeof code === "string" || typeof code === "number" ? { code } : {}),
  };
}
