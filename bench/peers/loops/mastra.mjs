import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { z } from "zod";
import { DESCRIPTION, PROMPT, readBattery, TOOL } from "../task.mjs";

export function create({ baseURL }) {
  const model = createOpenAICompatible({ name: "bench", baseURL, apiKey: "k", includeUsage: true })("bench");
  const battery = createTool({
    id: TOOL,
    description: DESCRIPTION,
    inputSchema: z.object({ device_id: z.string() }),
    execute: async (input) => readBattery(input.context ?? input),
  });
  const agent = new Agent({
    id: "phone_helper",
    name: "phone_helper",
    instructions: PROMPT,
    model,
    tools: { [TOOL]: battery },
  });
  return async (question) => {
    const result = await agent.stream(question, { maxSteps: 4 });
    let text = "";
    for await (const piece of result.textStream) text += piece;
    return text;
  };
}
