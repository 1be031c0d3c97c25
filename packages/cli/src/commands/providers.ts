/** `leafmesh providers`: what a connection may be, with its fields. */
import type { ProviderDescription, ProviderRegistry } from "@leafmesh/core";
import * as z from "zod";
import { type CliContext, EXIT, type ExitCode } from "../context.ts";
import { palette, writeJson, writeLine } from "../output.ts";

interface Field {
  readonly name: string;
  readonly required: boolean;
  readonly secret: boolean;
  readonly description: string;
}

function fieldsOf(provider: ProviderDescription): readonly Field[] {
  const schema = z.toJSONSchema(provider.options, { io: "input", unrepresentable: "any" });
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {}).map(([name, field]) => {
    const meta = typeof field === "object" ? (field as { description?: string; secret?: boolean }) : {};
    return { name, required: required.has(name), secret: meta.secret === true, description: meta.description ?? "" };
  });
}

function describeProviders(providers: ReadonlyMap<string, ProviderDescription>) {
  return [...providers.values()].map((provider) => ({
    provider: provider.provider,
    title: provider.title,
    description: provider.description,
    fields: fieldsOf(provider),
    ...("traits" in provider ? { traits: provider.traits } : {}),
  }));
}

export async function listProviders(
  options: { readonly json?: boolean | undefined },
  context: CliContext,
  registry: ProviderRegistry,
): Promise<ExitCode> {
  const all = { notifiers: describeProviders(registry.notifiers), rooms: describeProviders(registry.rooms) };
  if (options.json) {
    writeJson(context.stdout, all);
    return EXIT.ok;
  }
  const colors = palette(context);
  for (const [kind, providers] of Object.entries(all)) {
    writeLine(context.stdout, colors.bold(kind));
    for (const { provider, title, fields } of providers) {
      writeLine(context.stdout, `  ${provider}  ${colors.dim(title)}`);
      for (const field of fields) {
        const marks = [field.required ? "required" : "", field.secret ? "secret" : ""].filter(Boolean).join(", ");
        writeLine(context.stdout, `    ${field.name}${marks ? ` (${marks})` : ""}  ${colors.dim(field.description)}`);
      }
    }
  }
  return EXIT.ok;
}
