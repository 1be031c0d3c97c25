/**
 * `{ api_key: ${KEY} }`: inside `{ }` and `[ ]` YAML ends a plain value at a brace, so such a reference must be quoted.
 * It is recognised, explained once, and replaced by text of the same length so that the rest of the file can be read.
 */
import { quoted, type Range } from "./diagnostic.ts";
import type { Problems } from "./problems.ts";
import type { SourceText } from "./source-text.ts";

const MAX_SHOWN = 60;

/** The reference whose `$` stands at `offset`: up to its brace, or the first two characters when that is missing. */
export function findUnquotedReference(text: string, offset: number): Range {
  const lineEnd = text.indexOf("\n", offset);
  const line = text.slice(offset, lineEnd < 0 ? text.length : lineEnd);
  const close = line.indexOf("}");
  return [offset, offset + (close < 0 ? 2 : close + 1)];
}

export function maskRanges(text: string, ranges: readonly Range[]): string {
  let masked = "";
  let at = 0;
  for (const [start, end] of [...ranges].sort((one, other) => one[0] - other[0])) {
    if (start < at) continue;
    masked += text.slice(at, start) + "_".repeat(end - start);
    at = end;
  }
  return masked + text.slice(at);
}

export function reportUnquotedReference(source: SourceText, range: Range, problems: Problems): void {
  const written = source.text.slice(...range);
  // The default of a reference may be a secret: it is not repeated.
  const name = /^\$\{(?:file:[^}]*|[A-Za-z_][A-Za-z0-9_]*)/.exec(written)?.[0];
  const example = name && name.length <= MAX_SHOWN ? `${name}${written.includes(":-") ? ":-…" : ""}}` : `\${NAME}`;
  problems.error({
    code: "bad_reference",
    range,
    path: "",
    message: `inside { } and [ ] a \${...} must be quoted`,
    hint: `write ${quoted(example)}`,
  });
}
