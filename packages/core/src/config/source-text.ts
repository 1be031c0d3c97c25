/** The text of a file with its lines: from bytes, or a finding that says why they are no text. */
import { isUtf8 } from "node:buffer";
import type { Problem, Range } from "./diagnostic.ts";

export interface SourceText {
  readonly text: string;
  /** Line and column of an offset, both from 1. */
  placeOf(offset: number): { readonly line: number; readonly column: number };
  /** Offset where a line (from 1) begins. */
  startOf(line: number): number;
  /** A line (from 1) without its end. */
  line(line: number): string;
}

export type DecodedSource =
  | { readonly ok: true; readonly source: SourceText }
  /** `source` is what could be read, to name a line; it is not to be shown. */
  | { readonly ok: false; readonly source: SourceText; readonly problem: Problem };

export const DEFAULT_MAX_BYTES = 256 * 1024;
/** No option raises the limit above this. */
export const HIGHEST_MAX_BYTES = 10 * 1024 * 1024;

export function createSourceText(text: string): SourceText {
  const lineStarts = [0];
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) lineStarts.push(at + 1);
  const startOf = (line: number): number => lineStarts[line - 1] ?? text.length;
  return {
    text,
    startOf,
    placeOf(offset) {
      let low = 0;
      let high = lineStarts.length - 1;
      while (low < high) {
        const middle = Math.ceil((low + high) / 2);
        if ((lineStarts[middle] ?? 0) <= offset) low = middle;
        else high = middle - 1;
      }
      return { line: low + 1, column: offset - (lineStarts[low] ?? 0) + 1 };
    },
    line: (line) => text.slice(startOf(line), startOf(line + 1)).replace(/\r?\n$/, ""),
  };
}

/** Text from the bytes of a file (or a text as it is): UTF-8, with or without a byte order mark, no control characters. */
export function decodeSource(source: string | Uint8Array, maxBytes: number): DecodedSource {
  const limit = Math.min(maxBytes, HIGHEST_MAX_BYTES);
  const size = typeof source === "string" ? Buffer.byteLength(source) : source.byteLength;
  if (size > limit) return refuse("", [0, 0], "file_too_large", ...aboutSize(limit));
  if (typeof source !== "string") {
    const bad = findBadEncoding(source);
    if (bad) return bad;
  }
  const decoded = typeof source === "string" ? source : new TextDecoder("utf-8").decode(source);
  const text = decoded.startsWith("\ufeff") ? decoded.slice(1) : decoded;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
  const control = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]|\r(?!\n)/.exec(text);
  if (control) {
    const [message, hint] = aboutControlCharacter(control[0]);
    return refuse(text, [control.index, control.index + 1], "bad_encoding", message, hint);
  }
  return { ok: true, source: createSourceText(text) };
}

/** What is said of a file over the limit. */
export function aboutSize(limit: number): [message: string, hint: string] {
  const hint =
    limit < HIGHEST_MAX_BYTES
      ? "keep large texts out of the mesh file, or raise the limit with --max-config-size (up to 10 MiB)"
      : "keep large texts out of the mesh file";
  return [`the file is larger than the limit of ${limit} bytes`, hint];
}

function aboutControlCharacter(character: string): [message: string, hint: string] {
  if (character === "\u0000") return ["the file holds a NUL character, so it is not a text", "save it as UTF-8"];
  if (character === "\r") return ["a line ends with a lone carriage return", "save the file with LF or CRLF line ends"];
  const code = character.charCodeAt(0).toString(16).padStart(4, "0").toUpperCase();
  return [`the control character U+${code} is not allowed`, 'remove it, or write it as "\\x.." in a quoted text'];
}

function findBadEncoding(bytes: Uint8Array): DecodedSource | undefined {
  const [first, second] = bytes;
  if ((first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)) {
    return refuse("", [0, 0], "bad_encoding", "the file is UTF-16", "save it as UTF-8");
  }
  if (isUtf8(bytes)) return undefined;
  const lossy = new TextDecoder("utf-8");
  let lineStart = 0;
  for (let lineEnd = endOfLine(bytes, 0); ; lineEnd = endOfLine(bytes, lineStart)) {
    const line = bytes.subarray(lineStart, lineEnd);
    if (!isUtf8(line)) {
      const offset =
        new TextDecoder("utf-8").decode(bytes.subarray(0, lineStart)).length +
        new TextDecoder("utf-8").decode(line).indexOf("\ufffd");
      return refuse(
        lossy.decode(bytes),
        [offset, offset + 1],
        "bad_encoding",
        "this is not UTF-8",
        "save the file as UTF-8",
      );
    }
    lineStart = lineEnd;
  }
}

function endOfLine(bytes: Uint8Array, from: number): number {
  const at = bytes.indexOf(0x0a, from);
  return at < 0 ? bytes.length : at + 1;
}

function refuse(text: string, range: Range, code: Problem["code"], message: string, hint: string): DecodedSource {
  return {
    ok: false,
    source: createSourceText(text),
    problem: { severity: "error", code, range, path: "", message, hint },
  };
}
