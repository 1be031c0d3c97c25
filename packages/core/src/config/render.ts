/** Findings as an operator reads them in a terminal. */
import type { Diagnostic } from "./diagnostic.ts";

/** How parts of a finding are emphasised; plain by default. */
export interface DiagnosticStyle {
  error(text: string): string;
  warning(text: string): string;
  dim(text: string): string;
}

const plainStyle: DiagnosticStyle = { error: (text) => text, warning: (text) => text, dim: (text) => text };

/**
 * `mesh.yaml:12:7 agents.helper.device.aproval: unknown key; did you mean "approval"?`, and under it the line of the file
 * with a mark below the place.
 */
export function renderDiagnostic(diagnostic: Diagnostic, style: DiagnosticStyle = plainStyle): string {
  const { severity, line, path, message, hint, sourceLine, mark } = diagnostic;
  const emphasise = severity === "error" ? style.error : style.warning;
  const label = severity === "warning" ? `${emphasise("warning:")} ` : "";
  const text = severity === "error" ? emphasise(message) : message;
  const headline = `${placeOf(diagnostic)} ${label}${path === "" ? "" : `${path}: `}${text}${hint ? `; ${hint}` : ""}`;
  if (sourceLine === undefined || mark === undefined) return headline;
  const gutter = `${line}`.padStart(5);
  const pointer = " ".repeat(mark[0]) + "^".repeat(Math.max(1, mark[1] - mark[0]));
  return [
    headline,
    `${style.dim(`${gutter} |`)} ${sourceLine}`.trimEnd(),
    `${style.dim(`${" ".repeat(gutter.length)} |`)} ${emphasise(pointer)}`,
  ].join("\n");
}

function placeOf({ file, line, column }: Diagnostic): string {
  return `${file}:${line}:${column}`;
}

export function renderDiagnostics(diagnostics: readonly Diagnostic[], style: DiagnosticStyle = plainStyle): string {
  return diagnostics.map((diagnostic) => `${renderDiagnostic(diagnostic, style)}\n`).join("");
}
