import type { HistoryEntry } from "@leafmesh/protocol";
import type { MessageRecord } from "../storage/contract.ts";

/** A stored message as the API shows it. Times are seconds since the epoch. */
export function historyEntry({ position, runId, agent, message, createdAt }: MessageRecord): HistoryEntry {
  return {
    position,
    run_id: runId,
    role: message.role,
    ...(agent === undefined ? {} : { agent }),
    content: message.content ?? "",
    ...(message.role === "assistant" && message.toolCalls
      ? { tool_calls: message.toolCalls.map(({ id, name, arguments: given }) => ({ id, name, arguments: given })) }
      : {}),
    ...(message.role === "tool" ? { tool_call_id: message.toolCallId } : {}),
    ts: createdAt / 1000,
  };
}
