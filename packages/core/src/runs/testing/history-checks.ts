import type { ChatMessage } from "../../models/contract.ts";
import type { MessageRecord } from "../../storage/contract.ts";

/** What a provider would refuse, and what the engine promises beyond that. Throws with the place. */
export function checkRequest(messages: readonly ChatMessage[]): void {
  const fail = (index: number, why: string): never => {
    throw new Error(`message ${index}: ${why}\n${JSON.stringify(messages, undefined, 1)}`);
  };
  if (messages[0]?.role !== "system") fail(0, "is not the system prompt");
  if (messages[1]?.role !== "user") fail(1, "is not the user's");
  let open: string[] = [];
  for (const [index, message] of messages.entries()) {
    if (message.role === "tool") {
      if (open.shift() !== message.toolCallId) fail(index, "is not the next result");
      continue;
    }
    if (open.length > 0) fail(index, `comes before the results of ${open.join()}`);
    if (message.role === "system" && index > 0) fail(index, "is a second system message");
    if (message.role === "assistant") {
      open = message.toolCalls?.map(({ id }) => id) ?? [];
      if (new Set(open).size < open.length || open.includes("")) fail(index, "has calls that cannot be told apart");
      if (!message.content && open.length === 0) fail(index, "says nothing");
    }
  }
  if (open.length > 0) fail(messages.length, `lacks the results of ${open.join()}`);
  if (messages.at(-1)?.role === "assistant") fail(messages.length - 1, "leaves nothing to answer");
}

/** The stored history of a session whose runs have all ended. */
export function checkHistory(records: readonly MessageRecord[]): void {
  const fail = (index: number, why: string): never => {
    throw new Error(`entry ${index}: ${why}\n${JSON.stringify(records, undefined, 1)}`);
  };
  const seenRuns = new Set<string>();
  let open: string[] = [];
  let before: MessageRecord | undefined;
  for (const [index, record] of records.entries()) {
    const { message, runId, turn } = record;
    if (record.position !== index + 1) fail(index, "is not at its position");
    if (runId !== before?.runId) {
      if (open.length > 0) fail(index, "comes from another run before all results are in");
      if (seenRuns.has(runId)) fail(index, "comes from a run that was over");
      if (message.role !== "user" || turn !== 0) fail(index, "is not the message that a run begins with");
      seenRuns.add(runId);
    } else if (message.role === "user") fail(index, "is a second message of the user in one run");
    if (message.role === "tool") {
      if (open.shift() !== message.toolCallId) fail(index, "is not the next result");
      if (turn !== before?.turn) fail(index, "is of another turn than its call");
    } else if (message.role === "assistant") {
      if (open.length > 0) fail(index, "comes before all results are in");
      if (turn !== (before?.turn ?? 0) + 1) fail(index, "is not of the next turn");
      open = message.toolCalls?.map(({ id }) => id) ?? [];
    }
    before = record;
  }
  if (open.length > 0) fail(records.length, `lacks the results of ${open.join()}`);
}
