/** Puts a part of the document before its schema and turns what the schema says into findings with a place. */
import type * as z from "zod";
import { formatPath, type PathSegment, quoted, type Range } from "./diagnostic.ts";
import { explainIssue, isTypeIssue } from "./issue-text.ts";
import { keyRangeOf, type Located, locatedAt, rangeAt, toPlain } from "./located.ts";
import type { Problems } from "./problems.ts";
import { fieldsOf, schemaAt } from "./schema-walk.ts";
import { closest, listNames } from "./suggest.ts";

type Issue = z.core.$ZodIssue;

export interface JudgeOptions {
  readonly root: Located;
  /** Where in the document the part begins. */
  readonly path: readonly PathSegment[];
  /** Keys of the part that the schema does not know and that are right all the same. */
  readonly ignore?: readonly string[];
  /** The schema is a provider's. */
  readonly isForeign?: boolean | undefined;
  readonly problems: Problems;
}

/** The schema's output, or `undefined` after at least one finding. */
export function judge<Schema extends z.ZodType>(schema: Schema, options: JudgeOptions): z.output<Schema> | undefined {
  const part = locatedAt(options.root, options.path);
  if (!part) return undefined;
  // A reference is a text until the schema asks for something else: a password of digits stays a password.
  const asTyped = new Set<Located>();
  for (;;) {
    // A schema of this file parses once in a process: compiling it would take longer than interpreting it.
    const result = schema.safeParse(plainPart(part, asTyped, options.ignore), { error: explainIssue, jitless: true });
    if (result.success) return result.data;
    const issues = result.error.issues.flatMap(flattenUnion);
    const retyped = issues.filter(isTypeIssue).map((issue) => locatedAt(part, pathOf(issue)));
    const fresh = retyped.filter((located) => located && isTypedReference(located) && !asTyped.has(located));
    if (fresh.length === 0) {
      for (const issue of issues) report(issue, schema, options);
      return undefined;
    }
    for (const located of fresh) if (located) asTyped.add(located);
  }
}

function plainPart(part: Located, asTyped: ReadonlySet<Located>, ignore: readonly string[] = []): unknown {
  const plain = toPlain(part, asTyped);
  if (part.kind === "map" && typeof plain === "object" && plain !== null) {
    for (const key of ignore) Reflect.deleteProperty(plain, key);
  }
  return plain;
}

function isTypedReference(located: Located): boolean {
  return located.kind === "scalar" && located.typed !== undefined;
}

function pathOf(issue: Issue): PathSegment[] {
  return issue.path.map((segment) => (typeof segment === "number" ? segment : String(segment)));
}

/** Of a union, the issues of the one member that the value was meant to be, where that can be told. */
function flattenUnion(issue: Issue): Issue[] {
  if (issue.code !== "invalid_union") return [issue];
  const meant = issue.errors.filter(
    (issues) => !issues.some((inner) => inner.code === "invalid_type" && inner.path.length === 0),
  );
  const [only] = meant;
  if (meant.length !== 1 || !only) return [issue];
  return only.map((inner) => ({ ...inner, path: [...issue.path, ...inner.path] }));
}

function report(issue: Issue, schema: z.ZodType, { root, path, isForeign, problems }: JudgeOptions): void {
  if (problems.isFull()) return;
  const full = [...path, ...pathOf(issue)];
  const value = locatedAt(root, full);
  if (value?.kind === "scalar" && value.origin === "unknown") return;
  if (issue.code === "unrecognized_keys") {
    const fields = fieldsOf(schemaAt(schema, pathOf(issue)) ?? schema);
    for (const key of issue.keys) {
      if (problems.isFull()) return;
      reportUnknownKey(root, full, key, Object.keys(fields ?? {}), problems);
    }
    return;
  }
  if (value === undefined || (value.kind === "scalar" && value.leftOut)) {
    reportMissing(root, full, value, problems);
    return;
  }
  const keyRange = issue.code === "invalid_key" ? keyRangeAt(root, full) : undefined;
  const isWrongType = issue.code === "invalid_type" || issue.code === "invalid_union";
  problems.error({
    code: isWrongType ? "wrong_type" : issue.code === "invalid_key" ? "bad_key" : "bad_value",
    range: keyRange ?? rangeAt(root, full),
    path: formatPath(full),
    message: issue.message,
    hint: hintFor(issue, value),
    isForeign,
  });
}

function reportUnknownKey(
  root: Located,
  path: readonly PathSegment[],
  key: string,
  known: readonly string[],
  problems: Problems,
): void {
  const near = closest(key, known);
  problems.error({
    code: "unknown_key",
    range: keyRangeOf(locatedAt(root, path), key) ?? rangeAt(root, path),
    path: formatPath([...path, key]),
    message: "unknown key",
    hint: near ? `did you mean ${quoted(near)}?` : `known keys: ${listNames(known)}`,
  });
}

function reportMissing(
  root: Located,
  path: readonly PathSegment[],
  leftOut: Located | undefined,
  problems: Problems,
): void {
  const parent = path.slice(0, -1);
  const key = quoted(String(path.at(-1) ?? ""));
  problems.error({
    code: "missing_key",
    range: leftOut?.range ?? rangeAt(root, parent),
    path: formatPath(leftOut ? path : parent),
    message: leftOut ? "this reference came out empty, and a value is needed" : `the key ${key} is missing`,
  });
}

function keyRangeAt(root: Located, path: readonly PathSegment[]): Range | undefined {
  const last = path.at(-1);
  return last === undefined ? undefined : keyRangeOf(locatedAt(root, path.slice(0, -1)), last);
}

function hintFor(issue: Issue, value: Located): string | undefined {
  if (value.kind !== "scalar") return undefined;
  if (issue.code === "invalid_type") {
    if (value.value === null) return "write a value, or remove the key";
    if (issue.expected === "string") return "put the value in quotes";
    return typeof value.value === "string" && spells(value.value, issue.expected) ? "remove the quotes" : undefined;
  }
  if (issue.code !== "invalid_value" || value.origin !== "file") return undefined;
  const near = closest(String(value.value), issue.values.map(String));
  return near === undefined ? undefined : `did you mean ${quoted(near)}?`;
}

/** Whether a text would be of the expected type without its quotes. */
function spells(text: string, expected: string): boolean {
  return expected === "boolean" ? /^(true|false)$/i.test(text) : text.trim() !== "" && Number.isFinite(Number(text));
}
