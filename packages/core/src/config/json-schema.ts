/** JSON Schema of mesh.yaml for editors and CI, from the schemas that the loader itself uses. */
import * as z from "zod";
import type { ProviderDescription, ProviderRegistry } from "../providers/registry.ts";
import { findProvider, providerNames } from "./provider-lookup.ts";
import { endpointSchemas, meshFileSchema } from "./schema.ts";

/** A JSON Schema object, draft 07: what editors of YAML read best. */
export type JsonSchemaObject = { [key: string]: unknown };

const DRAFT = "http://json-schema.org/draft-07/schema#";
const TITLE = "mesh.yaml of LeafMesh";

/**
 * The schema of a whole file. It says what the loader says of keys, types and values; what only the loader can know (that
 * a name leads somewhere, that a variable is set) it leaves open.
 */
export function meshJsonSchema(registry: ProviderRegistry): JsonSchemaObject {
  const schema = fileJsonSchema();
  const properties = asObject(schema.properties);
  const records = providerNames(registry).map((name) => recordJsonSchema(findProvider(registry, name)));
  asObject(properties.connections).additionalProperties = { anyOf: records };
  asObject(properties.models).additionalProperties = { anyOf: Object.values(endpointJsonSchemas()) };
  return { $schema: DRAFT, title: TITLE, ...asObject(allowReferences(schema)) };
}

/** The file's own schema, with `models` and `connections` open. */
export function fileJsonSchema(): JsonSchemaObject {
  return toJson(meshFileSchema);
}

/** The fields of a `models` entry, by its kind. */
export function endpointJsonSchemas(): Readonly<Record<keyof typeof endpointSchemas, JsonSchemaObject>> {
  return { openai: toJson(endpointSchemas.openai), scripted: toJson(endpointSchemas.scripted) };
}

/** The fields of a provider's record, without `provider` itself. */
export function optionsJsonSchema(provider: ProviderDescription): JsonSchemaObject {
  return toJson(provider.options);
}

function recordJsonSchema(provider: ProviderDescription | undefined): JsonSchemaObject {
  if (!provider) return {};
  const options = toJson(provider.options);
  const required = Array.isArray(options.required) ? options.required : [];
  return {
    ...options,
    title: provider.title,
    description: provider.description,
    properties: { provider: { const: provider.provider }, ...asObject(options.properties) },
    required: ["provider", ...required],
  };
}

function toJson(schema: z.ZodType): JsonSchemaObject {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io: "input", target: "draft-07", reused: "inline" });
  return rest;
}

/** What fields carry for us and JSON Schema does not know. */
const OWN_KEYS = new Set(["secret", "multiline", "documentedDefault"]);

const reference = { type: "string", pattern: "\\$\\{.+\\}" } as const;

/**
 * A `${...}` may stand wherever a value may: fields that would not take any text take one that holds a reference. Which
 * record it is must stand there in clear, so `const` is left as it is. Our own keys are dropped on the way.
 */
function allowReferences(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(allowReferences);
  if (!isObject(schema)) return schema;
  const walked = Object.fromEntries(
    Object.entries(schema)
      .filter(([key]) => !OWN_KEYS.has(key))
      .map(([key, value]) => [key, walkKeyword(key, value)]),
  );
  return takesOnlySome(walked) ? { ...labelsOf(walked), anyOf: [withoutLabels(walked), reference] } : walked;
}

/** Keywords whose values are schemas; of `properties` each value is one. */
function walkKeyword(key: string, value: unknown): unknown {
  if (key === "properties" && isObject(value)) {
    return Object.fromEntries(Object.entries(value).map(([name, property]) => [name, allowReferences(property)]));
  }
  return key === "items" || key === "additionalProperties" || key === "anyOf" ? allowReferences(value) : value;
}

function takesOnlySome(schema: JsonSchemaObject): boolean {
  if ("const" in schema) return false;
  const { type } = schema;
  return type === "number" || type === "integer" || type === "boolean" || "enum" in schema || "pattern" in schema;
}

const LABELS = ["description", "default"];

function labelsOf(schema: JsonSchemaObject): JsonSchemaObject {
  return Object.fromEntries(Object.entries(schema).filter(([key]) => LABELS.includes(key)));
}

function withoutLabels(schema: JsonSchemaObject): JsonSchemaObject {
  return Object.fromEntries(Object.entries(schema).filter(([key]) => !LABELS.includes(key)));
}

export function isObject(value: unknown): value is JsonSchemaObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function asObject(value: unknown): JsonSchemaObject {
  return isObject(value) ? value : {};
}
