/** One simulated conversation: its devices, its rooms, its mesh process, and whatever befalls them. */
import type { Agent, Backend, DeviceDirectory, Mesh, Tool, ToolInvocation, ToolProvider } from "@leafmesh/core";
import type { Notifier } from "@leafmesh/notifiers/contract";
import {
  type AskResult,
  askResultSchema,
  type Clock,
  type Logger,
  type NewId,
  type Ring,
  type RingSigner,
  Secret,
  silentLogger,
} from "@leafmesh/protocol";
import type { RoomProvider } from "@leafmesh/rooms/contract";
import type { FakeClock } from "../fake-clock.ts";
import type { Deeds } from "./device-ledger.ts";
import { drawFaultPlan, type FaultPlan } from "./fault-plan.ts";
import { FaultyNotifier } from "./faulty-notifier.ts";
import type { FaultyRoom, RoomRecord } from "./faulty-room.ts";
import { FaultyRooms } from "./faulty-rooms.ts";
import type { LossProfile } from "./loss-profiles.ts";
import { type KillPlan, MeshProcess, type StoreFault } from "./mesh-process.ts";
import type { Random } from "./random.ts";
import { SimulatedDevice } from "./simulated-device.ts";
import { sleep } from "./sleep.ts";

/** What a mesh process is given; the `device_action` tool under test is built on it. */
export interface AskProcessDependencies {
  readonly backend: Backend;
  readonly devices: DeviceDirectory;
  readonly notifier: Notifier;
  readonly rooms: RoomProvider;
  readonly signer: RingSigner;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly newId: NewId;
  readonly random: () => number;
}

/** The tool under test, as the assembly of a mesh holds it. */
export interface AskProcess {
  readonly provider: ToolProvider;
  cancel(askId: string): Promise<unknown>;
  stop(options: { graceMs: number }): Promise<void>;
  openAsks(): number;
}

/** What became of one request, and what is known about it from everywhere else. */
export interface SimulatedAsk {
  /** `undefined` when nothing was ever stored of it. */
  readonly askId: string | undefined;
  readonly plan: FaultPlan;
  /** What the agent was told; `undefined` when it was told nothing, which must not be. */
  readonly result: AskResult | undefined;
  /** Whether a later process found it, after the one that began it had died. */
  readonly recovered: boolean;
  /** Monotonic time from the request to the outcome; `undefined` for a recovered one. */
  readonly tookMs: number | undefined;
  /** On the monotonic clock. */
  readonly endedAtMs: number | undefined;
  readonly deeds: Deeds;
  readonly room: RoomRecord | undefined;
  /** What the device itself says of the task, if it accepted it. */
  readonly deviceAnswer: AskResult["outcome"] | undefined;
  /** Whether the store has a record of it. */
  readonly isStored: boolean;
  /** Outcomes in the store's events: exactly one for every ask that was stored. */
  readonly settledEvents: readonly AskResult[];
  /** Whether the process that began it died, before or after the agent was told. */
  readonly processDied: boolean;
  /** Whether the store said, when a process died, that the task may have left. */
  readonly wasOffered: boolean;
}

export interface ConversationOptions {
  readonly id: string;
  readonly asks: number;
  readonly random: Random;
  readonly clock: FakeClock;
  readonly backend: Backend;
  /** What the rooms can see of losses; left out, whatever any room could. */
  readonly profile?: LossProfile | undefined;
  startProcess(dependencies: AskProcessDependencies): AskProcess;
}

const DEVICES = ["phone", "tablet"] as const;
const RUN_MS = 600_000;

interface Request {
  /** Names the request in the tool call's arguments, so that its stored call is found. */
  readonly action: string;
  readonly plan: FaultPlan;
  readonly device: string;
  askId: string | undefined;
  result: AskResult | undefined;
  tookMs: number | undefined;
  endedAtMs: number | undefined;
  recovered: boolean;
  wasOffered: boolean;
}

export class Conversation {
  /** One life after the other. */
  readonly #processes: Running[] = [];
  readonly #options: ConversationOptions;
  readonly #requests: readonly Request[];
  readonly #devices: ReadonlyMap<string, SimulatedDevice>;
  readonly #rooms: FaultyRooms;
  readonly #notifier: FaultyNotifier;
  readonly #kill: KillPlan | undefined;
  readonly #storeFault: StoreFault | undefined;
  readonly #stopAfterMs: number | undefined;

  constructor(options: ConversationOptions) {
    const { random, asks, clock, profile } = options;
    this.#options = options;
    this.#requests = Array.from({ length: asks }, (_, number) => ({
      action: `act-${number}`,
      plan: drawFaultPlan(random),
      device: random.pick(DEVICES),
      askId: undefined,
      result: undefined,
      tookMs: undefined,
      endedAtMs: undefined,
      recovered: false,
      wasOffered: false,
    }));
    const draw = <Fault>(share: number, fault: () => Fault): Fault | undefined =>
      random.chance(share) ? fault() : undefined;
    const atCommit = (): number => random.between(1, asks * 8);
    this.#kill = draw(0.2, () => ({ atCommit: atCommit(), when: random.pick(["before", "after"] as const) }));
    this.#storeFault = draw(0.15, () => ({ atCommit: atCommit(), storedAnyway: random.chance(0.5) }));
    this.#stopAfterMs = draw(0.08, () => random.between(0, 60_000));

    const planOf = (askId: string): FaultPlan => this.#planOf(askId);
    this.#rooms = new FaultyRooms({
      clock,
      planOf,
      surviveTheMesh: profile?.keepsReply ?? random.chance(0.5),
      profile,
    });
    const roomOf = (ring: Ring): FaultyRoom | undefined => this.#rooms.of(ring.ask);
    this.#devices = new Map(DEVICES.map((id) => [id, new SimulatedDevice({ clock, planOf, roomOf })]));
    const deliver = (ring: Ring): void => this.#devices.get(ring.device)?.ring(ring);
    this.#notifier = new FaultyNotifier({ clock, planOf, deliver });
  }

  /** Troubles of the conversation itself, for counting. */
  get faults(): readonly string[] {
    return [
      ...(this.#kill ? [`mesh: killed ${this.#kill.when} a commit`] : []),
      ...(this.#storeFault ? [`store: fails, ${this.#storeFault.storedAnyway ? "stored anyway" : "not stored"}`] : []),
      ...(this.#stopAfterMs === undefined ? [] : ["mesh: stopped"]),
    ];
  }

  /** Whether a store is read or written: time must not go on before that is done. */
  get isBusy(): boolean {
    return this.#processes.some(({ guard }) => guard.underWay > 0);
  }

  /** What living processes still hold: nothing, once everything is over. */
  get left(): { readonly timers: number; readonly asks: number } {
    const living = this.#processes.filter(({ guard }) => !guard.isDead);
    return {
      timers: living.reduce((sum, { guard }) => sum + guard.timers, 0),
      asks: living.reduce((sum, { process }) => sum + process.openAsks(), 0),
    };
  }

  /** From the first request to the last outcome, through the death of a process if one is planned. */
  async run(): Promise<void> {
    const { id, backend, clock, random } = this.#options;
    const at = clock.nowMs();
    const session = { id, meshName: MESH.name, entryPoint: "chat", createdAt: at, lastActiveAt: at, context: {} };
    const run = { id: runOf(id), sessionId: id, agent: AGENT.name, status: "running" as const, input: "" };
    await backend.commit([
      { kind: "session.create", session },
      { kind: "run.create", run: { ...run, createdAt: at, deadlineAt: at + RUN_MS, version: 1 } },
    ]);
    const killed = Promise.withResolvers<void>();
    const first = this.#start(this.#kill, this.#storeFault, killed.resolve);
    await Promise.race([this.#askAll(first), killed.promise]);
    if (!first.guard.isDead) return;
    await this.#noteWhatWasOffered();
    this.#rooms.meshDied(this.#requests.flatMap(({ askId }) => askId ?? []));
    await sleep(clock, random.between(0, 30_000));
    await this.#recoverAll(this.#start(undefined, undefined, () => {}));
  }

  /** To be asked once everything is over. */
  async asks(): Promise<readonly SimulatedAsk[]> {
    const { id, backend } = this.#options;
    const events = await backend.events(id, { types: ["ask.settled"] });
    return Promise.all(
      this.#requests.map(async ({ device, action: _action, ...request }) => {
        const askId = request.askId ?? "";
        const ledger = this.#devices.get(device)?.ledger;
        return {
          ...request,
          processDied: this.#processes.some(({ guard }) => guard.isDead),
          isStored: (await backend.call(askId)) !== undefined,
          settledEvents: events.flatMap(({ type, payload }) =>
            type === "ask.settled" && payload.ask_id === askId ? [payload.result] : [],
          ),
          deeds: ledger?.deeds(askId) ?? { starts: 0, effects: 0, ignored: 0 },
          deviceAnswer: ledger?.entry(askId)?.reply?.outcome,
          room: this.#rooms.of(askId)?.record,
        };
      }),
    );
  }

  #start(kill: KillPlan | undefined, storeFault: StoreFault | undefined, onKilled: () => void): Running {
    const { id, backend, clock, random, startProcess } = this.#options;
    const guard = new MeshProcess({ backend: this.#watched(backend), clock, kill, storeFault, onKilled });
    const generation = this.#processes.length;
    let ids = 0;
    const process = startProcess({
      backend: guard.backend,
      devices: {
        list: async () => DEVICES.map((device) => ({ id: device, pushToken: new Secret(`token-${device}`) })),
      },
      notifier: guard.guardNotifier(this.#notifier),
      rooms: guard.guardRooms(this.#rooms),
      signer: UNSIGNED,
      clock: guard.clock,
      logger: silentLogger,
      newId: (prefix) => `${prefix}_${id}_${generation}_${ids++}`,
      random: () => random.next(),
    });
    this.#processes.push({ guard, process });
    return { guard, process };
  }

  async #askAll({ process }: Running): Promise<void> {
    const { clock, random } = this.#options;
    if (this.#stopAfterMs !== undefined) {
      const graceMs = random.between(0, 10_000);
      clock.schedule(this.#stopAfterMs, () => void process.stop({ graceMs }));
    }
    const tool = await this.#toolOf(process);
    const starts = this.#requests.map(() => random.between(0, 8_000));
    await Promise.all(
      this.#requests.map(async (request, index) => {
        await sleep(clock, starts[index] ?? 0);
        await this.#ask(request, tool, process);
      }),
    );
  }

  async #ask(request: Request, tool: Tool, process: AskProcess): Promise<void> {
    const { clock } = this.#options;
    const { interference } = request.plan;
    const run = new AbortController();
    const startedAtMs = clock.monotonicMs();
    if (interference) {
      clock.schedule(interference.afterMs, () => {
        if (interference.type !== "cancel_ask") run.abort({ interruption: INTERRUPTIONS[interference.type] });
        else if (request.askId !== undefined) void process.cancel(request.askId);
      });
    }
    const runMs = interference?.type === "run_ends" ? interference.afterMs : RUN_MS;
    const result = await tool.execute({
      invocation: this.#invocation(request),
      signal: run.signal,
      deadlineAtMs: clock.nowMs() + runMs,
    });
    request.result = readResult(result.content);
    request.endedAtMs = clock.monotonicMs();
    request.tookMs = request.endedAtMs - startedAtMs;
  }

  async #recoverAll({ process }: Running): Promise<void> {
    const { backend, clock } = this.#options;
    const tool = await this.#toolOf(process);
    const { signal } = new AbortController();
    await Promise.all(
      this.#requests.map(async (request) => {
        if (request.result || request.askId === undefined) return;
        const call = await backend.call(request.askId);
        if (!call || !tool.recover) return;
        const scope = { invocation: this.#invocation(request), signal, deadlineAtMs: clock.nowMs() + RUN_MS };
        request.recovered = true;
        request.result = readResult((await tool.recover(call, scope)).content);
      }),
    );
  }

  async #toolOf({ provider }: AskProcess): Promise<Tool> {
    const { id } = this.#options;
    const [tool] = await provider.toolsFor(AGENT, { sessionId: id, runId: runOf(id), mesh: MESH });
    if (!tool) throw new Error("an agent with a device block got no tool");
    return tool;
  }

  #invocation({ action, device }: Request): ToolInvocation {
    const { id } = this.#options;
    const position = Number(action.split("-")[1]);
    const asked = { device, action, inputs: { level: position } };
    const call = { turn: 1, position, providerCallId: `call_${position}`, arguments: asked };
    return { sessionId: id, runId: runOf(id), agent: AGENT.name, ...call };
  }

  async #noteWhatWasOffered(): Promise<void> {
    for (const request of this.#requests) {
      const call = request.askId === undefined ? undefined : await this.#options.backend.call(request.askId);
      request.wasOffered = call?.state === "offered" || call?.state === "claimed";
    }
  }

  /** Learns which stored call belongs to which request. */
  #watched(backend: Backend): Backend {
    return {
      ...backend,
      queue: backend.queue,
      commit: (writes) => {
        for (const write of writes) {
          if (write.kind !== "call.create") continue;
          const request = this.#requests.find(({ action }) => action === write.call.arguments.action);
          if (request) request.askId = write.call.id;
        }
        return backend.commit(writes);
      },
    };
  }

  #planOf(askId: string): FaultPlan {
    const request = this.#requests.find((candidate) => candidate.askId === askId);
    if (!request) throw new Error(`nobody asked for ${askId}`);
    return request.plan;
  }
}

interface Running {
  readonly guard: MeshProcess;
  readonly process: AskProcess;
}

const INTERRUPTIONS = { cancel_run: "cancelled", run_ends: "timed_out" } as const;

/** Rings are not checked here; their signatures have tests of their own. */
const UNSIGNED: RingSigner = {
  key: { kid: "none", kty: "OKP", crv: "Ed25519", x: "" },
  sign: async (ring) => ({ ...ring, kid: "none", sig: "" }),
};

const AGENT: Agent = {
  name: "phone_helper",
  type: "llm",
  endpoint: "openai",
  model: "none",
  prompt: "",
  toolChoice: "auto",
  maxToolCallsPerMessage: 100,
  toolCallTimeoutMs: 1_000,
  allowParallelToolCalls: true,
  historyLimit: 10,
  device: { connection: "phones", approval: "ask", joinTimeoutMs: 60_000, replyTimeoutMs: 60_000 },
};

const MESH: Mesh = {
  name: "simulated",
  version: "1",
  logLevel: "info",
  folder: "/",
  digest: "",
  models: new Map(),
  connections: new Map(),
  agents: new Map([[AGENT.name, AGENT]]),
  entryPoints: [{ name: "chat", target: AGENT.name }],
  limits: {
    runTimeoutMs: RUN_MS,
    maxOpenAsksPerSession: 32,
    maxAsksPerRun: 100,
    maxSessionsPerKey: 100,
    maxStreams: 10,
    maxConcurrentRuns: 10,
    maxQueuedRunsPerSession: 10,
    toolResultMaxChars: 30_000,
  },
  server: { host: "127.0.0.1", port: 0, apiKeys: [], corsOrigins: [] },
  storage: { url: ":memory:", kind: "sqlite", durable: false, sessionTtlMs: 604_800_000 },
};

function runOf(sessionId: string): string {
  return `run-${sessionId}`;
}

/** What the agent reads, without the note that frames a device's data. */
function readResult(content: string): AskResult {
  const { note: _note, ...result } = JSON.parse(content);
  return askResultSchema.parse(result);
}
