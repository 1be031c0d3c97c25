/** A device without a device: the kit, rung over the direct socket or MQTT, doing what a phone could do. */
import {
  type Connector,
  connectDirect,
  createDevice,
  type DeviceEvent,
  type DirectConnection,
  directAddress,
  fetchMeshKeys,
  leafmeshConnector,
  type TaskHandler,
} from "@leafmesh/device";
import { type FileLedger, openFileLedger } from "@leafmesh/device/node";
import { type MeshKey, ringSchema } from "@leafmesh/protocol";
import { type CliContext, EXIT } from "./context.ts";
import { CommandFailure } from "./failure.ts";
import { SIMULATED_CAPABILITIES, simulatedHandlers } from "./simulated-device/actions.ts";
import {
  type Behaviour,
  behavingConnector,
  behavingHandler,
  type Means,
  parseBehaviour,
} from "./simulated-device/behaviour.ts";
import { cuttableNetwork } from "./simulated-device/cuttable-network.ts";
import type { MqttRingOptions } from "./simulated-device/mqtt.ts";
import { vendorConnectors } from "./simulated-device/room-connectors.ts";

export interface SimulatedDeviceOptions {
  readonly id: string;
  /** The push token that the app gives the mesh for this device; rung over the direct socket. */
  readonly token?: string | undefined;
  /** The mesh: where the direct socket and its keys are. */
  readonly meshUrl?: string | undefined;
  /** Rung over MQTT instead. */
  readonly mqtt?: MqttRingOptions | undefined;
  /** Default: the mesh's published keys where its address is known, else none, which takes rings of this machine only. */
  readonly meshKeys?: readonly MeshKey[] | undefined;
  /** See `BEHAVIOUR_HELP`; `done` unless given. */
  readonly behave?: string | undefined;
  /** Percent; 71 unless given. */
  readonly battery?: number | undefined;
  /** File of the ledger; in memory unless given. */
  readonly ledger?: string | undefined;
  /** Declares no capabilities on joining. */
  readonly undeclared?: boolean | undefined;
  readonly report?: ((event: SimulatedDeviceEvent) => void) | undefined;
}

/** The kit's events, and those of the simulation. */
export type SimulatedDeviceEvent =
  | DeviceEvent
  /** The mesh can ring this device. Again after each time that it could not. */
  | { readonly type: "ready"; readonly device: string; readonly via: "direct" | "mqtt" }
  | { readonly type: "unready"; readonly detail: string }
  /** The device really did something: not when it declined, and before it says so. */
  | { readonly type: "acted"; readonly ask: string; readonly action: string };

export interface SimulatedDevice {
  /** Resolves when the mesh will not ring this device any more; with why. */
  readonly ended: Promise<string>;
  close(): Promise<void>;
}

/** More than a stopped handler may take, for one that is told to answer late. */
const STOP_MARGIN_MS = 5000;

/** Resolves once the mesh can ring the device. Throws a {@link CommandFailure}. */
export async function startSimulatedDevice(
  options: SimulatedDeviceOptions,
  context: CliContext,
): Promise<SimulatedDevice> {
  const behaviour = parseBehaviour(options.behave ?? "done");
  const report = options.report ?? (() => {});
  const keys = meshKeysOf(options);
  const ledger = options.ledger === undefined ? undefined : await openLedger(options.ledger);
  const overMqtt = options.mqtt && { options: options.mqtt, ...(await import("./simulated-device/mqtt.ts")) };
  const network = cuttableNetwork();
  const room = overMqtt?.mqttRoom(overMqtt.options);
  const means = createMeans(context.signal, (ms) => {
    network.cut(ms);
    room?.cut(ms);
  });
  const connectors: Connector[] = [leafmeshConnector({ WebSocket: network.WebSocket }), ...vendorConnectors()];
  if (room) connectors.push(room.connector);

  const device = createDevice({
    id: options.id,
    handlers: behavingHandlers(options, behaviour, means, report),
    approve: () => behaviour.name !== "not-allowed",
    capabilities: options.undeclared ? undefined : SIMULATED_CAPABILITIES,
    meshKeys: keys?.get,
    connectors: connectors.map((connector) => behavingConnector(connector, behaviour, means)),
    ledger,
    onEvent: report,
    stopWithinMs: (behaviour.ms ?? 0) + STOP_MARGIN_MS,
  });
  const via = options.mqtt ? "mqtt" : "direct";
  const onRing = (ring: string): void => {
    if (behaviour.name === "no-join") reportRing(ring, via, report);
    else void device.handleRing(ring, via);
  };

  const close = async (): Promise<void> => {
    await device.close();
    await ledger?.close();
  };
  let source: RingSource;
  try {
    source = overMqtt
      ? await overMqtt.listenOverMqtt(overMqtt.options, { id: options.id, onRing, report, signal: context.signal })
      : await listenDirectly(options, { onRing, report, keys, signal: context.signal });
  } catch (cause) {
    await close();
    throw cause;
  }
  return {
    ended: source.ended,
    async close() {
      await source.close();
      await close();
    },
  };
}

/** For a device that hears the ring and leaves it at that. */
function reportRing(text: string, source: string, report: (event: SimulatedDeviceEvent) => void): void {
  const ring = ringSchema.safeParse(JSON.parse(text));
  if (!ring.success) return;
  const { ask, mesh, approval } = ring.data;
  report({ type: "ring", ask, mesh, approval, source });
}

function behavingHandlers(
  { battery = 71 }: SimulatedDeviceOptions,
  behaviour: Behaviour,
  means: Means,
  report: (event: SimulatedDeviceEvent) => void,
): Readonly<Record<string, TaskHandler>> {
  const acted = (ask: string, action: string): void => report({ type: "acted", ask, action });
  return Object.fromEntries(
    Object.entries(simulatedHandlers(battery)).map(([name, handler]) => [
      name,
      behavingHandler(handler, behaviour, means, acted),
    ]),
  );
}

/** Every wait ends when the program is told to stop. */
function createMeans(signal: AbortSignal, cut: (ms: number | undefined) => void): Means {
  const waiting = new Set<() => void>();
  const until = (arm?: (resolve: () => void) => void): Promise<void> =>
    new Promise((resolve) => {
      const end = (): void => {
        signal.removeEventListener("abort", end);
        resolve();
      };
      signal.addEventListener("abort", end);
      if (signal.aborted) end();
      else arm?.(end);
    });
  return {
    wait: (ms) => until((resolve) => void setTimeout(resolve, ms).unref()),
    forever: () => until(),
    kill: () => process.kill(process.pid, "SIGKILL"),
    cut(ms) {
      cut(ms);
      for (const resolve of waiting) resolve();
      waiting.clear();
    },
    untilCut: () => until((resolve) => waiting.add(resolve)),
  };
}

async function openLedger(path: string): Promise<FileLedger> {
  try {
    return await openFileLedger(path);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new CommandFailure(`--ledger ${path} cannot be used: ${reason}`, { exitCode: EXIT.usage, cause });
  }
}

// ── The mesh's keys ─────────────────────────────────────────────────────────────────────────────────────────────────

interface KeySource {
  get(): Promise<readonly MeshKey[]>;
  /** The mesh may be another process by now: ask again. */
  renew(): void;
}

function meshKeysOf({ meshKeys, meshUrl }: SimulatedDeviceOptions): KeySource | undefined {
  if (meshKeys) return { get: async () => meshKeys, renew() {} };
  if (meshUrl === undefined) return undefined;
  let known: Promise<readonly MeshKey[]> | undefined;
  const get = (): Promise<readonly MeshKey[]> => {
    if (known) return known;
    const asked = fetchMeshKeys(meshUrl);
    known = asked;
    asked.catch(() => {
      known = undefined;
    });
    return asked;
  };
  return {
    get,
    renew() {
      known = undefined;
    },
  };
}

// ── The direct socket ───────────────────────────────────────────────────────────────────────────────────────────────

/** What rings the device. */
export interface RingSource {
  readonly ended: Promise<string>;
  close(): Promise<void>;
}

interface DirectListener {
  readonly onRing: (ring: string) => void;
  readonly report: (event: SimulatedDeviceEvent) => void;
  readonly keys: KeySource | undefined;
  readonly signal: AbortSignal;
}

async function listenDirectly(
  { id, token, meshUrl }: SimulatedDeviceOptions,
  { onRing, report, keys, signal }: DirectListener,
): Promise<RingSource> {
  if (meshUrl === undefined || token === undefined) {
    throw new CommandFailure("A device that is rung directly needs --mesh-url and --token.", { exitCode: EXIT.usage });
  }
  const ended = Promise.withResolvers<string>();
  let connection: DirectConnection;
  try {
    connection = connectDirect({
      url: directAddress(meshUrl),
      id,
      token,
      onRing,
      onState(state, detail) {
        if (state === "ready") {
          keys?.renew();
          report({ type: "ready", device: id, via: "direct" });
        } else if (state === "waiting") report({ type: "unready", detail });
        else if (state !== "connecting") ended.resolve(`${state}: ${detail}`);
      },
    });
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new CommandFailure(`The device cannot connect: ${reason}`, { exitCode: EXIT.usage, cause });
  }
  const stop = (): void => connection.close();
  signal.addEventListener("abort", stop, { once: true });
  try {
    await connection.ready();
  } catch (cause) {
    if (signal.aborted) throw cause;
    throw new CommandFailure(`The mesh at ${meshUrl} does not let the device in: ${await ended.promise}`, { cause });
  }
  return {
    ended: ended.promise,
    async close() {
      signal.removeEventListener("abort", stop);
      connection.close();
    },
  };
}
