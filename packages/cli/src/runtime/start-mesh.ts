/**
 * Assembles a mesh: storage, keys, models, connections, engine, HTTP. The one place where the parts meet; what it
 * answers is started, and everything in it is closed by `stop`.
 */
import { type Backend, createEngine, type Engine, findUnknownTools, getAsk, listAsks, type Mesh } from "@leafmesh/core";
import type { RedactingLogger } from "@leafmesh/core/security";
import { createUploads } from "@leafmesh/core/uploads";
import {
  type ConnectionPool,
  createConnectionPool,
  createDeviceAction,
  type DeviceAction,
} from "@leafmesh/device-action";
import { createDirectHub, createRingLinkHub } from "@leafmesh/notifiers";
import {
  createOrderedId,
  createRingSigner,
  DIRECT_PATH,
  type Network,
  randomId,
  systemClock,
} from "@leafmesh/protocol";
import { connectUrlOf, createRoomService } from "@leafmesh/room-service";
import { createRoomCallbackHub } from "@leafmesh/rooms";
import { createApi, isLoopback, type Listening, listen, type MountedService } from "@leafmesh/server";
import { EXIT } from "../context.ts";
import { CommandFailure } from "../failure.ts";
import { loadVendors, type ProviderDefinitions, providerDefinitions, withMore } from "../registry.ts";
import { version } from "../version.ts";
import { createAskCancel } from "./ask-cancel.ts";
import { createJoinLinks } from "./join-links.ts";
import { createPeerRings } from "./peer-rings.ts";
import { secretsOf } from "./secrets.ts";
import { openStorage } from "./storage.ts";
import { askUploads, type MeshAddresses } from "./upload-address.ts";

export interface StartMeshOptions {
  readonly mesh: Mesh;
  readonly host: string;
  readonly port: number;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly logger: RedactingLogger;
  /** Where devices reach this very process, when `server.public_url` leads to any of several. */
  readonly advertiseUrl?: string | undefined;
  /** Providers beside the built-in ones, or instead of them where the name is the same. */
  readonly providers?: Partial<ProviderDefinitions> | undefined;
  /** Where a test plays the vendors of push services; see `leafmesh/testing`. */
  readonly network?: Network | undefined;
}

export interface RunningMesh {
  readonly url: string;
  readonly engine: Engine;
  readonly deviceAction: DeviceAction;
  readonly backend: Backend;
  /** Runs that an earlier process left: taken up, or only closed. */
  readonly recovered: { readonly resumed: number; readonly ended: number };
  /** New conversations use `mesh`; what is under way keeps the one it started with. */
  swap(mesh: Mesh): void;
  /** Takes no new work, gives what is under way `graceMs`, ends the rest honestly, closes everything. Idempotent. */
  stop(graceMs: number): Promise<void>;
}

/** Photos come from phones: large enough for one, too small to fill a disk with. */
const MAX_UPLOAD_BYTES = 8 * 1024 * 1024;
/** How long what is being written when the grace is over may take to end. */
const LAST_ANSWERS_MS = 2_000;
const CHECK_TIMEOUT_MS = 20_000;

/** Starts in this order, and undoes it in the other when something on the way fails. */
export async function startMesh(options: StartMeshOptions): Promise<RunningMesh> {
  const undo: (() => Promise<void>)[] = [];
  try {
    return await assemble(options, (close) => undo.push(close));
  } catch (error) {
    for (const close of undo.reverse()) await close().catch(() => {});
    throw error;
  }
}

async function assemble(
  options: StartMeshOptions,
  onFailure: (close: () => Promise<void>) => void,
): Promise<RunningMesh> {
  const { logger, env } = options;
  const clock = systemClock;
  const newId = createOrderedId(clock);
  let mesh = options.mesh;
  for (const secret of secretsOf(mesh)) logger.redact.add(secret);

  const { backend, sealer, meshKey } = await openStorage({ mesh, env, clock, logger }, (opened) =>
    onFailure(() => opened.close()),
  );
  const unknown = describeUnknown(await findUnknownTools(mesh, backend));
  if (unknown) throw new CommandFailure(unknown, { exitCode: EXIT.invalid, hint: DECLARE_TOOLS });
  const signer = await createRingSigner(meshKey);

  let listening: Listening | undefined;
  const localUrl = (): string => listening?.url ?? "";
  const addresses: MeshAddresses = {
    publicUrl: () => options.advertiseUrl ?? mesh.server.publicUrl,
    loopbackUrl: () => (isLoopback(options.host) ? localUrl() : undefined),
  };

  const hub = createDirectHub({ clock, logger });
  const peerRings = backend.peers && createPeerRings(hub, backend.peers, clock, newId);
  const ringer = peerRings ?? hub;
  const linkHub = createRingLinkHub({ clock });
  const joinLinks = createJoinLinks(linkHub, backend.peers, clock, newId);
  const roomCallbacks = createRoomCallbackHub({ newId: randomId, address: addresses.publicUrl });
  const roomService = createRoomService({
    connectUrl: () => connectUrlOf(addresses.publicUrl() ?? localUrl()),
    clock,
    newId: randomId,
    logger,
  });
  await loadVendors(new Set([...mesh.connections.values()].map(({ provider }) => provider)));
  // Asked for with each mesh: one that is swapped in may name providers that were loaded for it.
  const definitions = (): ProviderDefinitions =>
    withMore(providerDefinitions({ ringer: () => ringer, rooms: () => roomService }), options.providers);

  // A run that began before a reload may still ask: it finds the retired pool of its mesh, which closes after it.
  const pools = new WeakMap<Mesh, ConnectionPool>();
  const poolOf = (of: Mesh): ConnectionPool => {
    const known = pools.get(of);
    if (known) return known;
    const pool = createConnectionPool({
      mesh: of,
      ...definitions(),
      clock,
      logger,
      newId: randomId,
      publicUrl: of.server.publicUrl,
      links: linkHub,
      callbacks: roomCallbacks,
      network: options.network,
    });
    pools.set(of, pool);
    return pool;
  };

  const uploads = createUploads({ backend, sealer, clock, maxBytes: MAX_UPLOAD_BYTES });
  const engine = createEngine({
    mesh,
    backend,
    models: (of) => openModels(of, env, logger),
    toolProviders: [{ toolsFor: (agent, run) => deviceAction.provider.toolsFor(agent, run) }],
    sealer,
    uploads,
    clock,
    newId,
    random: Math.random,
    logger,
  });
  const deviceAction = createDeviceAction({
    backend,
    devices: engine.directory,
    connectionsOf: poolOf,
    notices: engine.notices,
    signer,
    uploads: askUploads(uploads, addresses),
    clock,
    logger,
    newId,
    random: Math.random,
  });

  const askCancel = createAskCancel(backend, () => deviceAction, clock, logger);
  let ready = false;
  const api = createApi({
    mesh: () => mesh,
    engine,
    backend,
    asks: {
      list: (query) => listAsks(backend, query),
      get: (askId) => getAsk(backend, askId),
      cancel: (askId) => askCancel.cancel(askId),
    },
    uploads,
    links: joinLinks,
    roomCallbacks,
    joinPageScript: async () => (await import("./join-page-script.ts")).joinPageScript(),
    meshKeys: [signer.key],
    clock,
    logger,
    version,
    isReady: () => ready,
  });
  const directSockets: MountedService = {
    handleUpgrade(request, socket, head) {
      if (request.url?.split("?")[0] !== DIRECT_PATH) return false;
      hub.handleUpgrade(request, socket, head);
      return true;
    },
  };
  listening = await listen(api, {
    host: options.host,
    port: options.port,
    hasKeys: mesh.server.apiKeys.length > 0,
    services: [directSockets, { handleUpgrade: (...upgrade) => roomService.handleUpgrade(...upgrade) }],
    logger,
  });
  const server = listening;
  onFailure(() => server.close(0));
  const recovered = await engine.start();
  ready = true;
  checkInBackground(poolOf(mesh), logger);

  let stopping: Promise<void> | undefined;
  const shutDown = async (graceMs: number): Promise<void> => {
    ready = false;
    const runsEnd = engine.stop({ graceMs: graceMs + LAST_ANSWERS_MS });
    await deviceAction.stop({ graceMs });
    await runsEnd;
    peerRings?.close();
    askCancel.close();
    joinLinks.close();
    await Promise.all([hub.close(), roomService.close()]);
    await server.close(LAST_ANSWERS_MS);
    await poolOf(mesh).close();
    await backend.close();
  };

  return {
    url: server.url,
    engine,
    deviceAction,
    backend,
    recovered,
    swap(next) {
      const replaced = mesh;
      for (const secret of secretsOf(next)) logger.redact.add(secret);
      mesh = next;
      warnOfUnknownTools(next, backend, logger);
      engine.swapMesh(next);
      poolOf(replaced).retire();
      checkInBackground(poolOf(next), logger);
    },
    stop(graceMs) {
      stopping ??= shutDown(graceMs);
      return stopping;
    },
  };
}

const DECLARE_TOOLS = "declare them under tools, or with POST /tools before an agent lists them";

/** One sentence for the operator; nothing when every tool is there. */
function describeUnknown(unknown: Awaited<ReturnType<typeof findUnknownTools>>): string | undefined {
  if (unknown.length === 0) return undefined;
  const listed = unknown.map(({ agent, tool }) => `${tool} (agent ${agent})`).join(", ");
  return `neither mesh.yaml nor the store has these tools: ${listed}`;
}

function warnOfUnknownTools(mesh: Mesh, backend: Backend, logger: RedactingLogger): void {
  findUnknownTools(mesh, backend).then(
    (unknown) => {
      const sentence = describeUnknown(unknown);
      if (sentence)
        logger.warn("the reloaded mesh lists tools that do not exist", { problem: sentence, cure: DECLARE_TOOLS });
    },
    (error: unknown) => logger.error("the tools of the reloaded mesh could not be looked up", { error }),
  );
}

/** Models are loaded when the first one is asked for: a mesh is ready before that. */
function openModels(mesh: Mesh, env: StartMeshOptions["env"], logger: RedactingLogger) {
  type Models = ReturnType<typeof import("@leafmesh/core/models").createModels>;
  let opened: Promise<Models> | undefined;
  const open = (): Promise<Models> => {
    opened ??= import("@leafmesh/core/models").then(({ createModels }) =>
      createModels({ mesh, env, clock: systemClock, logger }),
    );
    return opened;
  };
  return {
    model: async (endpoint: string) => (await open()).model(endpoint),
    close: async () => (await opened)?.close(),
  };
}

/** Tells the operator which connections do not work, without holding up the start. Rings nobody. */
function checkInBackground(pool: ConnectionPool, logger: RedactingLogger): void {
  const stop = new AbortController();
  const timer = systemClock.schedule(CHECK_TIMEOUT_MS, () => stop.abort());
  const check = async (): Promise<void> => {
    for (const { connection, face, result } of await pool.checkAll(stop.signal)) {
      if (result.status === "active") logger.info("connection works", { connection, face });
      else logger.warn("connection does not work", { connection, face, status: result.status, reason: result.reason });
    }
  };
  check()
    .catch((error: unknown) => logger.error("the connection tests failed", { error }))
    .finally(() => timer.cancel());
}
