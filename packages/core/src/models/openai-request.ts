/** Writes a request as OpenAI chat completions take it, leaving out what a server has said it does not know. */
import type {
  ChatCompletionCreateParamsStreaming,
  ChatCompletionFunctionTool,
  ChatCompletionMessageFunctionToolCall,
  ChatCompletionMessageParam,
} from "openai/resources/chat/completions";
import type { ToolDefinition } from "../tools/contract.ts";
import type { ChatMessage, ModelRequest, ModelToolCall } from "./contract.ts";
import { isRecord, parseJson } from "./json.ts";

/** Fields that some servers and models refuse, each with another way to say it or a way to do without. */
export const OPTIONAL_FIELDS = ["stream_options", "parallel_tool_calls", "max_tokens", "temperature"] as const;
export type OptionalField = (typeof OPTIONAL_FIELDS)[number];

/** The request's body. `refused`: without these fields (`max_tokens` becomes `max_completion_tokens`). */
export function encodeRequest(request: ModelRequest, refused: ReadonlySet<OptionalField>): string {
  const body: ChatCompletionCreateParamsStreaming = {
    model: request.model,
    messages: request.messages.map(toWireMessage),
    stream: true,
  };
  if (!refused.has("stream_options")) body.stream_options = { include_usage: true };
  if (request.tools.length > 0) {
    if (request.toolChoice !== "auto") body.tool_choice = request.toolChoice;
    // Parallel calls are the default everywhere, so only their absence needs saying.
    if (!request.parallelToolCalls && !refused.has("parallel_tool_calls")) body.parallel_tool_calls = false;
  }
  if (request.temperature !== undefined && !refused.has("temperature")) body.temperature = request.temperature;
  if (request.maxTokens !== undefined) {
    if (refused.has("max_tokens")) body.max_completion_tokens = request.maxTokens;
    else body.max_tokens = request.maxTokens;
  }
  const text = JSON.stringify(body);
  if (request.tools.length === 0) return text;
  return `${text.slice(0, -1)},"tools":[${request.tools.map(toolText).join()}]}`;
}

/** Every call of a run shows the same tools, and their schemas are most of a short request. */
const toolTexts = new WeakMap<ToolDefinition, string>();

function toolText(definition: ToolDefinition): string {
  const known = toolTexts.get(definition);
  if (known !== undefined) return known;
  const { name, description, parameters } = definition;
  // Services refuse a whole request for one schema that leaves out what it is a schema of.
  const typed = parameters.type === undefined ? { type: "object", ...parameters } : parameters;
  const tool: ChatCompletionFunctionTool = { type: "function", function: { name, description, parameters: typed } };
  const text = JSON.stringify(tool);
  toolTexts.set(definition, text);
  return text;
}

function toWireMessage(message: ChatMessage): ChatCompletionMessageParam {
  switch (message.role) {
    case "system":
      return { role: "system", content: message.content };
    case "user":
      return { role: "user", content: toWireContent(message.content) };
    case "assistant":
      return message.toolCalls && message.toolCalls.length > 0
        ? { role: "assistant", content: message.content, tool_calls: message.toolCalls.map(toWireCall) }
        : { role: "assistant", content: message.content ?? "" };
    case "tool":
      return { role: "tool", tool_call_id: message.toolCallId, content: message.content };
  }
}

type UserContent = Extract<ChatMessage, { role: "user" }>["content"];

function toWireContent(content: UserContent) {
  if (typeof content === "string") return content;
  return content.map((part) =>
    part.type === "text"
      ? { type: "text" as const, text: part.text }
      : { type: "image_url" as const, image_url: { url: `data:${part.mediaType};base64,${part.base64}` } },
  );
}

/**
 * What a model once wrote must not make every later request of the conversation fail: providers refuse names outside
 * `^[a-zA-Z0-9_-]{1,64}$`, and some refuse arguments that are not a JSON object. The tool's result, which follows,
 * says what was wrong.
 */
function toWireCall(call: ModelToolCall): ChatCompletionMessageFunctionToolCall {
  return {
    id: call.id,
    type: "function",
    function: {
      name: call.name.replaceAll(/[^a-zA-Z0-9_-]/g, "_").slice(0, 64),
      arguments: isRecord(parseJson(call.arguments)) ? call.arguments : "{}",
    },
  };
}
