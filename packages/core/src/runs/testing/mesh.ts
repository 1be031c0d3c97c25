import type { Agent, Limits, Mesh } from "../../config/mesh.ts";

export function testAgent(changes: Partial<Agent> = {}): Agent {
  return {
    name: "helper",
    type: "llm",
    endpoint: "main",
    model: "test-model",
    prompt: "Help.",
    toolChoice: "auto",
    maxToolCallsPerMessage: 20,
    toolCallTimeoutMs: 30_000,
    allowParallelToolCalls: true,
    historyLimit: 20,
    ...changes,
  };
}

export function testMesh(agents: readonly Agent[] = [testAgent()], limits: Partial<Limits> = {}): Mesh {
  return {
    name: "test",
    version: "1",
    logLevel: "info",
    folder: "/",
    digest: "0",
    models: new Map(),
    connections: new Map(),
    agents: new Map(agents.map((agent) => [agent.name, agent])),
    entryPoints: agents.map((agent) => ({ name: `to_${agent.name}`, target: agent.name })),
    limits: {
      runTimeoutMs: 3_600_000,
      maxOpenAsksPerSession: 8,
      maxAsksPerRun: 8,
      maxSessionsPerKey: 100,
      maxStreams: 100,
      maxConcurrentRuns: 8,
      maxQueuedRunsPerSession: 4,
      toolResultMaxChars: 2_000,
      ...limits,
    },
    server: { host: "127.0.0.1", port: 0, apiKeys: [], corsOrigins: [] },
    storage: { url: ":memory:", kind: "sqlite", durable: false, sessionTtlMs: 7 * 24 * 3_600_000 },
  };
}
