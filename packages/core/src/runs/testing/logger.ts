import type { LogFields, Logger } from "@leafmesh/protocol";

export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly fields: LogFields | undefined;
}

export function recordingLogger(): Logger & { readonly lines: LogLine[] } {
  const lines: LogLine[] = [];
  const log = (level: string) => (message: string, fields?: LogFields) => void lines.push({ level, message, fields });
  return { lines, debug: log("debug"), info: log("info"), warn: log("warn"), error: log("error") };
}
