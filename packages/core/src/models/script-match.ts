/** Which entry of a script answers a request. Pure: everything is read from the messages. */
import type { ChatMessage, ModelRequest } from "./contract.ts";
import { isRecord, parseJson } from "./json.ts";
import type { ScriptCondition } from "./script-schema.ts";

export interface ToolResultFacts {
  /** `undefined` when no call of the conversation has the result's id. */
  readonly tool: string | undefined;
  readonly text: string;
  /** The text as JSON; `undefined` when it is none. */
  readonly value: unknown;
}

/** What a conversation has come to. */
export interface RequestFacts {
  readonly model: string;
  /** Which model call of the conversation this is, from 1. */
  readonly call: number;
  /** Which model call since the user's newest message, from 1. */
  readonly turn: number;
  readonly lastUser: string;
  /** The results that the model is to answer, in asked order; empty when it is to answer the user. */
  readonly toolResults: readonly ToolResultFacts[];
}

export function readFacts(request: ModelRequest): RequestFacts {
  const messages = request.messages.filter((message, index) => !isImageCarrier(message, request.messages[index - 1]));
  const lastUserAt = messages.findLastIndex((message) => message.role === "user");
  const lastOtherAt = messages.findLastIndex((message) => message.role !== "tool");
  const lastUser = messages[lastUserAt];
  return {
    model: request.model,
    call: countAnswers(messages) + 1,
    turn: countAnswers(messages.slice(lastUserAt + 1)) + 1,
    lastUser: lastUser?.role === "user" ? textOf(lastUser.content) : "",
    toolResults: messages.slice(lastOtherAt + 1).flatMap((message) => toolResultOf(message, messages[lastOtherAt])),
  };
}

/** The tool result that makes the condition true, `true` when it needs none, `false` when it does not hold. */
export function matches(condition: ScriptCondition, facts: RequestFacts): ToolResultFacts | boolean {
  const { last_user, tool_result, turn, model } = condition;
  if (model !== undefined && model !== facts.model) return false;
  if (turn !== undefined && turn !== facts.turn) return false;
  if (last_user !== undefined && !holds(facts.lastUser, last_user)) return false;
  if (tool_result) return facts.toolResults.find((result) => matchesResult(tool_result, result)) ?? false;
  // What the user said is answered once: after that the model has results to answer.
  return turn !== undefined || facts.toolResults.length === 0;
}

function matchesResult(condition: NonNullable<ScriptCondition["tool_result"]>, result: ToolResultFacts): boolean {
  const { tool, outcome, reason, success, contains } = condition;
  const value = isRecord(result.value) ? result.value : {};
  return (
    (tool === undefined || tool === result.tool) &&
    (outcome === undefined || outcome === value.outcome) &&
    (reason === undefined || reason === value.reason) &&
    (success === undefined || success === value.success) &&
    (contains === undefined || holds(result.text, contains))
  );
}

/** In words, for errors. */
export function describeCondition({ last_user, tool_result, turn, model }: ScriptCondition): string {
  const parts = [
    last_user === undefined
      ? undefined
      : last_user === ""
        ? "the user says anything"
        : `the user says ${show(last_user)}`,
    tool_result && describeResultCondition(tool_result),
    turn === undefined ? undefined : `it is call ${turn} since the user spoke`,
    model === undefined ? undefined : `the model is ${show(model)}`,
  ].filter((part) => part !== undefined);
  return parts.length === 0 ? "the user says anything" : parts.join(" and ");
}

function describeResultCondition(condition: NonNullable<ScriptCondition["tool_result"]>): string {
  const { tool = "a tool", ...fields } = condition;
  const wanted = Object.entries(fields).map(([name, value]) => `${name} ${JSON.stringify(value)}`);
  return `${tool} returned ${wanted.length === 0 ? "anything" : wanted.join(", ")}`;
}

/** In words, for errors. */
export function describeFacts({ model, call, turn, lastUser, toolResults }: RequestFacts): string {
  const came = [
    `call ${call} of the conversation, call ${turn} since the user spoke, to the model ${show(model)}`,
    `the user said ${show(lastUser)}`,
    ...toolResults.map(({ tool = "an unknown tool", text }) => `${tool} returned ${show(text)}`),
  ];
  return came.join("; ");
}

const LONGEST_SHOWN = 200;

function show(text: string): string {
  return JSON.stringify(text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}…` : text);
}

/** Images of tool results travel in a user message of their own, because a tool message is text alone. */
function isImageCarrier(message: ChatMessage, before: ChatMessage | undefined): boolean {
  if (message.role !== "user" || before?.role !== "tool" || typeof message.content === "string") return false;
  return message.content.some((part) => part.type === "image");
}

function countAnswers(messages: readonly ChatMessage[]): number {
  return messages.filter((message) => message.role === "assistant").length;
}

function textOf(content: Extract<ChatMessage, { role: "user" }>["content"]): string {
  if (typeof content === "string") return content;
  return content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");
}

function toolResultOf(message: ChatMessage, asked: ChatMessage | undefined): readonly ToolResultFacts[] {
  if (message.role !== "tool") return [];
  const calls = asked?.role === "assistant" ? (asked.toolCalls ?? []) : [];
  const tool = calls.find((call) => call.id === message.toolCallId)?.name;
  return [{ tool, text: message.content, value: parseJson(message.content) }];
}

function holds(text: string, part: string): boolean {
  return text.toLowerCase().includes(part.toLowerCase());
}
