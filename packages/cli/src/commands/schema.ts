/** `leafmesh schema`: the JSON Schema of mesh.yaml, for editors and CI. */
import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { ProviderRegistry } from "@leafmesh/core";
import { meshJsonSchema } from "@leafmesh/core/config";
import { type CliContext, EXIT, type ExitCode } from "../context.ts";
import { CommandFailure } from "../failure.ts";
import { writeLine } from "../output.ts";

export interface SchemaOptions {
  /** Where to write it; standard output if left out. */
  readonly out?: string | undefined;
}

export async function schema(
  options: SchemaOptions,
  context: CliContext,
  registry: ProviderRegistry,
): Promise<ExitCode> {
  const text = renderSchema(registry);
  if (options.out === undefined) {
    context.stdout.write(text);
    return EXIT.ok;
  }
  try {
    await writeFile(resolve(context.cwd, options.out), text);
  } catch (cause) {
    throw new CommandFailure(`cannot write ${options.out}: ${cause instanceof Error ? cause.message : cause}`, {
      cause,
    });
  }
  writeLine(context.stdout, `wrote ${options.out}`);
  return EXIT.ok;
}

export function renderSchema(registry: ProviderRegistry): string {
  return `${JSON.stringify(meshJsonSchema(registry), null, 2)}\n`;
}
