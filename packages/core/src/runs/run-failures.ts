/** How a run that did not succeed is explained to whoever sent the message. Pure. */
import type { RunError } from "@leafmesh/protocol";
import type { ModelAnswer, ModelError } from "../models/contract.ts";
import type { RunFailure } from "../storage/contract.ts";
import type { RunEnd } from "./run-writes.ts";

/** `error.message` names the endpoint and the cure; it never holds a key. */
export function modelFailure(error: ModelError): RunError {
  switch (error.kind) {
    case "transient":
    case "aborted":
      return { code: "model_unavailable", message: `The model did not answer. ${error.message}` };
    case "bad_credential":
      return { code: "model_refused_key", message: `The model's service refused the key. ${error.message}` };
    case "bad_request":
      return { code: "model_bad_request", message: `The model's service refused the request. ${error.message}` };
    case "bad_answer":
      return { code: "model_bad_answer", message: `The model's answer cannot be read. ${error.message}` };
    case "unscripted":
      return { code: "model_unscripted", message: `The script has no answer for this. ${error.message}` };
    default:
      return error.kind satisfies never;
  }
}

/** An answer without text and without a tool call, after it was asked for once more. */
export function emptyAnswer(answer: ModelAnswer): RunError {
  return { code: "model_bad_answer", message: EMPTY[answer.finishReason] };
}

const NOTHING = "The model answered with nothing, twice. Send the message again or put it differently.";
const EMPTY: Record<ModelAnswer["finishReason"], string> = {
  stop: NOTHING,
  other: NOTHING,
  tool_calls: "The model asked only for tools although its tool calls were used up. Raise max_tool_calls_per_message.",
  length: "The model used up max_tokens before it said anything. Raise max_tokens of the agent.",
  content_filter: "The model's service withheld the answer (content filter).",
};

/** Whether asking again may bring an answer. */
export function mayAskAgain(answer: ModelAnswer): boolean {
  return answer.finishReason === "stop" || answer.finishReason === "other";
}

export function agentIsGone(agent: string): RunError {
  return {
    code: "no_such_agent",
    message: `The agent ${agent} is not in the mesh any more. Start a new conversation or put the agent back.`,
  };
}

/** The class and detail of `POST /runs`. */
export function failureOf({ status, error }: Exclude<RunEnd, { status: "succeeded" }>): RunFailure {
  switch (status) {
    case "timed_out":
      return { class: "timeout", detail: "run_deadline" };
    case "cancelled":
      return { class: "cancelled", detail: "cancelled" };
    case "failed":
      return { class: error.code.startsWith("model_") ? "model" : "internal", detail: error.code };
    default:
      return status satisfies never;
  }
}

export const INTERNAL_ERROR: RunError = {
  code: "internal_error",
  message: "The mesh failed while it worked on this message. The log says why.",
};

/** What a person should know about an answer that was used although it is not whole. */
export function answerWarning(answer: ModelAnswer): { readonly code: string; readonly message: string } | undefined {
  if (answer.finishReason === "length") {
    return { code: "answer_cut", message: "The model's answer was cut at max_tokens." };
  }
  if (answer.finishReason === "content_filter") {
    return { code: "answer_filtered", message: "The model's service cut the answer (content filter)." };
  }
  return undefined;
}
