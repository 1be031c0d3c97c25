/** What the commands that read a mesh file and start nothing have in common. */
import type { ProviderRegistry } from "@leafmesh/core";
import { type Diagnostic, type LoadedMesh, loadMeshFile, renderDiagnostics } from "@leafmesh/core/config";
import type { CliContext } from "../context.ts";
import { palette } from "../output.ts";

export interface MeshFileOptions {
  readonly file: string;
  /** Bytes. */
  readonly maxConfigSize?: number | undefined;
}

/** No store is asked, so a connection that is not in the file is a warning. */
export function readMeshFile(options: MeshFileOptions, context: CliContext, registry: ProviderRegistry): LoadedMesh {
  return loadMeshFile(options.file, {
    registry,
    env: context.env,
    cwd: context.cwd,
    canResolve,
    maxBytes: options.maxConfigSize,
  });
}

/** Errors first, then warnings, as an operator reads them. */
export function renderFindings(loaded: LoadedMesh, context: CliContext): string {
  const colors = palette(context);
  const found: readonly Diagnostic[] = loaded.ok ? loaded.warnings : [...loaded.diagnostics, ...loaded.warnings];
  return renderDiagnostics(found, { error: colors.red, warning: colors.yellow, dim: colors.dim });
}

function canResolve(packageName: string): boolean {
  try {
    import.meta.resolve(packageName);
    return true;
  } catch {
    return false;
  }
}
