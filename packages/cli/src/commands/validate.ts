/** `leafmesh validate`: every mistake of a mesh file at once. Starts nothing and calls nobody. */
import type { ProviderRegistry } from "@leafmesh/core";
import type { LoadedMesh } from "@leafmesh/core/config";
import { type CliContext, EXIT, type ExitCode } from "../context.ts";
import { palette, writeJson, writeLine } from "../output.ts";
import { type MeshFileOptions, readMeshFile, renderFindings } from "./mesh-file.ts";

export interface ValidateOptions extends MeshFileOptions {
  /** Print `{ ok, diagnostics, warnings }` instead of text. */
  readonly json?: boolean | undefined;
}

/** Exits with 0 when the file is valid, warnings or not, and with 3 when it is not. */
export async function validate(
  options: ValidateOptions,
  context: CliContext,
  registry: ProviderRegistry,
): Promise<ExitCode> {
  const loaded = readMeshFile(options, context, registry);
  if (options.json) {
    const diagnostics = loaded.ok ? [] : loaded.diagnostics;
    writeJson(context.stdout, { ok: loaded.ok, diagnostics, warnings: loaded.warnings });
  } else {
    context.stdout.write(renderFindings(loaded, context));
    writeLine(context.stdout, summaryOf(options.file, loaded, context));
  }
  return loaded.ok ? EXIT.ok : EXIT.invalid;
}

function summaryOf(file: string, loaded: LoadedMesh, context: CliContext): string {
  const colors = palette(context);
  const warnings = loaded.warnings.length > 0 ? [count(loaded.warnings.length, "warning")] : [];
  if (!loaded.ok) return colors.red([`${file}: ${count(loaded.diagnostics.length, "error")}`, ...warnings].join(", "));
  const { agents, connections } = loaded.mesh;
  const contents = [count(agents.size, "agent"), count(connections.size, "connection"), ...warnings].join(", ");
  return `${colors.green(`${file} is valid`)} (${contents})`;
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
