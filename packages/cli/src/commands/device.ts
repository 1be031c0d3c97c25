/** `leafmesh device`: a simulated device in the terminal, to try a mesh with, and to break on purpose. */
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { parseMeshKeys } from "@leafmesh/device";
import { deviceIdSchema, type MeshKey } from "@leafmesh/protocol";
import { type CliContext, EXIT, type ExitCode } from "../context.ts";
import { CommandFailure } from "../failure.ts";
import { clockTime, palette, printable, writeLine } from "../output.ts";
import { type SimulatedDeviceEvent, startSimulatedDevice } from "../simulated-device.ts";

export interface DeviceCommandOptions {
  readonly meshUrl?: string | undefined;
  readonly id: string;
  readonly token: string;
  /** Broker address; with `topic`, the ring topic that the app gives the mesh as push token. */
  readonly mqtt?: string | undefined;
  readonly topic?: string | undefined;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  /** File with the mesh's public keys, as `leafmesh keys show --json` prints them. */
  readonly meshKey?: string | undefined;
  readonly behave?: string | undefined;
  readonly battery?: number | undefined;
  readonly ledger?: string | undefined;
  readonly undeclared?: boolean | undefined;
  /** One JSON line per event, `{ "event": "ready", … }`. */
  readonly json?: boolean | undefined;
}

/** Runs until it is stopped, or the mesh will not ring it any more. */
export async function device(options: DeviceCommandOptions, context: CliContext): Promise<ExitCode> {
  const id = deviceIdSchema.safeParse(options.id);
  if (!id.success) {
    throw new CommandFailure(`--id ${options.id}: ${id.error.issues[0]?.message}.`, { exitCode: EXIT.usage });
  }
  const simulated = await startSimulatedDevice(
    {
      id: id.data,
      token: options.token,
      meshUrl: options.meshUrl ?? (options.mqtt === undefined ? DEFAULT_MESH_URL : undefined),
      mqtt: mqttOf(options),
      meshKeys: options.meshKey === undefined ? undefined : await readKeys(resolve(context.cwd, options.meshKey)),
      behave: options.behave,
      battery: options.battery,
      ledger: options.ledger === undefined ? undefined : resolve(context.cwd, options.ledger),
      undeclared: options.undeclared,
      report: options.json ? jsonReporter(context) : textReporter(context),
    },
    context,
  ).catch((cause: unknown) => {
    if (context.signal.aborted) return undefined;
    throw cause;
  });
  if (!simulated) return EXIT.ok;
  const stopped = new Promise<undefined>((done) => {
    if (context.signal.aborted) done(undefined);
    else context.signal.addEventListener("abort", () => done(undefined), { once: true });
  });
  const why = await Promise.race([stopped, simulated.ended]);
  await simulated.close();
  if (why === undefined || context.signal.aborted) return EXIT.ok;
  throw new CommandFailure(`The mesh will not ring this device any more (${printable(why)}).`);
}

const DEFAULT_MESH_URL = "http://127.0.0.1:18820";

function mqttOf({ mqtt, topic, username, password }: DeviceCommandOptions) {
  if (mqtt === undefined && topic === undefined) return undefined;
  if (mqtt === undefined || topic === undefined) {
    throw new CommandFailure("--mqtt and --topic go together.", { exitCode: EXIT.usage });
  }
  return { url: mqtt, topic, username, password };
}

async function readKeys(path: string): Promise<readonly MeshKey[]> {
  const hint = "Write it with: leafmesh keys show --json > keys.json";
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (cause) {
    throw new CommandFailure(`--mesh-key ${path} cannot be read.`, { exitCode: EXIT.usage, hint, cause });
  }
  const keys = parseMeshKeys(text);
  if (!keys) throw new CommandFailure(`--mesh-key ${path} holds no keys.`, { exitCode: EXIT.usage, hint });
  return keys;
}

function jsonReporter({ stdout }: CliContext): (event: SimulatedDeviceEvent) => void {
  return ({ type, ...fields }) => writeLine(stdout, JSON.stringify({ event: type, ...fields }));
}

function textReporter(context: CliContext): (event: SimulatedDeviceEvent) => void {
  const colors = palette(context);
  return (event) => {
    const time = colors.dim(clockTime(Date.now() / 1000));
    writeLine(context.stdout, `${time}  ${colors.cyan(event.type.padEnd(9))}  ${printable(describe(event))}`);
  };
}

function describe(event: SimulatedDeviceEvent): string {
  switch (event.type) {
    case "ready":
      return `device "${event.device}" can be rung (${event.via})`;
    case "unready":
      return event.detail;
    case "ring":
      return `${event.ask} from ${event.mesh ?? "a mesh without a name"} (approval: ${event.approval})`;
    case "ignored":
      return `${event.reason}: ${event.detail}`;
    case "task":
      return `${event.ask} ${event.action} within ${event.budgetMs} ms`;
    case "accepted":
    case "acted":
    case "handled":
      return `${event.ask} ${event.action}`;
    case "cancelled":
      return `${event.ask} ${event.reason}`;
    case "replied":
      return `${event.ask} ${event.outcome}${event.code ? ` (${event.code})` : ""}${event.repeated ? ", as before" : ""}`;
    case "closed":
      return `${event.ask} ${event.reason}: ${event.detail}`;
    case "refused":
      return `${event.ask}${event.told ? "" : " (the mesh could not be told)"}`;
    case "joined":
      return `${event.ask} in a ${event.provider} room`;
    case "settled":
      return `${event.ask} ${event.disposition.status}`;
    default:
      return event.ask;
  }
}
