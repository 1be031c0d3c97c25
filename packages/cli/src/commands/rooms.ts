/** `leafmesh rooms`: a room service of its own, and the judge of any room service. */
import { randomBytes } from "node:crypto";
import { isLoopback } from "@leafmesh/core/config";
import { createLogger } from "@leafmesh/core/security";
import { Secret, systemClock } from "@leafmesh/protocol";
import { connectUrlOf, type RoomServer, serveRooms } from "@leafmesh/room-service";
import { type ConformanceReport, type ConformanceResult, runConformance } from "@leafmesh/room-service/conformance";
import { type CliContext, EXIT, type ExitCode } from "../context.ts";
import { CommandFailure } from "../failure.ts";
import { type Palette, palette, printable, table, withSpinner, writeJson, writeLine } from "../output.ts";

/** Keys for `serve`, separated by commas; the first one is the default of `conformance`. */
const KEYS_VARIABLE = "LEAFMESH_ROOM_KEYS";
const SHORTEST_KEY = 16;

export interface RoomsServeOptions {
  readonly host: string;
  /** 0 for any free port. */
  readonly port: number;
  /** API keys of meshes, beside those of `LEAFMESH_ROOM_KEYS`. */
  readonly key?: readonly string[] | undefined;
  /** Seconds of silence after which a client is pinged. */
  readonly idle?: number | undefined;
  /** Seconds for which a lost client may come back. */
  readonly grace?: number | undefined;
  /** `https://…` as devices and meshes reach the service. */
  readonly publicUrl?: string | undefined;
  readonly logLevel?: "debug" | "info" | "warn" | "error" | undefined;
  /** One JSON line per event on standard output, for scripts. */
  readonly json?: boolean | undefined;
}

export async function roomsServe(options: RoomsServeOptions, context: CliContext): Promise<ExitCode> {
  const given = keysOf(options.key, context);
  checkExposure(options, given);
  const isMadeUp = given.length === 0;
  const keys = isMadeUp ? [randomBytes(24).toString("base64url")] : given;
  const logger = createLogger({
    level: options.logLevel ?? "info",
    stream: context.stderr,
    format: context.isTerminal ? "pretty" : "json",
    clock: systemClock,
    colors: context.colors,
  });
  const server = await listen(options, keys, logger);
  announce(server, options, isMadeUp ? keys[0] : undefined, context);
  await aborted(context.signal);
  await server.close();
  if (options.json) writeLine(context.stdout, JSON.stringify({ event: "stopped" }));
  return EXIT.ok;
}

async function listen(
  options: RoomsServeOptions,
  keys: readonly string[],
  logger: ReturnType<typeof createLogger>,
): Promise<RoomServer> {
  try {
    return await serveRooms({
      host: options.host,
      port: options.port,
      publicUrl: options.publicUrl,
      apiKeys: keys.map((key) => new Secret(key)),
      limits: {
        ...(options.idle === undefined ? {} : { idle_s: options.idle }),
        ...(options.grace === undefined ? {} : { grace_s: options.grace }),
      },
      logger,
    });
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : undefined;
    if (code === undefined) throw error;
    throw new CommandFailure(`cannot listen on ${options.host}:${options.port} (${code})`, {
      hint: code === "EADDRINUSE" ? "something listens there already; choose another --port" : undefined,
      cause: error,
    });
  }
}

/** Outside this machine a service needs keys that were chosen, and an address with TLS in front of it. */
function checkExposure(options: RoomsServeOptions, keys: readonly string[]): void {
  const usage = (message: string, hint: string): CommandFailure =>
    new CommandFailure(message, { exitCode: EXIT.usage, hint });
  const { publicUrl } = options;
  const parsed = publicUrl === undefined ? undefined : URL.parse(publicUrl);
  const isPlainHere = parsed?.protocol === "http:" && isLoopback(parsed.hostname);
  if (publicUrl !== undefined && !(parsed?.protocol === "https:" || isPlainHere)) {
    throw usage(`--public-url ${printable(publicUrl)} is not an https:// address`, "devices refuse a room without TLS");
  }
  for (const key of keys) {
    if (key.length < SHORTEST_KEY || /[^\x21-\x7e]/.test(key)) {
      throw usage(
        `an API key must have at least ${SHORTEST_KEY} characters of ASCII without spaces`,
        "openssl rand -base64 24 makes one",
      );
    }
  }
  if (isLoopback(options.host)) return;
  if (keys.length === 0) {
    throw usage(
      `listening on ${options.host} needs an API key: whoever reaches it could open rooms`,
      `set ${KEYS_VARIABLE} or give --key`,
    );
  }
  if (publicUrl === undefined) {
    throw usage(
      `listening on ${options.host} needs --public-url: the https:// address under which devices reach the service`,
      "TLS comes from a proxy in front; see docs/room-protocol.md",
    );
  }
}

function announce(
  server: RoomServer,
  options: RoomsServeOptions,
  madeUpKey: string | undefined,
  context: CliContext,
): void {
  const connect = connectUrlOf(options.publicUrl ?? server.url);
  if (options.json) {
    const key = madeUpKey === undefined ? {} : { key: madeUpKey };
    writeLine(context.stdout, JSON.stringify({ event: "ready", url: server.url, connect_url: connect, ...key }));
    return;
  }
  const colors = palette(context);
  writeLine(context.stdout, colors.bold("LeafMesh rooms, protocol version 1"));
  writeLine(
    context.stdout,
    table([
      ["  listening", colors.cyan(server.url)],
      ["  devices connect to", connect],
      ...(madeUpKey === undefined ? [] : [["  API key", `${madeUpKey}  (made up for this run)`]]),
    ]),
  );
}

export interface RoomsConformanceOptions {
  /** Base URL of the service. */
  readonly url: string;
  /** Default: the first of `LEAFMESH_ROOM_KEYS`. */
  readonly key?: string | undefined;
  /** Ids of tests, or beginnings of ids. */
  readonly only?: readonly string[] | undefined;
  readonly json?: boolean | undefined;
}

export async function roomsConformance(options: RoomsConformanceOptions, context: CliContext): Promise<ExitCode> {
  const key = options.key ?? keysOf(undefined, context)[0];
  if (key === undefined) {
    throw new CommandFailure("no API key for the room service", {
      exitCode: EXIT.usage,
      hint: `give --key or set ${KEYS_VARIABLE}`,
    });
  }
  if (!URL.canParse(options.url)) {
    throw new CommandFailure(`--url ${printable(options.url)} is not an address`, { exitCode: EXIT.usage });
  }
  const report = await withSpinner(context, `judging ${options.url}`, () => judge(options, new Secret(key), context));
  if (options.json) writeJson(context.stdout, report);
  else printReport(report, context);
  return report.failed > 0 || context.signal.aborted ? EXIT.failed : EXIT.ok;
}

async function judge(options: RoomsConformanceOptions, key: Secret, context: CliContext): Promise<ConformanceReport> {
  try {
    return await runConformance({ url: options.url, key, only: options.only, signal: context.signal });
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new CommandFailure(`--only: ${error.message}`, { exitCode: EXIT.usage, cause: error });
  }
}

function printReport(report: ConformanceReport, context: CliContext): void {
  const colors = palette(context);
  const rows = report.results.map((result) => [
    statusText(result, colors),
    result.id,
    result.title,
    colors.dim(`${(result.durationMs / 1000).toFixed(1)} s`),
  ]);
  writeLine(context.stdout, table(rows));
  const explained = report.results.filter(({ reason }) => reason !== undefined);
  if (explained.length > 0) writeLine(context.stdout);
  for (const { id, status, reason = "" } of explained) {
    const paint = status === "fail" ? colors.red : colors.yellow;
    writeLine(context.stdout, `${paint(id)}  ${printable(reason)}`);
  }
  const { passed, failed, skipped } = report;
  writeLine(context.stdout, `\n${passed} passed, ${failed} failed, ${skipped} skipped`);
}

function statusText({ status }: ConformanceResult, colors: Palette): string {
  if (status === "pass") return colors.green("pass");
  return status === "fail" ? colors.red("FAIL") : colors.yellow("skip");
}

function keysOf(given: readonly string[] | undefined, context: CliContext): readonly string[] {
  const fromEnvironment = (context.env[KEYS_VARIABLE] ?? "").split(",").map((key) => key.trim());
  return [...(given ?? []), ...fromEnvironment].filter((key) => key !== "");
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
