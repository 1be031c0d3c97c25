/**
 * What a real provider refuses before its model sees anything, in the provider's words. A history that passes here
 * passes at OpenAI and at the stricter of the compatible servers.
 */
import type { ChatRequest, ChatRequestMessage } from "./chat-request.ts";

/** One refusal: HTTP 400 with `type: "invalid_request_error"`. */
export interface Refusal {
  readonly message: string;
  readonly param: string | null;
  readonly code: string | null;
}

/** Longest `id` of a tool call that OpenAI takes. */
const MAX_CALL_ID_LENGTH = 40;
const MAX_TOOLS = 128;
const NAME_PATTERN = /^[a-zA-Z0-9_-]+$/;
const MAX_NAME_LENGTH = 64;
const DATA_IMAGE = /^data:image\/(?:jpeg|png|webp|gif);base64,[A-Za-z0-9+/]+={0,2}$/;

/** The first thing wrong with the request, or `undefined`. */
export function findRefusal(request: ChatRequest): Refusal | undefined {
  return findParameterRefusal(request) ?? findMessageRefusal(request.messages) ?? findPairingRefusal(request.messages);
}

function findParameterRefusal(request: ChatRequest): Refusal | undefined {
  const { tools } = request;
  if (request.messages.length === 0) return emptyArray("messages");
  if (tools?.length === 0) return emptyArray("tools");
  if (tools === undefined && request.tool_choice !== undefined)
    return refusal("'tool_choice' is only allowed when 'tools' are specified.", "tool_choice");
  if (tools === undefined && request.parallel_tool_calls !== undefined)
    return refusal("'parallel_tool_calls' is only allowed when 'tools' are specified.", "parallel_tool_calls");
  if (request.stream_options && request.stream !== true)
    return refusal("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options");
  return tools && findToolRefusal(tools);
}

function findToolRefusal(tools: NonNullable<ChatRequest["tools"]>): Refusal | undefined {
  if (tools.length > MAX_TOOLS) {
    return refusal(
      `Invalid 'tools': array too long. Expected an array with maximum length ${MAX_TOOLS}, but got an array with length ${tools.length} instead.`,
      "tools",
      "array_above_max_length",
    );
  }
  const names = new Set<string>();
  for (const [position, tool] of tools.entries()) {
    const { name, parameters } = tool.function;
    const wrongName = findNameRefusal(name, `tools[${position}].function.name`);
    if (wrongName) return wrongName;
    if (names.has(name)) return refusal("Tool names must be unique.", "tools");
    names.add(name);
    if (parameters && parameters.type !== "object") {
      return refusal(
        `Invalid schema for function '${name}': schema must be a JSON Schema of 'type: "object"', got 'type: "${String(parameters.type)}"'.`,
        `tools[${position}].function.parameters`,
        "invalid_function_parameters",
      );
    }
  }
  return undefined;
}

function findMessageRefusal(messages: readonly ChatRequestMessage[]): Refusal | undefined {
  for (const [position, message] of messages.entries()) {
    const place = `messages[${position}]`;
    const found =
      message.role === "assistant"
        ? findAssistantRefusal(message, place)
        : message.role === "user"
          ? findImageRefusal(message, place)
          : undefined;
    if (found) return found;
    if (Array.isArray(message.content) && message.content.length === 0) return emptyArray(`${place}.content`);
  }
  return undefined;
}

type AssistantMessage = Extract<ChatRequestMessage, { role: "assistant" }>;

function findAssistantRefusal(message: AssistantMessage, place: string): Refusal | undefined {
  const calls = message.tool_calls;
  if (calls === undefined) {
    return typeof message.content === "string" || Array.isArray(message.content)
      ? undefined
      : refusal(
          `Invalid value for 'content': expected a string, got null.`,
          place.replace(/\[(\d+)\]/, ".[$1].content"),
        );
  }
  if (calls.length === 0) return emptyArray(`${place}.tool_calls`);
  const ids = new Set<string>();
  for (const [index, call] of calls.entries()) {
    const callPlace = `${place}.tool_calls[${index}]`;
    if (call.id.length > MAX_CALL_ID_LENGTH) {
      return refusal(
        `Invalid '${callPlace}.id': string too long. Expected a string with maximum length ${MAX_CALL_ID_LENGTH}, but got a string with length ${call.id.length} instead.`,
        `${callPlace}.id`,
        "string_above_max_length",
      );
    }
    if (ids.has(call.id)) return refusal(`Duplicate value for 'id' of '${call.id}' in ${place}.tool_calls.`, callPlace);
    ids.add(call.id);
    const wrongName = findNameRefusal(call.function.name, `${callPlace}.function.name`);
    if (wrongName) return wrongName;
    if (!isJsonObject(call.function.arguments)) {
      return refusal(
        `Invalid '${callPlace}.function.arguments': expected a JSON object.`,
        `${callPlace}.function.arguments`,
      );
    }
  }
  return undefined;
}

function findImageRefusal(message: Extract<ChatRequestMessage, { role: "user" }>, place: string): Refusal | undefined {
  if (typeof message.content === "string") return undefined;
  for (const [index, part] of message.content.entries()) {
    if (part.type !== "image_url") continue;
    const { url } = part.image_url;
    if (url.startsWith("data:") ? !DATA_IMAGE.test(url) : !url.startsWith("https://")) {
      return refusal(
        "Invalid base64 image_url. Expected a base64-encoded data URL with an image MIME type (e.g. 'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got unsupported MIME type or data.",
        `${place}.content[${index}].image_url.url`,
        "invalid_image_format",
      );
    }
  }
  return undefined;
}

/** Every call has its result, directly after the message that made it, in the order of the calls, once. */
function findPairingRefusal(messages: readonly ChatRequestMessage[]): Refusal | undefined {
  let open: readonly string[] = [];
  let answered = 0;
  const dangling = (position: number): Refusal =>
    refusal(
      `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${open.slice(answered).join(", ")}`,
      `messages.[${position}].role`,
    );

  for (const [position, message] of messages.entries()) {
    if (message.role !== "tool") {
      if (answered < open.length) return dangling(position);
      open = message.role === "assistant" ? (message.tool_calls ?? []).map((call) => call.id) : [];
      answered = 0;
      continue;
    }
    if (open[answered] === message.tool_call_id) {
      answered += 1;
    } else if (open.indexOf(message.tool_call_id) >= answered) {
      return refusal(
        `Tool results must follow the order of 'tool_calls': expected '${open[answered]}', got '${message.tool_call_id}'.`,
        `messages.[${position}].tool_call_id`,
      );
    } else if (open.includes(message.tool_call_id)) {
      return refusal(
        `Duplicate value for 'tool_call_id' of '${message.tool_call_id}' in message[${position}].`,
        `messages.[${position}].tool_call_id`,
      );
    } else {
      return refusal(
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
        `messages.[${position}].role`,
      );
    }
  }
  return answered < open.length ? dangling(messages.length) : undefined;
}

function findNameRefusal(name: string, place: string): Refusal | undefined {
  if (name === "" || !NAME_PATTERN.test(name)) {
    return refusal(
      `Invalid '${place}': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.`,
      place,
      "invalid_value",
    );
  }
  if (name.length > MAX_NAME_LENGTH) {
    return refusal(
      `Invalid '${place}': string too long. Expected a string with maximum length ${MAX_NAME_LENGTH}, but got a string with length ${name.length} instead.`,
      place,
      "string_above_max_length",
    );
  }
  return undefined;
}

function emptyArray(place: string): Refusal {
  return refusal(
    `Invalid '${place}': empty array. Expected an array with minimum length 1, but got an empty array instead.`,
    place,
    "empty_array",
  );
}

function refusal(message: string, param: string, code: string | null = null): Refusal {
  return { message, param, code };
}

function isJsonObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
