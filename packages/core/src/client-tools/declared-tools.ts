/** The tools that agents list by name: declared in mesh.yaml or through the API. */

import type { GuardedFetch } from "@leafmesh/guarded-fetch";
import type { Logger } from "@leafmesh/protocol";
import type { DeclaredTool } from "../config/mesh.ts";
import type { Backend, ToolRecord } from "../storage/contract.ts";
import type { Tool, ToolProvider } from "../tools/contract.ts";
import { createHttpTool } from "./http-tool.ts";

export interface DeclaredToolsOptions {
  readonly backend: Backend;
  readonly fetch: Pick<GuardedFetch, "postOperator">;
  readonly logger: Logger;
}

/** A tool of the file wins over one of the store. A name that leads nowhere gives no tool and a line in the log. */
export function createDeclaredTools({ backend, fetch, logger }: DeclaredToolsOptions): ToolProvider {
  return {
    async toolsFor(agent, { mesh }) {
      const tools: Tool[] = [];
      for (const name of agent.tools ?? []) {
        const declared = mesh.tools?.get(name) ?? (await storedTool(backend, name));
        if (!declared) logger.error("an agent lists a tool that does not exist", { agent: agent.name, tool: name });
        else tools.push(declared.kind === "client" ? clientTool(declared) : createHttpTool(declared, fetch));
      }
      return tools;
    },
  };
}

async function storedTool(backend: Backend, name: string): Promise<DeclaredTool | undefined> {
  const stored = await backend.tool(name);
  return stored && fromRecord(stored);
}

/** Only client-owned tools are declared through the API. */
function fromRecord({ slug, description, inputSchema, effect }: ToolRecord): DeclaredTool {
  return { kind: "client", name: slug, description, inputSchema, effect };
}

/** Never executed here: a run that calls it waits for its client, or ends. */
function clientTool({ name, description, inputSchema }: DeclaredTool): Tool {
  return {
    definition: { name, description, parameters: inputSchema },
    ownDeadline: true,
    isClientOwned: true,
    async execute() {
      throw new Error(`the tool ${name} is executed by the client and not by the mesh`);
    },
  };
}
