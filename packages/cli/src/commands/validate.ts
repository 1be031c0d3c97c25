/** `leafmesh validate`: every mistake of a mesh file at once. Starts nothing, and calls nobody without `--check`. */
import type { ProviderRegistry } from "@leafmesh/core";
import type { LoadedMesh } from "@leafmesh/core/config";
import { type CliContext, EXIT, type ExitCode } from "../context.ts";
import { palette, writeJson, writeLine } from "../output.ts";
import { type MeshFileOptions, readMeshFile, renderFindings } from "./mesh-file.ts";

export interface ValidateOptions extends MeshFileOptions {
  /** Print `{ ok, diagnostics, warnings }` instead of text. */
  readonly json?: boolean | undefined;
  /** Asks the services of all connections whether they would work; in JSON as `connections`. */
  readonly check?: boolean | undefined;
}

/** Exits with 0 when the file is valid, warnings or not, with 3 when it is not, and with 1 when a connection is not proven. */
export async function validate(
  options: ValidateOptions,
  context: CliContext,
  registry: ProviderRegistry,
): Promise<ExitCode> {
  const loaded = readMeshFile(options, context, registry);
  const live = options.check && loaded.ok ? await import("./check-connections.ts") : undefined;
  const checks = live && loaded.ok ? await live.checkConnections(loaded.mesh, context) : undefined;
  if (options.json) {
    const diagnostics = loaded.ok ? [] : loaded.diagnostics;
    const connections = checks?.map(({ connection, face, result }) => ({ connection, face, ...result }));
    writeJson(context.stdout, {
      ...{ ok: loaded.ok, diagnostics, warnings: loaded.warnings },
      ...(connections ? { connections } : {}),
    });
  } else {
    context.stdout.write(renderFindings(loaded, context));
    writeLine(context.stdout, summaryOf(options.file, loaded, context));
    if (checks) live?.writeChecks(checks, context);
  }
  if (!loaded.ok) return EXIT.invalid;
  return (checks ?? []).every(({ result }) => result.status === "active") ? EXIT.ok : EXIT.failed;
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
