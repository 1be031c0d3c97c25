/** The `device_action` tool: what the run engine is given, and the control of its open asks. */
import type {
  Agent,
  Backend,
  CallRecord,
  ConversationDevice,
  DeviceDirectory,
  EventNotices,
  Mesh,
  Tool,
  ToolDefinition,
  ToolProvider,
  ToolResult,
  ToolScope,
} from "@leafmesh/core";
import { createPendingCalls, isOpenCall } from "@leafmesh/core/calls";
import type { Clock, Logger, NewId, RingSigner } from "@leafmesh/protocol";
import { stepAsk } from "./ask-machine.ts";
import type { AskPlan } from "./ask-plan.ts";
import { type AskEnd, AskRun } from "./ask-run.ts";
import type { AskServices } from "./ask-services.ts";
import { type Ending, INITIAL_STATE } from "./ask-state.ts";
import { refusedStory } from "./ask-story.ts";
import { bounded, GivenUp } from "./bounded.ts";
import { callStateOf } from "./call-states.ts";
import type { ConnectionPool } from "./connections.ts";
import { DeviceQueue } from "./device-queue.ts";
import { nothingHappened, refused } from "./endings.ts";
import { HeldAsk } from "./held-ask.ts";
import { OpenAsks } from "./open-asks.ts";
import { resultOf } from "./outcomes.ts";
import { shorten } from "./outside-data.ts";
import { recoverAsk } from "./recover-ask.ts";
import { type AskRequest, type DeviceAgent, type RefusedRequest, readRequest } from "./request.ts";
import { DEVICE_ACTION, toolDefinition } from "./tool-definition.ts";
import { type ResultFacts, toolResultOf } from "./tool-result.ts";
import type { AskUploads } from "./uploads.ts";

export interface DeviceActionDependencies {
  readonly backend: Backend;
  readonly devices: DeviceDirectory;
  /** The connections of a mesh. Asked for each ask, with the mesh that its run started with. */
  connectionsOf(mesh: Mesh): ConnectionPool;
  readonly signer: RingSigner;
  /** Tells the app of dead push tokens; left out: they are events of their session alone. */
  readonly notices?: EventNotices | undefined;
  /** Left out: tasks offer no upload address. */
  readonly uploads?: AskUploads | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly newId: NewId;
  /** A number from 0 to 1, for pauses between tries. */
  readonly random: () => number;
}

export interface DeviceAction {
  readonly provider: ToolProvider;
  /**
   * Ends an open ask of this process: `not_joined` before its task may have left, `failed` afterwards. `unknown`: there
   * is no such ask, or another process drives it. Resolves when the outcome is stored.
   */
  cancel(askId: string): Promise<"cancelled" | "already_settled" | "unknown">;
  /**
   * Takes no new asks, gives the open ones `graceMs` to end by themselves, ends the rest as `mesh_restarted`, and
   * resolves when all outcomes are stored and all rooms closed.
   */
  stop(options: { graceMs: number }): Promise<void>;
  /** Asks without an outcome in this process. */
  openAsks(): number;
}

export function createDeviceAction(dependencies: DeviceActionDependencies): DeviceAction {
  return assembleDeviceAction(dependencies, stepAsk);
}

/** Stored with the outcome before the run's own deadline ends the run. */
const RESERVE_MS = 1_000;

/** @param step the machine that decides; another one only in tests that must see it fail */
export function assembleDeviceAction(dependencies: DeviceActionDependencies, step: AskServices["step"]): DeviceAction {
  const { backend, clock, logger, newId, signer, random, uploads } = dependencies;
  const services: AskServices = {
    calls: createPendingCalls({ backend, clock, newId }),
    notices: dependencies.notices ?? { writesFor: () => [] },
    queue: new DeviceQueue(),
    clock,
    logger,
    signer,
    uploads,
    random,
    step,
  };
  const asks = new OpenAsks();
  const context: ToolContext = { ...dependencies, services, asks, isStopping: false };

  return {
    provider: {
      async toolsFor(agent, { mesh, sessionId, runId }) {
        if (!isDeviceAgent(agent)) return [];
        const devices = await dependencies.devices.list(sessionId);
        return [new DeviceActionTool(context, { agent, mesh, runId, devices })];
      },
    },

    async cancel(askId) {
      const run = asks.get(askId);
      if (!run) {
        const call = await backend.call(askId);
        return call && !isOpenCall(call) ? "already_settled" : "unknown";
      }
      run.cancelOnRequest();
      const { result } = await run.ended;
      return result.reason === "cancelled" ? "cancelled" : "already_settled";
    },

    async stop({ graceMs }) {
      context.isStopping = true;
      if (asks.size > 0) await endOrTimeout(asks.all(), graceMs, clock);
      const rest = asks.all();
      for (const run of rest) run.stop();
      await Promise.all(rest.map((run) => run.ended));
      await asks.closed();
    },

    openAsks: () => asks.size,
  };
}

interface ToolContext extends DeviceActionDependencies {
  readonly services: AskServices;
  readonly asks: OpenAsks;
  isStopping: boolean;
}

interface RunFacts {
  readonly agent: DeviceAgent;
  readonly mesh: Mesh;
  readonly runId: string;
  /** As they were when the run started. */
  readonly devices: readonly ConversationDevice[];
}

/** The tool of one run. */
class DeviceActionTool implements Tool {
  readonly definition: ToolDefinition;
  readonly ownDeadline = true;
  readonly #context: ToolContext;
  readonly #run: RunFacts;
  /** Asks of this run, those before a restart included; `undefined` until they are counted. */
  #asked: number | undefined;
  /** Resolves when the call that came last has begun or was refused. */
  #begun: Promise<void> = Promise.resolve();

  constructor(context: ToolContext, run: RunFacts) {
    this.#context = context;
    this.#run = run;
    this.definition = toolDefinition(run.devices);
  }

  async execute(scope: ToolScope): Promise<ToolResult> {
    const begun = await this.begin(scope);
    if (!(begun instanceof HeldAsk)) return begun;
    const { signal } = scope;
    const onAbort = (): void => begun.interrupt(signal.reason);
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort);
    const result = await begun.result();
    signal.removeEventListener("abort", onAbort);
    return result;
  }

  /** Calls of one turn begin in the order in which they are asked for, however long the store takes over each. */
  async begin(scope: ToolScope): Promise<ToolResult | HeldAsk> {
    const earlier = this.#begun;
    const own = Promise.withResolvers<void>();
    this.#begun = own.promise;
    try {
      return await this.#begin(scope, earlier);
    } finally {
      own.resolve();
    }
  }

  async #begin(scope: ToolScope, earlier: Promise<void>): Promise<ToolResult | HeldAsk> {
    const { agent, mesh } = this.#run;
    const { devices, asks } = this.#context;
    const { sessionId } = scope.invocation;
    const request = await readRequest(scope.invocation.arguments, await devices.list(sessionId), agent.device);
    if ("reason" in request) return this.#refuse(request, scope);
    const before = this.#asked ?? (await this.#askedBefore());
    await earlier;
    // From here to the start of the ask nothing waits, so that calls of one turn cannot pass the limits together.
    this.#asked ??= before;
    const device = request.device.id;
    if (this.#context.isStopping) return this.#toResult({ result: resultOf(MESH_STOPS, device), callId: undefined });
    if (asks.inSession(sessionId) >= mesh.limits.maxOpenAsksPerSession) {
      const limit = mesh.limits.maxOpenAsksPerSession;
      const detail = `This conversation has ${limit} requests to devices open already: wait for one of them.`;
      return this.#refuse({ reason: "too_many_asks", detail, device }, scope);
    }
    if (this.#asked >= mesh.limits.maxAsksPerRun) {
      const detail = `This message has led to ${mesh.limits.maxAsksPerRun} requests to devices, which is the limit: answer with what you have.`;
      return this.#refuse({ reason: "too_many_asks", detail, device }, scope);
    }
    this.#asked++;
    const connections = this.#context.connectionsOf(mesh);
    const ask = new AskRun(this.#planOf(request, scope, connections), this.#context.services);
    return new HeldAsk(ask, asks, this.#facts(), scope.signal);
  }

  async recover(call: CallRecord, scope: ToolScope): Promise<ToolResult> {
    const driven = this.#context.asks.get(call.id);
    if (driven) return this.#toResult(await driven.ended);
    const connections = this.#context.connectionsOf(this.#run.mesh);
    const release = connections.hold();
    try {
      const { services } = this.#context;
      return await this.#toResult(await recoverAsk(call, { services, connections, signal: scope.signal }));
    } finally {
      release();
    }
  }

  /** Requests that are refused do not count: they ring nobody. */
  async #askedBefore(): Promise<number> {
    const calls = await this.#context.backend.calls({ runId: this.#run.runId, faces: ["device"] });
    return calls.filter(({ outcome }) => outcome !== "refused").length;
  }

  #planOf({ device, action, inputs }: AskRequest, scope: ToolScope, connections: ConnectionPool): AskPlan {
    const { clock, newId } = this.#context;
    const { connection, room, approval, joinTimeoutMs, replyTimeoutMs } = this.#run.agent.device;
    return {
      askId: newId("ask"),
      invocation: scope.invocation,
      meshName: shorten(this.#run.mesh.name, MAX_MESH_NAME_CHARACTERS),
      deviceId: device.id,
      pushToken: device.pushToken,
      action,
      inputs,
      connection,
      room,
      approval,
      joinTimeoutMs,
      replyTimeoutMs,
      endsByMs: clock.monotonicMs() + scope.deadlineAtMs - clock.nowMs() - RESERVE_MS,
      connections,
    };
  }

  /** Nobody is rung. It is stored all the same, with its result, so that an operator finds it among the asks. */
  async #refuse({ device, ...refusal }: RefusedRequest, scope: ToolScope): Promise<ToolResult> {
    const { services, newId, clock } = this.#context;
    const { agent } = this.#run;
    const { arguments: given, ...place } = scope.invocation;
    const askId = newId("ask");
    const ending = refused(INITIAL_STATE, refusal);
    const result = resultOf(ending, device);
    const action = typeof given.action === "string" ? shorten(given.action, MAX_ACTION_CHARACTERS) : undefined;
    const refusedAsk = { askId, runId: place.runId, agent: place.agent, approval: agent.device.approval, action };
    const records = services.calls.usedWrites(
      { ...place, id: askId, tool: DEVICE_ACTION, arguments: given, device, expiresAt: clock.nowMs() },
      { state: callStateOf(ending), reached: "no", result },
      refusedStory(refusedAsk, result),
    );
    return { ...(await this.#toResult({ result, callId: undefined })), records };
  }

  #toResult(end: AskEnd): Promise<ToolResult> {
    return toolResultOf(end, this.#facts());
  }

  #facts(): ResultFacts {
    const { uploads, logger } = this.#context;
    return { uploads, logger, maxCharacters: this.#run.mesh.limits.toolResultMaxChars };
  }
}

const MAX_MESH_NAME_CHARACTERS = 80;
const MAX_ACTION_CHARACTERS = 80;

const MESH_STOPS: Ending = nothingHappened(INITIAL_STATE, { outcome: "unreachable", reason: "mesh_restarted" });

function isDeviceAgent(agent: Agent): agent is DeviceAgent {
  return agent.device !== undefined;
}

async function endOrTimeout(runs: readonly AskRun[], limitMs: number, clock: Clock): Promise<void> {
  await bounded(clock, limitMs, undefined, async () => {
    await Promise.all(runs.map((run) => run.ended));
  }).catch((error: unknown) => {
    if (!(error instanceof GivenUp)) throw error;
  });
}
