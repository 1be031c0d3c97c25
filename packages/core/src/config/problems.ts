/** Collects findings, drops repeats and stops at a number that a person can still read. */
import type { DiagnosticCode, Problem } from "./diagnostic.ts";

/** More findings than this are not kept. */
export const MAX_FINDINGS = 200;

export interface Problems {
  error(problem: Omit<Problem, "severity">): void;
  warning(problem: Omit<Problem, "severity">): void;
  /** Whether an error was found, of the given code if one is given. */
  hasErrors(code?: DiagnosticCode): boolean;
  /** Whether the file is refused and further findings would not be kept, so that looking for them is idle. */
  isFull(): boolean;
  /** In order of their place in the file. */
  list(): readonly Problem[];
}

export function createProblems(): Problems {
  const kept = new Map<string, Problem>();
  const errorCodes = new Set<DiagnosticCode>();

  const add = (problem: Problem): void => {
    if (problem.severity === "error") errorCodes.add(problem.code);
    const identity = `${problem.range[0]}:${problem.code}:${problem.message}`;
    if (kept.size < MAX_FINDINGS && !kept.has(identity)) kept.set(identity, problem);
  };

  return {
    error: (problem) => add({ severity: "error", ...problem }),
    warning: (problem) => add({ severity: "warning", ...problem }),
    hasErrors: (code) => (code ? errorCodes.has(code) : errorCodes.size > 0),
    isFull: () => kept.size >= MAX_FINDINGS && errorCodes.size > 0,
    list() {
      const found = [...kept.values()].sort((one, other) => one.range[0] - other.range[0]);
      if (found.length >= MAX_FINDINGS) found.push(moreFindings(found));
      return found;
    },
  };
}

function moreFindings(found: readonly Problem[]): Problem {
  const last = found.at(-1);
  return {
    severity: last?.severity ?? "error",
    code: "more_findings",
    range: last?.range ?? [0, 0],
    path: "",
    message: `only ${MAX_FINDINGS} findings are shown, and there may be more`,
    hint: "correct these first",
  };
}
