import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { isStepCount, streamText, tool } from "ai";
import { z } from "zod";
import { DESCRIPTION, PROMPT, readBattery, TOOL } from "../task.mjs";

export function create({ baseURL }) {
  const model = createOpenAICompatible({ name: "bench", baseURL, apiKey: "k", includeUsage: true })("bench");
  const tools = {
    [TOOL]: tool({
      description: DESCRIPTION,
      inputSchema: z.object({ device_id: z.string() }),
      execute: async (input) => readBattery(input),
    }),
  };
  return async (question) => {
    const result = streamText({
      model,
      system: PROMPT,
      prompt: question,
      tools,
      stopWhen: isStepCount(4),
      maxRetries: 0,
    });
    let text = "";
    for await (const piece of result.textStream) text += piece;
    return text;
  };
}
