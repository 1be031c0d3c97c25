/** A tool that the client declared: calling it offers the call on the session's stream and waits for the answer. */
import type { DeviceTool, SessionEventPayload } from "@leafmesh/protocol";
import { isOpenCall, type Moved, type NewCall } from "../calls/pending-calls.ts";
import { hashToken } from "../security/tokens.ts";
import { type CallRecord, OPEN_CALL_STATES, StorageError } from "../storage/contract.ts";
import type { Tool, ToolDefinition, ToolResult, ToolScope } from "../tools/contract.ts";
import { BRIDGE_ERRORS, bridgeToolResult, failedStep } from "./bridge-result.ts";
import { type BridgeServices, tokenContext } from "./bridge-services.ts";
import { CallWatch } from "./call-watch.ts";
import { digestOf } from "./digest.ts";
import { isExecutorPresent } from "./presence.ts";

/** How long the client has for an answer. */
export const ANSWER_BUDGET_MS = 30_000;
/** Calls of one session that may wait for the client at once. */
export const MAX_OPEN_CALLS = 32;

type JsonArguments = SessionEventPayload<"device_tool_call">["args"];

export function createDeviceTool(services: BridgeServices, declared: DeviceTool): Tool {
  return new ClientTool(services, declared);
}

class ClientTool implements Tool {
  readonly definition: ToolDefinition;
  readonly ownDeadline = true;
  readonly takesAnyArguments = true;
  readonly #services: BridgeServices;

  constructor(services: BridgeServices, { tool_id, description, parameters }: DeviceTool) {
    this.#services = services;
    this.definition = { name: tool_id, description, parameters };
  }

  async execute(scope: ToolScope): Promise<ToolResult> {
    const { backend, clock, newId } = this.#services;
    const { sessionId } = scope.invocation;
    if (!isExecutorPresent(await backend.presence(sessionId), clock.nowMs())) {
      return failedStep(BRIDGE_ERRORS.noExecutor);
    }
    const open = { sessionId, faces: ["bridge"], states: OPEN_CALL_STATES, limit: MAX_OPEN_CALLS } as const;
    const waiting = (await backend.calls(open)).length;
    // From here to the change of the count nothing waits.
    if (waiting + this.#opening(sessionId) >= MAX_OPEN_CALLS) return failedStep(BRIDGE_ERRORS.tooMany);

    const id = newId("call");
    const budgetMs = Math.min(ANSWER_BUDGET_MS, scope.deadlineAtMs - clock.nowMs());
    using watch = new CallWatch(this.#services, {
      id,
      sessionId,
      deadlineMs: clock.monotonicMs() + budgetMs,
      graceFrom: 0,
      signal: scope.signal,
    });
    this.#countOpening(sessionId, 1);
    const offered = await this.#offer(id, scope, clock.nowMs() + budgetMs).finally(() =>
      this.#countOpening(sessionId, -1),
    );
    if (offered?.status === "gone") return failedStep(BRIDGE_ERRORS.ended);
    return toResult(await watch.settled());
  }

  async recover(call: CallRecord, scope: ToolScope): Promise<ToolResult> {
    if (!isOpenCall(call)) return bridgeToolResult(call);
    const { clock } = this.#services;
    const now = clock.nowMs();
    using watch = new CallWatch(this.#services, {
      id: call.id,
      sessionId: call.sessionId,
      deadlineMs: clock.monotonicMs() + Math.min(call.expiresAt - now, ANSWER_BUDGET_MS),
      graceFrom: now,
      signal: scope.signal,
    });
    return toResult(await watch.settled());
  }

  #opening(sessionId: string): number {
    return this.#services.opening.get(sessionId) ?? 0;
  }

  #countOpening(sessionId: string, by: 1 | -1): void {
    const count = this.#opening(sessionId) + by;
    if (count > 0) this.#services.opening.set(sessionId, count);
    else this.#services.opening.delete(sessionId);
  }

  /**
   * One commit: record, event and offer, so that no frame is seen of a call that is not stored. `undefined`: the store
   * failed and may have stored it all the same, which the watch finds out.
   */
  async #offer(id: string, { invocation }: ToolScope, deadlineAtMs: number): Promise<Moved | undefined> {
    const { calls, sealer, newId, logger } = this.#services;
    const token = newId("dct");
    const expiresAt = Math.floor(deadlineAtMs);
    const call: NewCall = {
      ...invocation,
      id,
      face: "bridge",
      tool: this.definition.name,
      expiresAt,
      tokenHash: hashToken(token),
      sealedToken: sealer.seal(token, tokenContext({ sessionId: invocation.sessionId, id })),
      argumentsDigest: digestOf(invocation.arguments),
    };
    const payload = {
      call_id: id,
      tool_id: this.definition.name,
      args: invocation.arguments as JsonArguments,
      expires_at: expiresAt / 1000,
    };
    try {
      return await calls.open(
        call,
        {
          events: [{ type: "device_tool_call", payload }],
          offers: [{ channel: "stream", via: "session" }],
        },
        { state: "offered", reached: "maybe" },
      );
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
      logger.error("a device tool call may not have been stored", { callId: id, error });
      return undefined;
    }
  }
}

function toResult(call: CallRecord | undefined): ToolResult {
  return call ? bridgeToolResult(call) : failedStep(BRIDGE_ERRORS.internal);
}
