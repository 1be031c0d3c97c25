/** What the tests of this folder share. */
import { type LogFields, type Logger, Secret, systemClock } from "@leafmesh/protocol";
import type { Model, ModelAnswer, ModelRequest } from "./contract.ts";
import { createOpenAIChatModel, type OpenAIChatOptions } from "./openai-chat.ts";

export const batteryTool = {
  name: "read_battery",
  description: "Reads the battery level.",
  parameters: { type: "object", properties: { device: { type: "string" } } },
};

/** A request with one user message, changed as told. */
export function chatRequest(changes: Partial<ModelRequest> = {}): ModelRequest {
  return {
    model: "gpt-4o-mini",
    messages: [{ role: "user", content: "Is my battery OK?" }],
    tools: [],
    toolChoice: "auto",
    parallelToolCalls: true,
    ...changes,
  };
}

export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly fields: LogFields | undefined;
}

/** A logger that keeps its lines. */
export function createLogKeeper(): Logger & { readonly lines: readonly LogLine[] } {
  const lines: LogLine[] = [];
  const keep = (level: string) => (message: string, fields?: LogFields) => {
    lines.push({ level, message, fields });
  };
  return { lines, debug: keep("debug"), info: keep("info"), warn: keep("warn"), error: keep("error") };
}

export const TEST_KEY = "sk-test-0123456789";

export function createTestModel(baseUrl: string, changes: Partial<OpenAIChatOptions> = {}): Model {
  return createOpenAIChatModel({
    endpoint: {
      name: "local",
      baseUrl,
      apiKey: new Secret(TEST_KEY),
      apiKeyPlace: "models.local.api_key",
    },
    clock: systemClock,
    logger: createLogKeeper(),
    ...changes,
  });
}

/** One call without a deadline. */
export function ask(model: Model, request = chatRequest(), onText?: (text: string) => void): Promise<ModelAnswer> {
  const { signal } = new AbortController();
  return model.answer(request, onText ? { signal, onText } : { signal });
}
