// What every peer is given: the same prompt, tool and question, a new conversation for every turn.
export const PROMPT = "Help the customer with their phone. Use read_battery when they ask about the battery.";
export const TOOL = "read_battery";
export const DESCRIPTION = "Read the battery level of one device.";
export const PARAMETERS = {
  type: "object",
  properties: { device_id: { type: "string", description: "id of the device" } },
  required: ["device_id"],
  additionalProperties: false,
};
export const toolDefinition = {
  type: "function",
  function: { name: TOOL, description: DESCRIPTION, parameters: PARAMETERS },
};

export function readBattery({ device_id }) {
  return { outcome: "done", data: { device: device_id, level: 71 } };
}

const MAX_STEPS = 4;

/** The loop that the bare clients share: ask, run the tools, ask again. `ask` answers `{ content, calls }`. */
export function createLoop(ask) {
  return async (question) => {
    const messages = [
      { role: "system", content: PROMPT },
      { role: "user", content: question },
    ];
    for (let step = 0; step < MAX_STEPS; step++) {
      const { content, calls } = await ask(messages);
      if (calls.length === 0) return content;
      messages.push({
        role: "assistant",
        content: content || null,
        tool_calls: calls.map((call) => ({
          id: call.id,
          type: "function",
          function: { name: call.name, arguments: call.arguments },
        })),
      });
      for (const call of calls) {
        const result = readBattery(JSON.parse(call.arguments));
        messages.push({ role: "tool", tool_call_id: call.id, content: JSON.stringify(result) });
      }
    }
    throw new Error("the loop did not come to an end");
  };
}

export function addChunk(answer, chunk) {
  const delta = chunk.choices[0]?.delta;
  if (delta?.content) answer.content += delta.content;
  for (const piece of delta?.tool_calls ?? []) {
    answer.calls[piece.index] ??= { id: "", name: "", arguments: "" };
    const call = answer.calls[piece.index];
    if (piece.id) call.id = piece.id;
    if (piece.function?.name) call.name += piece.function.name;
    if (piece.function?.arguments) call.arguments += piece.function.arguments;
  }
}
