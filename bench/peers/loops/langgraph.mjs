import { tool } from "@langchain/core/tools";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import { ChatOpenAI } from "@langchain/openai";
import { z } from "zod";
import { DESCRIPTION, PROMPT, readBattery, TOOL } from "../task.mjs";

export function create({ baseURL }) {
  const llm = new ChatOpenAI({
    model: "bench",
    apiKey: "k",
    configuration: { baseURL },
    streaming: true,
    maxRetries: 0,
  });
  const battery = tool(async (input) => JSON.stringify(readBattery(input)), {
    name: TOOL,
    description: DESCRIPTION,
    schema: z.object({ device_id: z.string() }),
  });
  const agent = createReactAgent({ llm, tools: [battery], prompt: PROMPT });
  return async (question) => {
    const input = { messages: [{ role: "user", content: question }] };
    let text = "";
    for await (const [message] of await agent.stream(input, { streamMode: "messages" })) {
      if (message.getType() === "ai" && typeof message.content === "string") text += message.content;
    }
    return text;
  };
}
