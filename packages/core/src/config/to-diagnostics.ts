/** Gives findings their line and column, and takes everything secret out of what is shown. */
import type { Diagnostic, Problem, Range } from "./diagnostic.ts";
import { hideUntrusted, maskLine } from "./masked-line.ts";
import type { SourceText } from "./source-text.ts";

export interface Showing {
  /** How the caller calls the file. */
  readonly file: string;
  readonly source: SourceText;
  /** `none`: lines are not shown. `guess`: nothing is known of the fields, so secrets are guessed by their keys' names. */
  readonly lines: "none" | "guess" | "known";
  readonly hidden: readonly Range[];
  readonly secretValues: ReadonlySet<string>;
}

const MASK = "***";

export function toDiagnostics(problems: readonly Problem[], showing: Showing): readonly Diagnostic[] {
  const redact = createRedactor(problems, showing.secretValues);
  return problems.map(({ severity, code, range, path, message, hint, isForeign }) => {
    const { source, lines } = showing;
    const { line, column } = source.placeOf(range[0]);
    const length = Math.max(1, Math.min(range[1], source.startOf(line) + source.line(line).length) - range[0]);
    const place = { severity, code, file: showing.file, line, column, endColumn: column + length, path };
    const text = { message: isForeign ? redact(message) : message, hint };
    if (lines === "none") return { ...place, ...text };
    const hidden = lines === "guess" ? [...showing.hidden, ...hideUntrusted(source, line)] : showing.hidden;
    const shown = maskLine(source, line, range, hidden);
    return { ...place, ...text, sourceLine: shown.text, mark: shown.mark };
  });
}

/** Messages of providers are written elsewhere, so that none of them repeats a secret is made sure of here. */
function createRedactor(problems: readonly Problem[], secretValues: ReadonlySet<string>): (text: string) => string {
  const all = problems.map(({ message, isForeign }) => (isForeign ? message : "")).join("\n");
  const found = [...secretValues]
    .filter((value) => all.includes(value))
    .sort((one, other) => other.length - one.length);
  return (text) => found.reduce((redacted, value) => redacted.replaceAll(value, MASK), text);
}
