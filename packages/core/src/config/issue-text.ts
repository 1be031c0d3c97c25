/** What a schema's objection says to an operator. A message that the schema gave itself always wins over these. */
import type * as z from "zod";

/** zod's error map; see https://zod.dev/error-customization#per-parse-error-customization */
export const explainIssue: z.core.$ZodErrorMap = (issue) => {
  switch (issue.code) {
    case "invalid_type":
      return `must be ${nameOfExpected(issue.expected)}, found ${nameOfFound(issue.input)}`;
    case "invalid_value":
      return `must be ${oneOf(issue.values.map((value) => JSON.stringify(value)))}`;
    case "invalid_format":
      return `must be ${nameOfFormat(issue.format)}`;
    case "too_small":
      return boundText("at least", issue.origin, Number(issue.minimum), issue.inclusive ?? true, "more than");
    case "too_big":
      return boundText("at most", issue.origin, Number(issue.maximum), issue.inclusive ?? true, "less than");
    case "not_multiple_of":
      return `must be a multiple of ${issue.divisor}`;
    case "invalid_key":
      return issue.issues[0]?.message ?? "this name is not allowed";
    case "invalid_union":
      return "has none of the allowed forms";
    default:
      return "is not a valid value";
  }
};

/** Whether a number or truth value in place of a text could be what was missing. */
export function isTypeIssue(issue: z.core.$ZodIssue): boolean {
  return issue.code === "invalid_type" || issue.code === "invalid_union" || issue.code === "invalid_value";
}

const expectedNames: Readonly<Record<string, string>> = {
  string: "a text",
  number: "a number",
  int: "a whole number",
  safeint: "a whole number",
  boolean: "true or false",
  array: "a list",
  object: "a mapping",
  record: "a mapping",
  null: "empty",
};

function nameOfExpected(expected: string): string {
  return expectedNames[expected] ?? `of type ${expected}`;
}

/** The kind of the value and never the value: it may be a secret. */
function nameOfFound(input: unknown): string {
  if (input === undefined || input === null) return "nothing";
  if (Array.isArray(input)) return "a list";
  if (typeof input === "number") return Number.isInteger(input) ? "a whole number" : "a number";
  if (typeof input === "boolean") return `${input}`;
  return typeof input === "string" ? "a text" : "a mapping";
}

function nameOfFormat(format: string): string {
  return format === "url" ? "an address such as https://example.com" : `of the form ${format}`;
}

function oneOf(choices: readonly string[]): string {
  const last = choices.at(-1) ?? "nothing";
  return choices.length < 2 ? last : `${choices.slice(0, -1).join(", ")} or ${last}`;
}

function boundText(bound: string, origin: string, limit: number, inclusive: boolean, strict: string): string {
  const unit = origin === "string" ? " characters" : origin === "array" || origin === "set" ? " items" : "";
  const words = inclusive ? bound : strict;
  return unit === "" ? `must be ${words} ${limit}` : `must have ${words} ${limit}${unit}`;
}
