/**
 * Holds an action's inputs against the JSON Schema that a device declared for it. Such a schema comes from outside the
 * mesh, so only what can be checked in bounded time is: no references, no regular expressions, no code made from it.
 * What is left out is the device's to check; a schema that cannot be judged without it is not used at all.
 */
import { isWithinDepth, quote, shorten } from "./outside-data.ts";

type Json = Readonly<Record<string, unknown>>;

const MAX_SCHEMA_CHARACTERS = 16 * 1024;
const MAX_SCHEMA_DEPTH = 24;
/** Inputs over this are not checked: `uniqueItems` alone is quadratic. */
const MAX_INPUT_CHARACTERS = 16 * 1024;
const MAX_PROBLEMS = 3;
const MAX_PROBLEM_CHARACTERS = 200;

/**
 * `undefined` when the inputs fit, or when the schema cannot be checked; else what does not fit, as quoted JSON. The
 * validator is imported on first use.
 */
export async function findInputProblems(schema: Json, inputs: Json): Promise<string | undefined> {
  const checkable = toCheckable(schema);
  if (!checkable || JSON.stringify(inputs).length > MAX_INPUT_CHARACTERS) return undefined;
  const { Validator } = await import("@cfworker/json-schema");
  try {
    const { valid, errors } = new Validator(checkable, "2020-12").validate(inputs);
    if (valid) return undefined;
    // The last errors of the list are the innermost ones: they name the value that is wrong.
    const problems = errors.slice(-MAX_PROBLEMS).map(({ instanceLocation, error }) => ({
      at: shorten(instanceLocation, MAX_PROBLEM_CHARACTERS),
      problem: shorten(error, MAX_PROBLEM_CHARACTERS),
    }));
    return quote(problems);
  } catch {
    // A keyword with a value that no draft allows. The device declared it; the device decides.
    return undefined;
  }
}

/** The part of `schema` that can be checked in bounded time, or `undefined` when that part would mean something else. */
function toCheckable(schema: Json): Json | undefined {
  if (!isWithinDepth(schema, MAX_SCHEMA_DEPTH) || JSON.stringify(schema).length > MAX_SCHEMA_CHARACTERS) {
    return undefined;
  }
  try {
    return keepCheckable(schema, true);
  } catch (error) {
    if (error instanceof Uncheckable) return undefined;
    throw error;
  }
}

class Uncheckable extends Error {}

const PLAIN: ReadonlySet<string> = new Set([
  "type",
  "enum",
  "const",
  "required",
  "minimum",
  "maximum",
  "exclusiveMinimum",
  "exclusiveMaximum",
  "multipleOf",
  "minLength",
  "maxLength",
  "minItems",
  "maxItems",
  "uniqueItems",
  "minProperties",
  "maxProperties",
  "minContains",
  "maxContains",
  "dependentRequired",
]);
const ONE_SCHEMA: ReadonlySet<string> = new Set(["items", "additionalProperties", "propertyNames", "then", "else"]);
const SCHEMA_LIST: ReadonlySet<string> = new Set(["prefixItems", "allOf", "anyOf"]);
/** Leaving a rule out below these could turn a yes into a no. */
const NEGATING: ReadonlySet<string> = new Set(["not", "if", "contains"]);
/** Rules that need references or regular expressions, or that depend on what other rules looked at. */
const NOT_CHECKED: ReadonlySet<string> = new Set([
  "$ref",
  "$dynamicRef",
  "$recursiveRef",
  "patternProperties",
  "unevaluatedProperties",
  "unevaluatedItems",
  "additionalItems",
  "dependencies",
  "dependentSchemas",
]);

/** @param droppable whether a rule may be left out here, which only ever accepts more */
function keepCheckable(schema: unknown, droppable: boolean): Json {
  if (schema === true) return {};
  if (schema === false) return { not: {} };
  if (!isRecord(schema)) throw new Uncheckable();
  const kept: [string, unknown][] = [];
  for (const [keyword, value] of Object.entries(schema)) {
    if (NOT_CHECKED.has(keyword)) throw new Uncheckable();
    if (keyword === "pattern" && !droppable) throw new Uncheckable();
    if (PLAIN.has(keyword)) kept.push([keyword, value]);
    else if (ONE_SCHEMA.has(keyword)) kept.push([keyword, keepCheckable(value, droppable)]);
    else if (SCHEMA_LIST.has(keyword)) kept.push([keyword, eachOf(value, droppable)]);
    else if (NEGATING.has(keyword)) kept.push([keyword, keepCheckable(value, false)]);
    else if (keyword === "oneOf") kept.push([keyword, eachOf(value, false)]);
    else if (keyword === "properties") kept.push([keyword, eachProperty(value, droppable)]);
  }
  return Object.fromEntries(kept);
}

function eachOf(list: unknown, droppable: boolean): readonly Json[] {
  if (!Array.isArray(list)) throw new Uncheckable();
  return list.map((schema) => keepCheckable(schema, droppable));
}

function eachProperty(properties: unknown, droppable: boolean): Json {
  if (!isRecord(properties)) throw new Uncheckable();
  return Object.fromEntries(
    Object.entries(properties).map(([name, schema]) => [name, keepCheckable(schema, droppable)]),
  );
}

function isRecord(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
