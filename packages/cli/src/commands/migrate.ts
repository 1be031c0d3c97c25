/** `leafmesh migrate`: brings the store's schema up to date, before the processes of a new release start. */

import { mkdirSync } from "node:fs";
import { loadMeshFile, renderDiagnostics } from "@leafmesh/core/config";
import { createLogger } from "@leafmesh/core/security";
import { StorageError } from "@leafmesh/core/storage";
import { systemClock } from "@leafmesh/protocol";
import { type CliContext, EXIT, type ExitCode } from "../context.ts";
import { CommandFailure } from "../failure.ts";
import { writeJson, writeLine } from "../output.ts";
import { providerRegistry } from "../registry.ts";
import { createBackend, dataFolderOf } from "../runtime/storage.ts";

export interface MigrateOptions {
  readonly file: string;
  readonly json?: boolean | undefined;
}

export async function migrate(options: MigrateOptions, context: CliContext): Promise<ExitCode> {
  const loaded = loadMeshFile(options.file, {
    registry: await providerRegistry(),
    env: context.env,
    cwd: context.cwd,
    knownConnections: new Map(),
  });
  if (!loaded.ok) {
    context.stderr.write(renderDiagnostics(loaded.diagnostics));
    return EXIT.invalid;
  }
  const { mesh } = loaded;
  const logger = createLogger({
    level: "warn",
    stream: context.stderr,
    format: "pretty",
    clock: systemClock,
    colors: false,
  });
  if (mesh.storage.address) logger.redact.add(mesh.storage.address);
  mkdirSync(dataFolderOf(mesh), { recursive: true, mode: 0o700 });
  const backend = await createBackend({ mesh, env: context.env, clock: systemClock, logger });
  try {
    await backend.migrate();
  } catch (error) {
    if (error instanceof StorageError) throw new CommandFailure(error.message, { cause: error });
    throw error;
  } finally {
    await backend.close();
  }
  if (options.json) writeJson(context.stdout, { storage: mesh.storage.url, status: "up_to_date" });
  else writeLine(context.stdout, `${mesh.storage.url} is up to date`);
  return EXIT.ok;
}
