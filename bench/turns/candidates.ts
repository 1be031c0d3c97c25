/** What is measured: LeafMesh through its command line, and each peer behind the same small server. */
import { join, resolve } from "node:path";
import { buildCommand } from "../lib/built-command.ts";
import { type Child, startChild } from "../lib/child.ts";

export interface Candidate {
  readonly name: string;
  /** For the table. */
  readonly title: string;
  /** Whether it is a framework: LeafMesh is held against the best of these. */
  readonly isFramework: boolean;
  start(place: CandidatePlace): Promise<StartedCandidate>;
}

export interface CandidatePlace {
  readonly modelUrl: string;
  /** Empty folder that is removed afterwards. */
  readonly folder: string;
  readonly cpu: number | undefined;
}

export interface StartedCandidate {
  readonly child: Child;
  /** Where `{ message }` is posted and `{ reply }` comes from. */
  readonly url: string;
}

const benchFolder = resolve(import.meta.dirname, "..");

const leafmesh: Candidate = {
  name: "leafmesh",
  title: "LeafMesh (built command, HTTP API, all stored)",
  isFramework: false,
  async start({ modelUrl, folder, cpu }) {
    const args = ["run", join(import.meta.dirname, "mesh.yaml"), "--port", "0", "--no-watch", "--json"];
    const main = buildCommand({ build: false });
    const child = startChild(process.execPath, [main, ...args, "--log-level", "error"], {
      cpu,
      env: { MODEL_URL: modelUrl, BENCH_FOLDER: folder },
    });
    return { child, url: `${await urlOf(child)}/api/mesh/request` };
  },
};

function peer(name: string, title: string, isFramework: boolean): Candidate {
  return {
    name,
    title,
    isFramework,
    async start({ modelUrl, cpu }) {
      const child = startChild(process.execPath, [join(benchFolder, "peers/server.mjs")], {
        cpu,
        env: {
          LOOP: name,
          MODEL_URL: modelUrl,
          OPENAI_AGENTS_DISABLE_TRACING: "1",
          MASTRA_TELEMETRY_DISABLED: "1",
          LANGSMITH_TRACING: "false",
          AI_SDK_LOG_WARNINGS: "false",
        },
      });
      return { child, url: await urlOf(child) };
    },
  };
}

async function urlOf(child: Child): Promise<string> {
  for (;;) {
    const { url } = await child.nextJson();
    if (typeof url === "string") return url;
  }
}

/** The bare loop that LeafMesh is held against. */
export const BASELINE = "openai";

export const candidates: readonly Candidate[] = [
  leafmesh,
  peer(BASELINE, "bare loop on openai", false),
  peer("undici", "bare loop on undici", false),
  peer("openai-agents", "@openai/agents", true),
  peer("ai-sdk", "ai + @ai-sdk/openai-compatible", true),
  peer("langgraph", "@langchain/langgraph", true),
  peer("mastra", "@mastra/core", true),
];
