/** What is to be done about each tool call of an answer. Pure, so that a restart decides the same. */
import type { SessionEventPayload } from "@leafmesh/protocol";
import type { ModelToolCall } from "../models/contract.ts";
import type { Tool } from "../tools/contract.ts";

type Json = SessionEventPayload<"tool.called">["arguments"];
type JsonObject = { readonly [key: string]: Json };

export type PlannedCall =
  | {
      readonly kind: "execute";
      readonly position: number;
      readonly call: ModelToolCall;
      readonly tool: Tool;
      readonly arguments: JsonObject;
    }
  /** The model is told `error` instead. */
  | {
      readonly kind: "refuse";
      readonly position: number;
      readonly call: ModelToolCall;
      readonly error: string;
      /** `undefined`: they are not a JSON object. */
      readonly arguments?: JsonObject | undefined;
    };

/** Arguments nested deeper than this are refused: nothing real needs them, and serialising them can fail. */
const MAX_DEPTH = 64;
const MAX_SHOWN_NAME = 80;

/**
 * @param before tool calls that the message had led to before these
 * @param limit the agent's `max_tool_calls_per_message`
 * @param shown names of the tools that the model was told of; all unless given
 */
export function planCalls(
  calls: readonly ModelToolCall[],
  tools: ReadonlyMap<string, Tool>,
  before: number,
  limit: number,
  shown: readonly string[] = [...tools.keys()],
): PlannedCall[] {
  return calls.map((call, position) => {
    const parsed = parseArguments(call.arguments);
    const refuse = (error: string): PlannedCall => ({
      kind: "refuse",
      position,
      call,
      error,
      arguments: parsed.ok ? parsed.value : undefined,
    });
    if (before + position >= limit) return refuse(limitReached(limit));
    const tool = tools.get(call.name);
    if (!tool) return refuse(noSuchTool(call.name, shown));
    if (!parsed.ok && parsed.isJson && tool.takesAnyArguments) {
      return { kind: "execute", position, call, tool, arguments: {} };
    }
    if (!parsed.ok) return refuse(`${parsed.error} Send one JSON object that fits the parameters of ${call.name}.`);
    return { kind: "execute", position, call, tool, arguments: parsed.value };
  });
}

type ParsedArguments =
  | { readonly ok: true; readonly value: JsonObject }
  | { readonly ok: false; readonly error: string; readonly isJson: boolean };

/** Nothing at all counts as no arguments: providers write it for tools without parameters. */
function parseArguments(text: string): ParsedArguments {
  if (text.trim() === "") return { ok: true, value: {} };
  let value: Json;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const why = error instanceof Error ? error.message : "bad text";
    return { ok: false, error: `The arguments are not JSON (${why}).`, isJson: false };
  }
  if (!isObject(value)) return { ok: false, error: "The arguments are not a JSON object.", isJson: true };
  if (isDeeperThan(value, MAX_DEPTH))
    return { ok: false, error: `The arguments nest deeper than ${MAX_DEPTH} levels.`, isJson: false };
  return { ok: true, value };
}

function isObject(value: Json): value is { [key: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isDeeperThan(value: Json, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeperThan(inner, levels - 1));
}

function limitReached(limit: number): string {
  return `Not executed: one message may lead to ${limit} tool calls and they are used up. Answer with what you have.`;
}

function noSuchTool(name: string, shown: readonly string[]): string {
  const known = shown.length === 0 ? "You have no tools." : `Your tools: ${shown.join(", ")}.`;
  return `There is no tool named ${JSON.stringify(name.slice(0, MAX_SHOWN_NAME))}. ${known}`;
}
