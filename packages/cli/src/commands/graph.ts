/** `leafmesh graph`: the mesh as a Mermaid flowchart, https://mermaid.js.org/syntax/flowchart.html */
import type { Mesh, ProviderRegistry } from "@leafmesh/core";
import { BUILT_IN_ROOMS } from "@leafmesh/core/config";
import { type CliContext, EXIT, type ExitCode } from "../context.ts";
import { type MeshFileOptions, readMeshFile, renderFindings } from "./mesh-file.ts";

export async function graph(
  options: MeshFileOptions,
  context: CliContext,
  registry: ProviderRegistry,
): Promise<ExitCode> {
  const loaded = readMeshFile(options, context, registry);
  if (!loaded.ok) {
    context.stderr.write(renderFindings(loaded, context));
    return EXIT.invalid;
  }
  context.stdout.write(renderGraph(loaded.mesh));
  return EXIT.ok;
}

/** Entry points lead to agents, agents to the connections that ring for them and the rooms where they meet a device. */
export function renderGraph(mesh: Mesh): string {
  const lines = ["flowchart LR"];
  const agentIds = new Map([...mesh.agents.keys()].map((name, index) => [name, `agent${index}`]));
  const placeIds = new Map<string, string>();

  /** The node of a connection, drawn when it is first led to. */
  function placeOf(name: string | undefined): string {
    const key = name ?? "";
    const known = placeIds.get(key);
    if (known !== undefined) return known;
    const id = `place${placeIds.size}`;
    placeIds.set(key, id);
    const provider = name === undefined ? BUILT_IN_ROOMS : mesh.connections.get(name)?.provider;
    lines.push(`  ${id}{{${label(name ?? "built-in rooms", provider ?? "not in this file")}}}`);
    return id;
  }

  for (const { name, model, endpoint } of mesh.agents.values()) {
    lines.push(`  ${agentIds.get(name)}[${label(name, endpoint === "openai" ? model : `${endpoint}/${model}`)}]`);
  }
  for (const [index, { name, target }] of mesh.entryPoints.entries()) {
    lines.push(`  entry${index}([${label(name)}]) --> ${agentIds.get(target)}`);
  }
  for (const { name, device } of mesh.agents.values()) {
    if (!device) continue;
    const from = agentIds.get(name);
    lines.push(`  ${from} -->|${label(`rings, ${device.approval}`)}| ${placeOf(device.connection)}`);
    lines.push(`  ${from} -.->|${label("meets in")}| ${placeOf(device.room)}`);
  }
  return `${lines.join("\n")}\n`;
}

/** Quoted, one line each; everything that could end the quotes or be taken for markup as its character code. */
function label(...lines: readonly string[]): string {
  const escaped = lines.map((line) => line.replace(/[^A-Za-z0-9 _.,/:@-]/gu, (char) => `#${char.codePointAt(0)};`));
  return `"${escaped.join("<br/>")}"`;
}
