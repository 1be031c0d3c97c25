/** One line of the file as it may be shown: secrets masked, control characters gone, cut to a readable length. */
import type { Range } from "./diagnostic.ts";
import type { SourceText } from "./source-text.ts";

export interface ShownLine {
  readonly text: string;
  /** Where the marked part begins and ends within `text`, from 0. */
  readonly mark: readonly [start: number, end: number];
}

const MASK = "***";
const LONGEST_SHOWN = 160;
/** Longer lines are not searched for keys and are hidden as a whole. */
const LONGEST_SEARCHED = 1_000;
/** Lines above that are looked at to find out what a line belongs to. */
const MOST_LINES_ABOVE = 300;

/** `hidden` are the parts of the file that must not be shown; `mark` is what the finding points at. */
export function maskLine(source: SourceText, line: number, mark: Range, hidden: readonly Range[]): ShownLine {
  const lineStart = source.startOf(line);
  const text = source.line(line);
  const inLine = (offset: number): number => Math.min(Math.max(offset - lineStart, 0), text.length);
  const covered = mergeRanges(
    hidden
      .filter(([start, end]) => start < lineStart + text.length && end > lineStart)
      .map(([start, end]): Range => [inLine(start), inLine(end)])
      .concat(credentialsInAddresses(text)),
  );
  return clip(cover(text, [inLine(mark[0]), inLine(mark[1])], covered));
}

/**
 * The parts of a line to hide when the document could not be parsed, so that nothing is known of its fields: what
 * follows a key whose name sounds like a secret, and text that belongs to such a key.
 */
export function hideUntrusted(source: SourceText, line: number): readonly Range[] {
  const text = source.line(line);
  const start = source.startOf(line);
  if (text.length > LONGEST_SEARCHED) return [[start, start + text.length]];
  const key = secretKeyIn(text);
  if (key !== undefined) return [[start + key, start + text.length]];
  if (!/[A-Za-z0-9]/.test(text) || !belongsToSecret(source, line)) return [];
  return [[start + text.search(/\S/), start + text.length]];
}

const KEY = /(?:^|[\s{[,(-])["']?([A-Za-z0-9_.-]+)["']?\s*:(?=\s|$|["'[{])/g;

/** Whether a key's name suggests that its value must not be shown. */
export function soundsSecret(name: string): boolean {
  return /key|secret|token|passw|credential|cert|account|connection_?string|header|auth|private/i.test(name);
}

/** Where the value of the first key that sounds like a secret begins. */
function secretKeyIn(text: string): number | undefined {
  for (const found of text.matchAll(KEY)) {
    const after = found.index + found[0].length;
    if (soundsSecret(found[1] ?? "")) return after + text.slice(after).search(/\S|$/);
  }
  return undefined;
}

/** Whether a key above, which this line lies under or comes next after, sounds like a secret. */
function belongsToSecret(source: SourceText, line: number): boolean {
  // A line with a quoted key may be JSON out of a text, such as a service account, and counts as text.
  const isKeyed = /^\s*(?:- )*[A-Za-z0-9_.-]+\s*:(?:\s|$)/.test(source.line(line));
  let indent = indentOf(source.line(line));
  let isNearest = !isKeyed;
  for (let above = line - 1; above >= 1; above--) {
    if (line - above > MOST_LINES_ABOVE) return true;
    const text = source.line(above).slice(0, LONGEST_SEARCHED);
    if (text.trim() === "") continue;
    const hasKey = new RegExp(KEY).test(text);
    if ((indentOf(text) < indent || (isNearest && hasKey)) && secretKeyIn(text) !== undefined) return true;
    if (hasKey) isNearest = false;
    indent = Math.min(indent, indentOf(text));
    if (indent === 0 && !isNearest) return false;
  }
  return false;
}

function indentOf(text: string): number {
  return text.search(/[^\s]|$/);
}

/** `https://user:password@host` shows no password in whatever field it stands. */
function credentialsInAddresses(text: string): Range[] {
  return [...text.matchAll(/(?<=:\/\/)[^\s@/"']+(?=@)/g)].map(
    ({ index, 0: found }): Range => [index, index + found.length],
  );
}

function mergeRanges(ranges: readonly Range[]): readonly Range[] {
  const merged: [number, number][] = [];
  for (const [start, end] of [...ranges].sort((one, other) => one[0] - other[0])) {
    const last = merged.at(-1);
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else if (end > start) merged.push([start, end]);
  }
  return merged;
}

function cover(text: string, [markStart, markEnd]: Range, covered: readonly Range[]): ShownLine {
  let shown = "";
  let at = 0;
  /** Where an offset of the line lands in what is shown. */
  const land = (offset: number): number => {
    let shift = 0;
    for (const [start, end] of covered) {
      if (offset >= end) shift += MASK.length - (end - start);
      else if (offset > start) return start + shift;
    }
    return offset + shift;
  };
  for (const [start, end] of covered) {
    shown += text.slice(at, start) + MASK;
    at = end;
  }
  shown += text.slice(at);
  const start = land(markStart);
  const isHidden = covered.some(([from, to]) => markStart >= from && markEnd <= to);
  const end = isHidden ? start + MASK.length : Math.max(land(markEnd), start + 1);
  return { text: shown.replace(UNPRINTABLE, "\ufffd").replaceAll("\t", " "), mark: [start, end] };
}

/** What could move the cursor or turn the direction of the text; tabs are made spaces so that marks line up. */
const UNPRINTABLE = /[\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

function clip({ text, mark }: ShownLine): ShownLine {
  if (text.length <= LONGEST_SHOWN) return { text, mark };
  const from = Math.max(0, Math.min(mark[0] - LONGEST_SHOWN / 2, text.length - LONGEST_SHOWN));
  const before = from > 0 ? "…" : "";
  const after = from + LONGEST_SHOWN < text.length ? "…" : "";
  const shift = before.length - from;
  const end = Math.min(mark[1] + shift, LONGEST_SHOWN + before.length);
  return {
    text: before + text.slice(from, from + LONGEST_SHOWN) + after,
    mark: [mark[0] + shift, Math.max(end, mark[0] + shift + 1)],
  };
}
