import type { Clock, LogFields, Logger } from "@leafmesh/protocol";
import { type LogValue, logText, logValue } from "./log-value.ts";
import { createRedactor, type Redactor } from "./redactor.ts";

export const LOG_LEVELS = ["debug", "info", "warn", "error", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Where lines go; `process.stderr` is one. */
export interface LogStream {
  write(line: string): boolean;
  /** Bytes that wait to be written. */
  readonly writableLength: number;
}

export interface LoggerOptions {
  /** Lines below it are not written. */
  readonly level: LogLevel;
  readonly stream: LogStream;
  /** `json`: one JSON object a line, for machines. `pretty`: for people. */
  readonly format: "json" | "pretty";
  readonly clock: Clock;
  /** Colours of the level, in `pretty`. */
  readonly colors?: boolean | undefined;
}

/** A logger that never prints a secret it knows. Values registered with `redact.add` are blanked out wherever they stand. */
export interface RedactingLogger extends Logger {
  readonly redact: Pick<Redactor, "add">;
}

const MAX_LINE_CHARACTERS = 16_000;
/** A reader that stalls must not fill the memory: lines are dropped then, and counted. */
const MAX_WAITING_BYTES = 1024 * 1024;

/**
 * Makes a logger. One event is one line: line breaks and every other control character in it are escaped, and it is
 * at most some 16 000 characters long.
 */
export function createLogger({ level, stream, format, clock, colors = false }: LoggerOptions): RedactingLogger {
  const redactor = createRedactor();
  const threshold = LOG_LEVELS.indexOf(level);
  let dropped = 0;

  const render = (of: LogLevel, message: string, fields: LogFields): string => {
    const event = {
      time: new Date(clock.nowMs()).toISOString(),
      level: of,
      message: logText(message, redactor),
      fields: plainFields(fields, redactor),
    };
    return `${format === "json" ? jsonLine(event) : prettyLine(event, colors)}\n`;
  };

  const log = (of: LogLevel, message: string, fields: LogFields = {}): void => {
    if (LOG_LEVELS.indexOf(of) < threshold) return;
    if (stream.writableLength > MAX_WAITING_BYTES) {
      dropped += 1;
      return;
    }
    if (dropped > 0) {
      const lines = dropped;
      dropped = 0;
      stream.write(render("warn", "log lines were dropped because their reader was too slow", { lines }));
    }
    stream.write(render(of, message, fields));
  };

  return {
    debug: (message, fields) => log("debug", message, fields),
    info: (message, fields) => log("info", message, fields),
    warn: (message, fields) => log("warn", message, fields),
    error: (message, fields) => log("error", message, fields),
    redact: { add: redactor.add },
  };
}

interface LogEvent {
  readonly time: string;
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: readonly (readonly [string, LogValue])[];
}

function plainFields(fields: LogFields, redactor: Redactor): (readonly [string, LogValue])[] {
  const plain = logValue({ ...fields }, redactor);
  return typeof plain === "object" && plain !== null ? Object.entries(plain) : [["fields", plain]];
}

const OWN_KEYS: ReadonlySet<string> = new Set(["time", "level", "message"]);

function jsonLine({ fields, ...own }: LogEvent): string {
  const named = fields.map(([key, value]) => [OWN_KEYS.has(key) ? `${key}_` : key, value] as const);
  const line = escapeControls(JSON.stringify({ ...own, ...Object.fromEntries(named) }));
  if (line.length <= MAX_LINE_CHARACTERS) return line;
  return escapeControls(JSON.stringify({ ...own, cut: `the fields had ${line.length} characters` }));
}

const LEVEL_COLORS: Readonly<Record<LogLevel, string>> = {
  debug: "90",
  info: "36",
  warn: "33",
  error: "31",
  silent: "0",
};

function prettyLine({ time, level, message, fields }: LogEvent, colors: boolean): string {
  const shown = level.toUpperCase().padEnd(5);
  const start = `${time} ${colors ? `\u001b[${LEVEL_COLORS[level]}m${shown}\u001b[0m` : shown} ${escapeText(message)}`;
  const rest = fields.map(([key, value]) => ` ${escapeText(key)}=${escapeControls(JSON.stringify(value))}`).join("");
  return rest.length <= MAX_LINE_CHARACTERS ? start + rest : `${start} (the fields had ${rest.length} characters)`;
}

function escapeText(text: string): string {
  return escapeControls(JSON.stringify(text).slice(1, -1)).replaceAll('\\"', '"');
}

/**
 * JSON escapes the C0 controls alone. A terminal also obeys DEL and the C1 controls, some readers break lines at U+2028
 * and U+2029, and format characters make a line read as another or hide what it holds (https://trojansource.codes).
 */
const OBEYED = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

function escapeControls(json: string): string {
  return json.replace(OBEYED, (character) => character.split("").map(escaped).join(""));
}

function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
