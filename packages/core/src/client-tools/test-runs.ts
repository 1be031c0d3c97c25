/** For the tests of this folder: runs that wait for their client, and a model that a strict provider would accept. */

import type { ToolResultInput } from "@leafmesh/protocol";
import { type ChatRequest, findRefusal } from "@leafmesh/testkit";
import type { HttpTool, Mesh } from "../config/mesh.ts";
import type { Model, ModelRequest } from "../models/contract.ts";
import { encodeRequest } from "../models/openai-request.ts";
import type { Engine } from "../runs/engine.ts";
import { testAgent, testMesh } from "../runs/testing/index.ts";

const inputSchema = { type: "object" };
export const HIGHLIGHT = {
  kind: "client",
  name: "highlight",
  description: "Highlights.",
  inputSchema,
  effect: "read",
} as const;
export const BOOK: HttpTool = {
  kind: "http",
  name: "book",
  description: "Books.",
  inputSchema,
  effect: "write",
  url: "http://127.0.0.1:1/",
  requiresApproval: true,
};

/** One agent that lists the tools of the file and whatever a test hands to the engine. */
export function clientMesh(
  tools: readonly (typeof HIGHLIGHT | HttpTool)[] = [HIGHLIGHT],
  more: Partial<Mesh> = {},
): Mesh {
  return {
    ...testMesh([testAgent({ tools: tools.map(({ name }) => name) })]),
    tools: new Map(tools.map((tool) => [tool.name, tool])),
    ...more,
  };
}

/** The model, behind what a strict provider refuses. */
export function strict<Inner extends Model>(model: Inner): Inner {
  const answer = model.answer.bind(model);
  model.answer = (request, options) => {
    const refusal = findRefusal(toChatRequest(request));
    if (refusal) throw new Error(`a provider would refuse this: ${refusal.message}`);
    return answer(request, options);
  };
  return model;
}

function toChatRequest(request: ModelRequest): ChatRequest {
  return JSON.parse(encodeRequest(request, new Set()));
}

export function submit(engine: Engine, more: Partial<Parameters<Engine["submitRun"]>[0]> = {}) {
  return engine.submitRun({
    agent: "helper",
    message: "go",
    run: { clientTools: "suspend", clientToolTimeoutMs: 60_000 },
    ...more,
  });
}

export function answer(...results: readonly (readonly [id: string, content: string])[]) {
  const inputs = results.map(
    ([tool_call_id, content]): ToolResultInput => ({ tool_call_id, content, is_error: false }),
  );
  return { contract: "result", results: inputs } as const;
}

export const approval = (decision: "approve" | "reject", more: { message?: string; tool_call_id?: string } = {}) =>
  ({ contract: "approval", approval: { decision, ...more } }) as const;
