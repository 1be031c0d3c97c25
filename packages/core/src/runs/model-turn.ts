/** One answer of the model: retried where that may help, streamed to whoever listens. */
import type { RunError } from "@leafmesh/protocol";
import type { Agent } from "../config/mesh.ts";
import { type ChatMessage, type ModelAnswer, ModelError, type ModelRequest } from "../models/contract.ts";
import { answerWithRetries } from "../models/retry.ts";
import type { ToolDefinition } from "../tools/contract.ts";
import type { MeshLease } from "./mesh-leases.ts";
import type { RunControl } from "./run-control.ts";
import { emptyAnswer, mayAskAgain, modelFailure } from "./run-failures.ts";
import { commit, type RunServices } from "./run-services.ts";
import { eventWrite } from "./run-writes.ts";

export interface Question {
  readonly lease: MeshLease;
  readonly agent: Agent;
  readonly messages: readonly ChatMessage[];
  readonly tools: readonly ToolDefinition[];
  /** Model call within the run, from 1. */
  readonly turn: number;
  /** The model has had its tool calls and is to answer now. */
  readonly toolsSpent: boolean;
}

export type Asked =
  /** It has text or tool calls, or both. */
  | { readonly status: "answered"; readonly answer: ModelAnswer }
  | { readonly status: "failed"; readonly error: RunError }
  | { readonly status: "interrupted" };

/** Rejects only for a bug, or when storage fails. */
export async function askModel(control: RunControl, services: RunServices, question: Question): Promise<Asked> {
  const request = toRequest(question);
  try {
    const first = await answerOnce(control, services, question, request);
    if (first === "interrupted") return { status: "interrupted" };
    if (!isEmpty(first)) return { status: "answered", answer: first };
    if (!mayAskAgain(first)) return { status: "failed", error: emptyAnswer(first) };
    noteRetry(control, services, { reason: "The answer was empty.", attempt: 1, waitMs: 0 });
    const second = await answerOnce(control, services, question, request);
    if (second === "interrupted") return { status: "interrupted" };
    return isEmpty(second) ? { status: "failed", error: emptyAnswer(second) } : { status: "answered", answer: second };
  } catch (error) {
    if (control.interruption) return { status: "interrupted" };
    if (error instanceof ModelError) return { status: "failed", error: modelFailure(error) };
    throw error;
  }
}

function toRequest({ agent, messages, tools, turn, toolsSpent }: Question): ModelRequest {
  return {
    model: agent.model,
    messages,
    tools,
    toolChoice: toolChoice(agent, tools, turn, toolsSpent),
    parallelToolCalls: agent.allowParallelToolCalls,
    temperature: agent.temperature,
    maxTokens: agent.maxTokens,
  };
}

/** `required` holds for the first answer to a message; a model that had to call a tool for ever could never reply. */
function toolChoice(
  agent: Agent,
  tools: readonly ToolDefinition[],
  turn: number,
  toolsSpent: boolean,
): ModelRequest["toolChoice"] {
  if (tools.length === 0 || toolsSpent) return "none";
  return agent.toolChoice === "required" && turn > 1 ? "auto" : agent.toolChoice;
}

async function answerOnce(
  control: RunControl,
  services: RunServices,
  { lease, agent, toolsSpent }: Question,
  request: ModelRequest,
): Promise<ModelAnswer | "interrupted"> {
  const { backend, clock, random } = services;
  const { id: run_id, sessionId } = control.run;
  const model = await lease.models.model(agent.endpoint);
  const answering = answerWithRetries(model, request, {
    signal: control.signal,
    deadlineAtMs: control.deadlineAtMs,
    clock,
    random,
    onText: (text) => backend.publishTransient(sessionId, { type: "model.delta", payload: { run_id, text } }),
    onRetry: ({ error, attempt, waitMs }) => noteRetry(control, services, { reason: error.message, attempt, waitMs }),
  });
  // A model that does not heed its signal must not hold the run up.
  const answer = await Promise.race([answering, control.interrupted]);
  if (answer === undefined) {
    answering.catch(() => {});
    return "interrupted";
  }
  return toolsSpent ? { ...answer, toolCalls: [] } : answer;
}

/** Tells listeners that the text so far is void. The run does not depend on it. */
function noteRetry(
  { run }: RunControl,
  { backend, clock, logger }: RunServices,
  { reason, attempt, waitMs }: { readonly reason: string; readonly attempt: number; readonly waitMs: number },
): void {
  const payload = { run_id: run.id, agent: run.agent, reason, attempt, wait_ms: Math.round(waitMs) };
  commit(backend, [eventWrite(run, clock.nowMs(), { type: "model.retried", payload })]).catch((error: unknown) => {
    logger.warn("a retried model call could not be noted", { runId: run.id, error });
  });
}

function isEmpty(answer: ModelAnswer): boolean {
  return answer.toolCalls.length === 0 && !answer.content?.trim();
}
