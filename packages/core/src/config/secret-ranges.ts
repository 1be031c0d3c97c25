/**
 * Which parts of the file may be secrets: values of fields marked secret, and values of keys that nobody knows, because a
 * misspelled `api_key` holds a key all the same. A key that is close to a field which is no secret counts as that field.
 */
import * as z from "zod";
import type { ProviderRegistry } from "../providers/registry.ts";
import { endpointSchemaOf } from "./connections.ts";
import type { Range } from "./diagnostic.ts";
import type { Located, LocatedEntry, LocatedMap } from "./located.ts";
import { soundsSecret } from "./masked-line.ts";
import { connectionSchemaOf } from "./provider-lookup.ts";
import { meshFileSchema } from "./schema.ts";
import { fieldsOf, isSecret, schemaUnder } from "./schema-walk.ts";
import { closest } from "./suggest.ts";

type Schema = z.core.$ZodType;

export interface Secrets {
  readonly ranges: readonly Range[];
  /** The values themselves, to take them out of texts that others wrote. */
  readonly values: ReadonlySet<string>;
}

/** Shorter values would be found in ordinary words. */
const SHORTEST_SECRET = 6;

export function findSecrets(root: Located, text: string, registry: ProviderRegistry): Secrets {
  const ranges: Range[] = [];
  const values = new Set<string>();

  function take(located: Located): void {
    if (located.kind === "map") for (const entry of allEntries(located)) take(entry.value);
    else if (located.kind === "list") for (const item of located.items) take(item);
    else {
      if (!isBareReference(text.slice(...located.range))) ranges.push(located.range);
      const value = String(located.value ?? "");
      if (value.length >= SHORTEST_SECRET) values.add(value);
    }
  }

  function visit(located: Located, schema: Schema | undefined, depth: number, section: string): void {
    if (!schema) {
      take(located);
    } else if (located.kind === "scalar") {
      if (isSecret(schema)) take(located);
    } else if (located.kind === "list") {
      for (const [index, item] of located.items.entries()) visit(item, schemaUnder(schema, index), depth + 1, section);
    } else {
      for (const { key, value } of allEntries(located)) {
        const inSection = depth === 0 ? key : section;
        if (section === "connections" && depth === 2 && key === "provider") continue;
        visit(value, schemaOf(key, value, schema, depth, inSection), depth + 1, inSection);
      }
    }
  }

  function schemaOf(key: string, value: Located, schema: Schema, depth: number, section: string): Schema | undefined {
    if (depth === 1 && section === "connections") return connectionSchemaOf(value, registry) ?? nothingKnown;
    if (depth === 1 && section === "models") return endpointSchemaOf(value) ?? nothingKnown;
    return schemaUnder(schema, key) ?? schemaOfMisspelled(key, schema);
  }

  visit(root, meshFileSchema, 0, "");
  return { ranges, values };
}

function allEntries(located: LocatedMap): readonly LocatedEntry[] {
  return [...located.entries.values(), ...located.repeated];
}

/** What a key was meant to be, unless its name sounds like a secret's. */
function schemaOfMisspelled(key: string, schema: Schema): Schema | undefined {
  const fields = fieldsOf(schema);
  const near = fields && !soundsSecret(key) ? closest(key, Object.keys(fields)) : undefined;
  return near === undefined ? undefined : fields?.[near];
}

/** A record of an unknown kind: all of its keys but the kind are unknown. */
const nothingKnown: Schema = z.looseObject({ provider: z.string(), kind: z.string() });

/** `${NAME}` and `${file:path}` may be shown; a default may be a secret. */
function isBareReference(written: string): boolean {
  return /^["']?\$\{(?:[A-Za-z_][A-Za-z0-9_]*|file:[^}]*)\}["']?$/.test(written.trim());
}
