/** What is started: bare servers, and `leafmesh run` as it is published and from its sources. */
import { join, resolve } from "node:path";

export interface Candidate {
  readonly name: string;
  /** For the table. */
  readonly title: string;
  /** Arguments of Node. */
  readonly command: readonly string[];
  /**
   * `fresh` starts in an empty folder: no compile cache, no database, no keys. `warm` starts in one where it ran and
   * was stopped before, as every start after the first does.
   */
  readonly folder: "fresh" | "warm";
}

const here = import.meta.dirname;
const root = resolve(here, "../..");
const bundle = join(root, "packages/cli/dist/main.js");
const source = join(root, "packages/cli/src/main.ts");

function server(file: string): readonly string[] {
  return [join(here, file)];
}

function leafmesh(...command: readonly string[]): readonly string[] {
  return [...command, "run", join(here, "mesh.yaml"), "--port", "$PORT"];
}

/** What LeafMesh is held against. */
export const BASELINE = "hono";

export const candidates: readonly Candidate[] = [
  { name: "node", title: "node:http", command: server("node-server.mjs"), folder: "warm" },
  { name: BASELINE, title: "empty hono server", command: server("hono-server.mjs"), folder: "warm" },
  { name: "hono-openai", title: "hono + openai", command: server("hono-openai-server.mjs"), folder: "warm" },
  { name: "leafmesh", title: "leafmesh run", command: leafmesh(bundle), folder: "warm" },
  { name: "leafmesh-first", title: "leafmesh run, the very first", command: leafmesh(bundle), folder: "fresh" },
  {
    name: "leafmesh-source",
    title: "leafmesh run, from source",
    command: leafmesh("--conditions=leafmesh-source", source),
    folder: "warm",
  },
];
