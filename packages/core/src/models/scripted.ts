/** A model that says what a script tells it to, and refuses a call that the script does not foresee. */
import { type Clock, type Logger, silentLogger, systemClock } from "@leafmesh/protocol";
import { type Model, type ModelAnswer, ModelError, type ModelRequest } from "./contract.ts";
import { fillPlaceholders } from "./placeholders.ts";
import { wait } from "./retry.ts";
import {
  describeCondition,
  describeFacts,
  matches,
  type RequestFacts,
  readFacts,
  type ToolResultFacts,
} from "./script-match.ts";
import { type Script, type ScriptEntry, type ScriptInput, scriptSchema } from "./script-schema.ts";

/** Answers in code. Throw a {@link ModelError} to fail. */
export type ScriptFunction = (request: ModelRequest) => ModelAnswer | Promise<ModelAnswer>;

export interface ScriptedModel extends Model {
  /** The entries that have answered no call so far, described. Always empty for a function. */
  unused(): readonly string[];
}

export interface ScriptedModelOptions {
  /** What errors call the script. */
  readonly name?: string | undefined;
  /** What errors call each entry, such as `script.yaml:12`. */
  readonly places?: readonly string[] | undefined;
  readonly clock?: Clock | undefined;
  readonly logger?: Logger | undefined;
}

/**
 * `script` is a list of steps or of rules (see `script-schema.ts`) or a function. Throws a `ZodError` for a script that
 * breaks the rules of the format. Holds no state but which entries were used, so any number of conversations may talk to
 * it at once.
 */
export function createScriptedModel(
  script: ScriptInput | ScriptFunction,
  options: ScriptedModelOptions = {},
): ScriptedModel {
  const { name = "the script", places, clock = systemClock, logger = silentLogger } = options;
  if (typeof script === "function") return createFunctionModel(script);
  const entries = scriptSchema.parse(script);
  const used = new Set<ScriptEntry>();
  const describe = (entry: ScriptEntry): string => describeEntry(entries, entry, places);
  const unused = (): readonly string[] => entries.filter((entry) => !used.has(entry)).map(describe);

  return {
    async answer(request, { signal, onText }) {
      throwIfAborted(signal);
      const facts = readFacts(request);
      const found = findEntry(entries, facts);
      if (!found) throw unscripted(name, facts, entries.map(describe));
      const { entry, result } = found;
      used.add(entry);
      const reply = entry.reply === undefined ? null : quote(entry.reply, facts, result, describe(entry));
      if (entry.delay_ms !== undefined) await wait(entry.delay_ms, clock, signal);
      if (reply !== null && onText) await tell(reply, entry.stream_words === true, onText, clock, signal);
      return toAnswer(entry, reply, facts);
    },
    unused,
    async close() {
      const left = unused();
      if (left.length > 0) logger.info("Entries of the script were never used", { script: name, entries: left });
    },
  };
}

function createFunctionModel(answer: ScriptFunction): ScriptedModel {
  return {
    async answer(request, { signal, onText }) {
      throwIfAborted(signal);
      const said = await answer(request);
      throwIfAborted(signal);
      if (said.content) onText?.(said.content);
      return said;
    },
    unused: () => [],
    async close() {},
  };
}

interface FoundEntry {
  readonly entry: ScriptEntry;
  /** The tool result that its reply may quote. */
  readonly result: ToolResultFacts | undefined;
}

function findEntry(entries: Script, facts: RequestFacts): FoundEntry | undefined {
  if (entries[0]?.when === undefined) {
    const entry = entries[facts.call - 1];
    return entry && { entry, result: facts.toolResults[0] };
  }
  for (const entry of entries) {
    const match = entry.when !== undefined && matches(entry.when, facts);
    if (match) return { entry, result: match === true ? undefined : match };
  }
  return undefined;
}

function quote(reply: string, facts: RequestFacts, result: ToolResultFacts | undefined, place: string): string {
  const filled = fillPlaceholders(reply, { user: facts.lastUser, tool: result });
  if ("text" in filled) return filled.text;
  const held = result ? `the tool returned ${JSON.stringify(result.text)}` : "there is no tool result to answer";
  throw new ModelError("unscripted", `${place} quotes ${filled.missing}, but ${held}.`);
}

async function tell(
  reply: string,
  wordByWord: boolean,
  onText: (text: string) => void,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  for (const piece of wordByWord ? (reply.match(/\s*\S+|\s+$/g) ?? []) : [reply]) {
    if (wordByWord) await wait(0, clock, signal);
    if (piece !== "") onText(piece);
  }
}

function toAnswer(entry: ScriptEntry, content: string | null, facts: RequestFacts): ModelAnswer {
  const toolCalls = (entry.call ?? []).map((call, index) => ({
    id: `call_${facts.call}_${index}`,
    name: call.tool,
    arguments: JSON.stringify(call.arguments),
  }));
  return { content, toolCalls, finishReason: toolCalls.length > 0 ? "tool_calls" : "stop" };
}

function describeEntry(entries: Script, entry: ScriptEntry, places: readonly string[] | undefined): string {
  const index = entries.indexOf(entry);
  const place = places?.[index];
  const what = entry.when ? `rule ${index + 1}: when ${describeCondition(entry.when)}` : `step ${index + 1}`;
  return place === undefined ? what : `${place} (${what})`;
}

function unscripted(name: string, facts: RequestFacts, expected: readonly string[]): ModelError {
  return new ModelError(
    "unscripted",
    `${name} has nothing for this call. Came: ${describeFacts(facts)}. Expected one of: ${expected.join("; ")}.`,
  );
}

function throwIfAborted(signal: AbortSignal): void {
  if (signal.aborted) {
    throw new ModelError("aborted", "The call to the scripted model was aborted.", { cause: signal.reason });
  }
}
