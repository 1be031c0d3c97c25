/**
 * A run that waits for its client to execute what the model calls.
 *
 *   EXAMPLE_FOLDER=. npm run -s leafmesh -- run examples/client-tools/mesh.yaml
 *   node --conditions=leafmesh-source examples/client-tools/run-tools.ts
 */
import assert from "node:assert/strict";
import { createClient, createExecutor, ToolError } from "@leafmesh/client";

/** Stands for the page that the visitor looks at. */
const page = new Set(["#price", "#buy"]);

const client = createClient({ url: process.env.LEAFMESH_URL ?? "http://127.0.0.1:18820" });

const executor = createExecutor({
  tools: {
    highlight: {
      description: "Highlight an element of the page the visitor is looking at.",
      parameters: { type: "object", properties: { selector: { type: "string" } }, required: ["selector"] },
      run({ selector }) {
        if (!page.has(String(selector))) throw new ToolError("not_found", `no element ${String(selector)}`);
        return "highlighted 1 element";
      },
    },
  },
});

async function ask(message: string): Promise<string | null | undefined> {
  const run = await client.runs.submit({
    agent_slug: "site_guide",
    session_key: `visitor-${crypto.randomUUID()}`,
    input: { message },
    client_tools: "suspend",
    client_tool_timeout_s: 60,
  });
  const end = await executor.serveRun(run);
  return end.output?.result.message;
}

const found = await ask("Where is the price?");
console.log(found);
assert.equal(found, "It is there, highlighted.");

page.delete("#price");
const missing = await ask("Where is the price?");
console.log(missing);
assert.equal(missing, "There is no price on this page.");

await executor.close();
