/** Finds what tests cite, in their source: which of them run is known without running them. */
import { type Argument, type CallExpression, type Expression, parseSync, Visitor } from "oxc-parser";

export interface Citation {
  readonly file: string;
  readonly line: number;
  /** Empty when there is a problem. */
  readonly ids: readonly string[];
  readonly problem?: string;
}

/** Calls of `cites` in a test file. Only those count that name a test which has a body and is not skipped. */
export function citationsIn(file: string, source: string): readonly Citation[] {
  const { program } = parseSync(file, source);
  const citations: Citation[] = [];
  /** Calls of `cites` that are the name of a test. */
  const names = new Set<CallExpression>();
  let skipping = 0;

  new Visitor({
    CallExpression(call) {
      if (isSkipped(call)) skipping++;
      const [name, body] = call.arguments;
      if (isTest(call) && body && name?.type === "CallExpression") names.add(name);
      if (!isCallOf(call, "cites")) return;
      const line = source.slice(0, call.start).split("\n").length;
      const ids = call.arguments.slice(1).flatMap(textOf);
      const problem = problemOf(call, ids, names.has(call), skipping > 0);
      citations.push(problem === undefined ? { file, line, ids } : { file, line, ids: [], problem });
    },
    "CallExpression:exit"(call) {
      if (isSkipped(call)) skipping--;
    },
  }).visit(program);
  return citations;
}

function problemOf(
  call: CallExpression,
  ids: readonly string[],
  isName: boolean,
  isSkipping: boolean,
): string | undefined {
  if (!isName) return "is not the name of a test that has a body and runs";
  if (isSkipping) return "is in a suite that is skipped";
  if (ids.length === 0 || ids.length < call.arguments.length - 1) return "has ids that are not written out";
  return undefined;
}

/** `it(…)` and `it.each(…)(…)`; not `it.skip(…)`, `it.todo(…)`. */
function isTest({ callee }: CallExpression): boolean {
  if (isNamed(callee, "it")) return true;
  return callee.type === "CallExpression" && methodOf(callee.callee) === "it.each";
}

function isSkipped({ callee }: CallExpression): boolean {
  const method = methodOf(callee) ?? "";
  return method === "describe.skip" || method === "describe.todo";
}

function isCallOf({ callee }: CallExpression, name: string): boolean {
  return isNamed(callee, name);
}

function isNamed(expression: Expression, name: string): boolean {
  return expression.type === "Identifier" && expression.name === name;
}

function methodOf(expression: Expression): string | undefined {
  if (expression.type !== "MemberExpression" || expression.object.type !== "Identifier") return undefined;
  return expression.property.type === "Identifier"
    ? `${expression.object.name}.${expression.property.name}`
    : undefined;
}

function textOf(argument: Argument): readonly string[] {
  return argument.type === "Literal" && typeof argument.value === "string" ? [argument.value] : [];
}
