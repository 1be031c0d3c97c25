/** What each step of a run stores. Pure: one list of writes is one commit. */
import type { RunError, RunOutput, SessionEvent } from "@leafmesh/protocol";
import type { ModelAnswer } from "../models/contract.ts";
import type { RunFailure, RunPatch, RunRecord, StoredMessage, Write } from "../storage/contract.ts";
import type { ToolResult } from "../tools/contract.ts";
import { answerWarning, failureOf } from "./run-failures.ts";
import { frameWrites } from "./run-frames.ts";
import type { PlannedCall } from "./tool-plan.ts";

/** How a run ends. */
export type RunEnd =
  | {
      readonly status: "succeeded";
      readonly reply: string;
      /** What the run hands back beside the reply; the reply alone unless given. */
      readonly output?: RunOutput | undefined;
    }
  | {
      readonly status: "failed" | "cancelled" | "timed_out";
      readonly error: RunError;
      /** In the words of `POST /runs`, where these are not the error's. */
      readonly failure?: RunFailure | undefined;
    };

/** A call with its result, ready for the history. */
export interface SettledCall {
  readonly planned: PlannedCall;
  readonly result: ToolResult;
  readonly durationMs: number;
}

export function eventWrite(run: RunRecord, at: number, event: SessionEvent): Write {
  return { kind: "event.append", sessionId: run.sessionId, at, event };
}

function messageWrite(run: RunRecord, at: number, turn: number, message: StoredMessage): Write {
  const agent = message.role === "user" ? {} : { agent: run.agent };
  return {
    kind: "message.append",
    message: { sessionId: run.sessionId, runId: run.id, turn, ...agent, message, createdAt: at },
  };
}

/** The run begins: its message enters the history. `patch` is for its record. */
export function startWrites(run: RunRecord, at: number): { readonly patch: RunPatch; readonly told: Write[] } {
  return {
    patch: { status: "running", startedAt: at },
    told: [
      messageWrite(run, at, 0, { role: "user", content: run.input }),
      eventWrite(run, at, { type: "run.started", payload: { run_id: run.id, agent: run.agent } }),
      ...frameWrites(run, at, "run.start", { agent_slug: run.agent, session_id: run.sessionId }),
    ],
  };
}

export function resumeWrites(run: RunRecord, at: number): Write[] {
  return [eventWrite(run, at, { type: "run.started", payload: { run_id: run.id, agent: run.agent, resumed: true } })];
}

/** An answer and the calls it asks for, stored before any of them is executed. */
export function answerWrites(
  run: RunRecord,
  at: number,
  turn: number,
  answer: ModelAnswer,
  message: StoredMessage,
  plan: readonly PlannedCall[],
): Write[] {
  const writes = [
    messageWrite(run, at, turn, message),
    ...(message.content ? frameWrites(run, at, "message", { role: "assistant", content: message.content }) : []),
    eventWrite(run, at, {
      type: "model.answered",
      payload: {
        run_id: run.id,
        agent: run.agent,
        turn,
        ...(message.content ? { content: message.content } : {}),
        tool_calls: plan.length,
        ...(answer.usage
          ? { usage: { input_tokens: answer.usage.inputTokens, output_tokens: answer.usage.outputTokens } }
          : {}),
      },
    }),
  ];
  const warning = answerWarning(answer);
  if (warning) writes.push(eventWrite(run, at, { type: "warning", payload: warning }));
  for (const { call, arguments: given } of plan) {
    writes.push(
      eventWrite(run, at, {
        type: "tool.called",
        payload: {
          run_id: run.id,
          agent: run.agent,
          tool_call_id: call.id,
          tool: call.name,
          arguments: given ?? call.arguments,
        },
      }),
      ...frameWrites(run, at, "tool.call", { id: call.id, name: call.name, arguments: given ?? call.arguments }),
    );
  }
  return writes;
}

export function resultMessage({ planned, result }: SettledCall, maxCharacters: number): StoredMessage {
  return {
    role: "tool",
    toolCallId: planned.call.id,
    content: result.isCapped ? result.content : cutText(result.content, maxCharacters),
    ...(result.uploads?.length ? { uploads: result.uploads } : {}),
  };
}

/** Results of one answer's calls, in asked order. */
export function resultWrites(
  run: RunRecord,
  at: number,
  turn: number,
  settled: readonly SettledCall[],
  messages: readonly StoredMessage[],
): Write[] {
  return [
    ...messages.map((message) => messageWrite(run, at, turn, message)),
    ...settled.flatMap(({ planned: { call }, result, durationMs }) => [
      ...frameWrites(run, at, "tool.result", { tool_call_id: call.id, name: call.name, success: result.success }),
      eventWrite(run, at, {
        type: "tool.finished",
        payload: {
          run_id: run.id,
          tool_call_id: call.id,
          tool: call.name,
          success: result.success,
          duration_ms: durationMs,
        },
      }),
    ]),
  ];
}

export function endWrites(
  run: RunRecord,
  at: number,
  end: RunEnd,
): { readonly writes: Write[]; readonly patch: RunPatch } {
  const said = end.status === "succeeded" ? { reply: end.reply } : { error: end.error };
  const output = end.status === "succeeded" ? (end.output ?? { result: { message: end.reply } }) : undefined;
  const failure = end.status === "succeeded" ? undefined : (end.failure ?? failureOf(end));
  const { status } = end;
  const kept = run.options ? { output, failure } : end.status === "succeeded" && end.output ? { output } : {};
  const patch: RunPatch = { status, ...said, ...kept, finishedAt: at };
  const told = {
    output: output ?? null,
    failure_class: failure?.class ?? null,
    failure_detail: failure?.detail ?? null,
  };
  return {
    patch,
    writes: [
      { kind: "run.update", runId: run.id, version: run.version, patch },
      eventWrite(run, at, { type: "run.finished", payload: { run_id: run.id, status, ...said } }),
      ...frameWrites(run, at, "run.end", { status, ...told, ...("error" in said ? said : {}) }),
      { kind: "session.touch", sessionId: run.sessionId, at },
    ],
  };
}

/** Cut to `max` characters, saying so, and never inside a surrogate pair. */
export function cutText(text: string, max: number): string {
  if (text.length <= max) return text;
  const note = `\n[Cut: the result has ${text.length} characters.]`;
  const kept = text.slice(0, Math.max(0, max - note.length));
  return `${kept.isWellFormed() ? kept : kept.slice(0, -1)}${note}`.slice(0, max);
}
