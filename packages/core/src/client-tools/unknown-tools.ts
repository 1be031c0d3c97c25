import type { Mesh } from "../config/mesh.ts";
import type { Backend } from "../storage/contract.ts";

/** A tool that an agent lists and that neither the file nor the store has. */
export interface UnknownTool {
  readonly agent: string;
  readonly tool: string;
}

export async function findUnknownTools(mesh: Mesh, backend: Backend): Promise<readonly UnknownTool[]> {
  const agents = [...mesh.agents.values()];
  if (agents.every(({ tools = [] }) => tools.every((tool) => mesh.tools?.has(tool)))) return [];
  const stored = new Set((await backend.tools()).map(({ slug }) => slug));
  return agents.flatMap(({ name: agent, tools = [] }) =>
    tools.filter((tool) => !mesh.tools?.has(tool) && !stored.has(tool)).map((tool) => ({ agent, tool })),
  );
}
