/** What the loader found: one value per finding, with its place in the file, and nothing in it that is secret. */

export type Severity = "error" | "warning";

export type DiagnosticCode =
  | "file_unreadable"
  | "file_too_large"
  | "file_too_complex"
  | "bad_encoding"
  | "empty_file"
  | "bad_syntax"
  | "unsupported_yaml"
  | "bad_alias"
  | "bad_key"
  | "duplicate_key"
  | "unknown_key"
  | "missing_key"
  | "wrong_type"
  | "bad_value"
  | "bad_reference"
  | "missing_variable"
  | "unknown_name"
  | "wrong_provider"
  | "missing_package"
  | "missing_setting"
  | "unsafe_setting"
  | "unused"
  | "no_effect"
  | "more_findings";

export interface Diagnostic {
  readonly severity: Severity;
  /** Stable name of the kind of finding, for scripts. */
  readonly code: DiagnosticCode;
  /** The file as the caller named it. */
  readonly file: string;
  /** From 1. */
  readonly line: number;
  /** From 1, in UTF-16 units as editors count. */
  readonly column: number;
  /** Exclusive, on the same line. */
  readonly endColumn: number;
  /** Where in the document, such as `agents.helper.device.approval`; empty for the file as a whole. */
  readonly path: string;
  /** A sentence without capital and full stop. */
  readonly message: string;
  /** What to do about it. */
  readonly hint?: string | undefined;
  /** The line of the file, with secrets masked; left out where the line cannot be trusted to be text. */
  readonly sourceLine?: string | undefined;
  /** Where the finding begins and ends within `sourceLine`, from 0. */
  readonly mark?: readonly [start: number, end: number] | undefined;
}

/** Offsets into the text, `[start, end)`. */
export type Range = readonly [start: number, end: number];

/** A finding before its place is turned into a line and a column. */
export interface Problem {
  readonly severity: Severity;
  readonly code: DiagnosticCode;
  readonly range: Range;
  readonly path: string;
  readonly message: string;
  readonly hint?: string | undefined;
  /** The message was written by a provider: whether it repeats a secret is not known. */
  readonly isForeign?: boolean | undefined;
}

/** One name in a path; a number is a place in a list. */
export type PathSegment = string | number;

/** `["agents", "a b", "tools", 0]` becomes `agents["a b"].tools[0]`. */
export function formatPath(path: readonly PathSegment[]): string {
  return path
    .map((segment, index) => {
      if (typeof segment === "number") return `[${segment}]`;
      if (!/^[A-Za-z0-9_$<-][A-Za-z0-9_$<.-]*$/.test(segment)) return `[${quoted(segment)}]`;
      return index === 0 ? segment : `.${segment}`;
    })
    .join("");
}

const LONGEST_SHOWN_NAME = 80;

/** A name from the file in double quotes, control characters escaped and cut to a readable length. */
export function quoted(name: string): string {
  const short = name.length > LONGEST_SHOWN_NAME ? `${name.slice(0, LONGEST_SHOWN_NAME)}…` : name;
  return JSON.stringify(short).replace(
    /[\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
    escapeCharacter,
  );
}

export function escapeCharacter(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
