/** Looks into zod schemas: which keys an object takes, what lies under a key, what is secret. */
import * as z from "zod";
import type { PathSegment } from "./diagnostic.ts";

type Schema = z.core.$ZodType;

/** The schema itself and what it wraps (optional, default, the input side of a transform), from outside in. */
function layersOf(schema: Schema): readonly z.core.$ZodTypes[] {
  const layers: z.core.$ZodTypes[] = [];
  let next: Schema | undefined = schema;
  while (next) {
    const layer = next as z.core.$ZodTypes;
    layers.push(layer);
    const definition = layer._zod.def;
    switch (definition.type) {
      case "optional":
      case "nullable":
      case "default":
      case "prefault":
      case "nonoptional":
      case "readonly":
      case "catch":
        next = definition.innerType;
        break;
      case "pipe":
        next = definition.in;
        break;
      default:
        next = undefined;
    }
  }
  return layers;
}

/** The fields of an object schema; of a union, those of all its objects; `undefined` for anything else. */
export function fieldsOf(schema: Schema): Readonly<Record<string, Schema>> | undefined {
  const definition = layersOf(schema).at(-1)?._zod.def;
  if (definition?.type === "object") return definition.shape;
  if (definition?.type !== "union") return undefined;
  const objects = definition.options.map(fieldsOf).filter((fields) => fields !== undefined);
  return objects.length > 0 ? Object.assign({}, ...objects) : undefined;
}

/** What the schema asks of the value under a key or at a place in a list. */
export function schemaUnder(schema: Schema, segment: PathSegment): Schema | undefined {
  const definition = layersOf(schema).at(-1)?._zod.def;
  // What takes anything takes anything further down, too.
  if (definition?.type === "any") return schema;
  if (definition?.type === "array") return definition.element;
  if (definition?.type === "record") return definition.valueType;
  const fields = fieldsOf(schema);
  return fields && typeof segment === "string" && Object.hasOwn(fields, segment) ? fields[segment] : undefined;
}

export function schemaAt(schema: Schema, path: readonly PathSegment[]): Schema | undefined {
  return path.reduce<Schema | undefined>((under, segment) => under && schemaUnder(under, segment), schema);
}

/** Whether a text that fits the schema is a secret: some layer, or some member of a union, is marked so. */
export function isSecret(schema: Schema): boolean {
  const layers = layersOf(schema);
  if (layers.some((layer) => z.globalRegistry.get(layer)?.secret === true)) return true;
  const definition = layers.at(-1)?._zod.def;
  return definition?.type === "union" && definition.options.some(isSecret);
}
