/** Tables of fields in Markdown, from JSON Schema. */
import { endpointJsonSchemas, isObject, type JsonSchemaObject } from "./json-schema.ts";

/** One row a field: key, type, default, meaning. `links` name the sections of this page that say more. */
export function fieldTable(schema: JsonSchemaObject, links: Readonly<Record<string, string>> = {}): string {
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const fields = isObject(schema.properties) ? Object.entries(schema.properties) : [];
  const rows = fields.map(([name, field]) => {
    const described = isObject(field) ? field : {};
    const key = name in links ? `[\`${name}\`](#${links[name]})` : `\`${name}\``;
    const cells = [key, typeOf(described), defaultOf(described, required.has(name)), meaningOf(described)];
    return `| ${cells.map(escapeCell).join(" | ")} |`;
  });
  return ["| Key | Type | Default | Meaning |", "|---|---|---|---|", ...rows].join("\n");
}

/** A part of a schema: steps are field names, `items` or `additionalProperties`. */
export function under(schema: JsonSchemaObject, ...steps: readonly string[]): JsonSchemaObject {
  return steps.reduce<JsonSchemaObject>((part, step) => {
    const properties = isObject(part.properties) ? part.properties : {};
    const next = step in properties ? properties[step] : part[step];
    return isObject(next) ? next : {};
  }, schema);
}

export function modelTables(): readonly string[] {
  const { openai, scripted } = endpointJsonSchemas();
  return [
    "### kind: openai",
    "Any service that speaks the OpenAI chat completions API.",
    fieldTable(openai),
    "### kind: scripted",
    "A model that answers from a file and costs nothing: for demos and tests.",
    fieldTable(scripted),
  ];
}

/** Texts of providers are not written for Markdown: bars would end the cell, and what looks like a tag would be one. */
function escapeCell(text: string): string {
  const oneLine = text.replaceAll("|", "\\|").replace(/\s*\n\s*/g, " ");
  return oneLine.replace(/`[^`]*`|</g, (found) => (found === "<" ? "&lt;" : found));
}

function meaningOf(field: JsonSchemaObject): string {
  const description = typeof field.description === "string" ? field.description : "";
  return field.secret === true ? `${description} Secret.` : description;
}

function defaultOf(field: JsonSchemaObject, isRequired: boolean): string {
  if (isRequired) return "**required**";
  if (typeof field.documentedDefault === "string") return field.documentedDefault;
  const value = field.default;
  if (value === undefined || isEmpty(value)) return "";
  return `\`${typeof value === "string" ? value : JSON.stringify(value)}\``;
}

function isEmpty(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

function typeOf(field: JsonSchemaObject): string {
  if (Array.isArray(field.anyOf)) return field.anyOf.filter(isObject).map(typeOf).join(" or ");
  if ("const" in field) return `\`${String(field.const)}\``;
  if (Array.isArray(field.enum)) return field.enum.map((value) => `\`${String(value)}\``).join(", ");
  switch (field.type) {
    case "string":
      return "text";
    case "boolean":
      return "true or false";
    case "integer":
      return `whole number${boundsOf(field)}`;
    case "number":
      return `number${boundsOf(field)}`;
    case "array":
      return `list of ${plural(isObject(field.items) ? field.items : {})}`;
    default:
      return "mapping";
  }
}

function plural(items: JsonSchemaObject): string {
  const one = typeOf(items);
  return one === "text" || one === "mapping" ? `${one}s` : one;
}

function boundsOf({ minimum, maximum, exclusiveMinimum }: JsonSchemaObject): string {
  const least = exclusiveMinimum === undefined ? minimum : undefined;
  if (least !== undefined && maximum !== undefined) return `, ${least} to ${maximum}`;
  const most = maximum === undefined ? "" : `, at most ${maximum}`;
  return exclusiveMinimum === undefined ? most : `, more than ${exclusiveMinimum}${most}`;
}
