import { Agent, Runner, setDefaultOpenAIClient, setOpenAIAPI, setTracingDisabled, tool } from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";
import { DESCRIPTION, PROMPT, readBattery, TOOL } from "../task.mjs";

export function create({ baseURL }) {
  setDefaultOpenAIClient(new OpenAI({ apiKey: "k", baseURL, maxRetries: 0 }));
  setOpenAIAPI("chat_completions");
  setTracingDisabled(true);
  const agent = new Agent({
    name: "phone_helper",
    model: "bench",
    instructions: PROMPT,
    tools: [
      tool({
        name: TOOL,
        description: DESCRIPTION,
        parameters: z.object({ device_id: z.string() }),
        execute: async (input) => readBattery(input),
      }),
    ],
  });
  const runner = new Runner({ tracingDisabled: true });
  return async (question) => {
    const result = await runner.run(agent, question, { stream: true });
    for await (const _event of result);
    await result.completed;
    return result.finalOutput;
  };
}
