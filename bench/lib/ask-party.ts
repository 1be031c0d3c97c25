/** `device_action` with everything behind it: the ask's machine, the store (SQLite on disk, WAL), signed rings. */
import type { Agent, Mesh } from "@leafmesh/core";
import { loadMesh } from "@leafmesh/core/config";
import { createEmbeddedBackend } from "@leafmesh/core/storage/embedded";
import { createConnectionPool, createDeviceAction } from "@leafmesh/device-action";
import type { NotifierDefinition } from "@leafmesh/notifiers/contract";
import { type RingSigner, randomId, Secret, silentLogger, systemClock } from "@leafmesh/protocol";
import type { RoomCallbacks, RoomDefinition } from "@leafmesh/rooms/contract";

/** One who asks the device, in whatever way; `ask` resolves when the device's answer is there. */
export interface Party {
  ask(): Promise<void>;
  close(): Promise<void>;
}

export interface AskPartyOptions {
  /** The `connections:` of the mesh, and its agent's `device:` block, both in flow style. */
  readonly connections: string;
  readonly device: string;
  readonly notifiers: readonly NotifierDefinition[];
  readonly rooms: readonly RoomDefinition[];
  readonly deviceId: string;
  readonly pushToken: string;
  /** Holds the store. */
  readonly folder: string;
  readonly signer: RingSigner;
  /** Where devices call the mesh back, for rooms that need it. */
  readonly callbacks?: RoomCallbacks | undefined;
  readonly publicUrl?: string | undefined;
}

const RUN_MS = 3_600_000;
const patient = new AbortController().signal;

export async function deviceActionParty(options: AskPartyOptions): Promise<Party> {
  const clock = systemClock;
  const definitions = { notifiers: byProvider(options.notifiers), rooms: byProvider(options.rooms) };
  const mesh = meshOf(options, definitions);
  const agent = agentOf(mesh);
  const path = `${options.folder}/${randomId("bench")}.db`;
  const backend = createEmbeddedBackend({ path, durable: false, clock, logger: silentLogger });
  await backend.migrate();
  const pool = createConnectionPool({
    ...{ mesh, ...definitions, clock, logger: silentLogger, newId: randomId },
    ...{ callbacks: options.callbacks, publicUrl: options.publicUrl },
  });
  const deviceAction = createDeviceAction({
    backend,
    devices: { list: async () => [{ id: options.deviceId, pushToken: new Secret(options.pushToken) }] },
    connectionsOf: () => pool,
    signer: options.signer,
    clock,
    logger: silentLogger,
    newId: randomId,
    random: Math.random,
  });
  const at = clock.nowMs();
  const [sessionId, runId] = [randomId("session"), randomId("run")];
  const times = { createdAt: at, lastActiveAt: at };
  const run = { id: runId, sessionId, agent: agent.name, status: "running", input: "", createdAt: at } as const;
  await backend.commit([
    {
      kind: "session.create",
      session: { id: sessionId, meshName: mesh.name, entryPoint: "chat", context: {}, ...times },
    },
    { kind: "run.create", run: { ...run, deadlineAt: at + RUN_MS, version: 1 } },
  ]);
  const [tool] = await deviceAction.provider.toolsFor(agent, { sessionId, runId, mesh });
  if (!tool) throw new Error("the agent has no device_action");
  let position = 0;

  return {
    async ask() {
      const call = { turn: 1, position: position++, providerCallId: `call_${position}` };
      const result = await tool.execute({
        invocation: { sessionId, runId, agent: agent.name, ...call, arguments: { action: "battery.read", inputs: {} } },
        signal: patient,
        deadlineAtMs: clock.nowMs() + RUN_MS,
      });
      if (!result.success) throw new Error(result.content);
    },
    async close() {
      await deviceAction.stop({ graceMs: 0 });
      await pool.close();
      await backend.close();
    },
  };
}

function byProvider<Definition extends { readonly provider: string }>(definitions: readonly Definition[]) {
  return new Map(definitions.map((definition) => [definition.provider, definition]));
}

function meshOf(options: AskPartyOptions, registry: Parameters<typeof loadMesh>[1]["registry"]): Mesh {
  const text = `
name: bench
connections: ${options.connections}
${options.publicUrl ? `server: { public_url: "${options.publicUrl}" }` : ""}
agents:
  phone_helper:
    model: gpt-4o-mini
    prompt: Read the battery.
    device: ${options.device}
`;
  const loaded = loadMesh(text, {
    registry,
    env: { OPENAI_API_KEY: "none" },
    readFile: () => ({ ok: false, why: "missing" }),
    folder: options.folder,
  });
  if (!loaded.ok) throw new Error(loaded.diagnostics.map(({ message }) => message).join("\n"));
  const { mesh } = loaded;
  return { ...mesh, limits: { ...mesh.limits, maxAsksPerRun: 1_000_000, maxOpenAsksPerSession: 1_000 } };
}

function agentOf(mesh: Mesh): Agent {
  const [agent] = mesh.agents.values();
  if (!agent) throw new Error("the mesh has no agent");
  return agent;
}
