/** `leafmesh run`: a mesh until it is told to stop. */

import type { Mesh } from "@leafmesh/core";
import { type LoadedMesh, loadMeshFile, namesInFile, renderDiagnostics, watchMesh } from "@leafmesh/core/config";
import { createLogger, KeyFileError, SecretKeyError } from "@leafmesh/core/security";
import { StorageError } from "@leafmesh/core/storage";
import { systemClock } from "@leafmesh/protocol";
import { ListenError } from "@leafmesh/server";
import { type CliContext, EXIT, type ExitCode } from "../context.ts";
import { CommandFailure } from "../failure.ts";
import { palette, table, writeLine } from "../output.ts";
import { loadedRegistry, loadVendors, providerRegistry, vendorNames } from "../registry.ts";
import { type RunningMesh, startMesh } from "../runtime/start-mesh.ts";
import { version } from "../version.ts";

/** The first requests go before the watcher: loading it and the file again takes as long as a third of the start. */
const WATCH_AFTER_MS = 250;

export interface RunOptions {
  readonly file: string;
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  readonly watch: boolean;
  /** Seconds. */
  readonly grace: number;
  readonly logLevel?: "debug" | "info" | "warn" | "error" | undefined;
  readonly logFormat?: "pretty" | "json" | undefined;
  readonly maxConfigSize?: number | undefined;
  /** Where devices reach this very process, when `server.public_url` leads to any of several. */
  readonly advertiseUrl?: string | undefined;
  /** One JSON line per event on standard output, for scripts. */
  readonly json?: boolean | undefined;
}

export async function run(options: RunOptions, context: CliContext): Promise<ExitCode> {
  const { providers, network } = context.injected ?? {};
  const loading = {
    env: context.env,
    cwd: context.cwd,
    knownConnections: new Map(),
    canResolve,
    ...(options.maxConfigSize === undefined ? {} : { maxBytes: options.maxConfigSize }),
  };
  await loadVendors(namesInFile(options.file, loading, vendorNames));
  const first = loadMeshFile(options.file, { ...loading, registry: loadedRegistry(providers) });
  // What is wrong is said by one who knows every provider.
  const loaded = first.ok
    ? first
    : loadMeshFile(options.file, { ...loading, registry: await providerRegistry(providers) });
  report(loaded, context);
  if (!loaded.ok) return EXIT.invalid;

  const logger = createLogger({
    level: options.logLevel ?? loaded.mesh.logLevel,
    stream: context.stderr,
    format: options.logFormat ?? (context.isTerminal ? "pretty" : "json"),
    clock: systemClock,
    colors: context.colors,
  });
  const mesh = await startOrExplain(() =>
    startMesh({
      mesh: loaded.mesh,
      host: options.host ?? loaded.mesh.server.host,
      port: options.port ?? loaded.mesh.server.port,
      env: context.env,
      logger,
      advertiseUrl: options.advertiseUrl,
      providers,
      network,
    }),
  );
  announce(loaded.mesh, mesh, options, context);

  const onChange = (changed: LoadedMesh): void => {
    report(changed, context);
    if (changed.ok) {
      mesh.swap(changed.mesh);
      logger.info("mesh.yaml was reloaded; conversations under way keep the old one", { file: options.file });
    } else logger.warn("mesh.yaml was not reloaded: it is not valid; the old one stays", { file: options.file });
    event(options, context, { event: changed.ok ? "reloaded" : "reload_refused" });
  };
  if (options.watch) await elapsed(WATCH_AFTER_MS, context.signal);
  const watch =
    options.watch && !context.signal.aborted
      ? await watchMesh(options.file, { ...loading, registry: await providerRegistry(providers), logger, onChange })
      : undefined;
  if (watch && !isSameMesh(watch.first, loaded.mesh)) onChange(watch.first);

  await aborted(context.signal);
  if (context.isTerminal) writeLine(context.stderr, `\nstopping, within ${options.grace} s (again: at once)`);
  await watch?.close();
  await mesh.stop(options.grace * 1000);
  event(options, context, { event: "stopped" });
  return EXIT.ok;
}

function announce(loaded: Mesh, mesh: RunningMesh, options: RunOptions, context: CliContext): void {
  if (options.json) {
    event(options, context, { event: "ready", url: mesh.url, mesh: loaded.name, ...mesh.recovered });
    return;
  }
  const colors = palette(context);
  const connections = [...loaded.connections.values()].map(({ name, provider }) => `${name} (${provider})`);
  const { resumed, ended } = mesh.recovered;
  writeLine(context.stdout, `${colors.bold(`leafmesh ${version}`)}  ${loaded.name}`);
  writeLine(
    context.stdout,
    table(
      [
        ["  agents", [...loaded.agents.keys()].join(", ")],
        ["  connections", connections.join(", ") || "none"],
        ["  entry points", loaded.entryPoints.map(({ name, target }) => `${name} → ${target}`).join(", ")],
        ["  access", loaded.server.apiKeys.length > 0 ? "API keys" : "this machine only, no keys"],
        ...(resumed + ended > 0 ? [["  recovered", `${resumed} runs go on, ${ended} were closed`]] : []),
        ["  listening", colors.cyan(mesh.url)],
      ],
      2,
    ),
  );
}

function event(options: RunOptions, context: CliContext, line: Record<string, unknown>): void {
  if (options.json) writeLine(context.stdout, JSON.stringify(line));
}

function report(loaded: LoadedMesh, context: CliContext): void {
  const colors = palette(context);
  const style = { error: colors.red, warning: colors.yellow, dim: colors.dim };
  const found = loaded.ok ? loaded.warnings : [...loaded.diagnostics, ...loaded.warnings];
  if (found.length > 0) context.stderr.write(renderDiagnostics(found, style));
}

/** What an operator can cure becomes one sentence; anything else is a bug and keeps its stack. */
async function startOrExplain(start: () => Promise<RunningMesh>): Promise<RunningMesh> {
  try {
    return await start();
  } catch (error) {
    const known = [ListenError, StorageError, KeyFileError, SecretKeyError].some((type) => error instanceof type);
    if (known && error instanceof Error) throw new CommandFailure(error.message, { cause: error });
    throw error;
  }
}

function canResolve(packageName: string): boolean {
  try {
    import.meta.resolve(packageName);
    return true;
  } catch {
    return false;
  }
}

/** Whether the file still says what the mesh was started with. */
function isSameMesh(now: LoadedMesh, started: Mesh): boolean {
  return now.ok && now.mesh.digest === started.digest;
}

/** Resolves after `ms`, or when `signal` is aborted before. */
function elapsed(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = systemClock.schedule(ms, resolve);
    signal.addEventListener(
      "abort",
      () => {
        timer.cancel();
        resolve();
      },
      { once: true },
    );
  });
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
