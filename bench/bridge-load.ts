/**
 * Conversations at once whose client's tool is called over several mesh processes on one PostgreSQL: how many calls a
 * second, how soon the model goes on with a result, and whether any call was lost, came twice or got stuck.
 */
import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { postgresAvailable, startPostgres } from "@leafmesh/testkit/postgres";
import { loadBridge, startWorkModel } from "./bridge-load/load.ts";
import { buildCommand } from "./lib/built-command.ts";
import { startChild } from "./lib/child.ts";
import { describeMachine } from "./lib/machine.ts";
import { round, summarize } from "./lib/statistics.ts";
import { markdownTable } from "./lib/table.ts";

const USAGE = `npm run bench -- bridge-load [options]
  --sessions N     conversations at once (200)
  --processes N    mesh processes on one PostgreSQL (3)
  --seconds S      how long (60)
  --no-build       measure the build that is there`;

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      sessions: { type: "string", default: "200" },
      processes: { type: "string", default: "3" },
      seconds: { type: "string", default: "60" },
      "no-build": { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return console.log(USAGE);
  if (!postgresAvailable()) throw new Error("PostgreSQL is not installed: apt-get install postgresql");
  const [sessions, processes, seconds] = [values.sessions, values.processes, values.seconds].map(Number);
  if (!sessions || !processes || !seconds) throw new Error(`a number is missing\n${USAGE}`);
  const command = buildCommand({ build: !values["no-build"] });
  await using server = await startPostgres({ durable: true });
  const url = await server.createDatabase("bridge_load");
  const model = await startWorkModel();
  const folder = mkdtempSync(join(tmpdir(), "leafmesh-bench-"));
  const file = join(folder, "mesh.yaml");
  writeFileSync(
    file,
    `name: bridge-load
models:
  test: { base_url: "${model.server.baseUrl}", api_key: none }
limits: { max_concurrent_runs: ${sessions}, max_streams: ${sessions} }
agents:
  helper: { model: test/any, prompt: Do as you are told. }
storage: { url: "${url}" }
`,
  );
  const env = { LEAFMESH_SECRET_KEY: randomBytes(32).toString("base64") };
  const meshArgs = ["run", file, "--port", "0", "--no-watch", "--json", "--grace", "0", "--log-level", "warn"];
  const meshes = Array.from({ length: processes }, () => startChild(process.execPath, [command, ...meshArgs], { env }));
  try {
    const urls = await Promise.all(meshes.map(async (mesh) => String((await mesh.nextJson()).url)));
    await loadBridge(urls, model, { sessions: Math.min(sessions, 32), seconds: Math.min(seconds, 3) });
    const found = await loadBridge(urls, model, { sessions, seconds });
    report({ sessions, processes }, found);
  } finally {
    await Promise.all(meshes.map((mesh) => mesh.stop()));
    await model.server.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

function report(
  setting: { readonly sessions: number; readonly processes: number },
  found: Awaited<ReturnType<typeof loadBridge>>,
): void {
  const machine = describeMachine();
  const { continuedMs, ...counts } = found;
  const continued = summarize(continuedMs);
  const callsPerSecond = counts.calls / counts.seconds;
  console.log(`\n${machine}\n`);
  console.log(
    markdownTable(
      [
        "sessions",
        "processes",
        "calls",
        "calls/s",
        "result to model p50 ms",
        "p99",
        "worst",
        "lost",
        "doubled",
        "stuck",
      ],
      [
        [
          ...[setting.sessions, setting.processes, counts.calls, round(callsPerSecond)],
          ...[round(continued.p50), round(continued.p99), round(continued.max)],
          ...[counts.lost, counts.doubled, counts.stuck],
        ].map(String),
      ],
    ),
  );
  const wrong = counts.lost + counts.doubled + counts.stuck;
  console.log(`\n${wrong === 0 ? "met   " : "MISSED"} 0 lost, 0 doubled, 0 stuck: ${wrong}`);
  if (wrong > 0) process.exitCode = 1;
  const folder = resolve(import.meta.dirname, "results");
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "bridge-load.json");
  writeFileSync(file, `${JSON.stringify({ machine, ...setting, ...counts, callsPerSecond, continued }, null, 2)}\n`);
  console.log(`\n${file}`);
}
