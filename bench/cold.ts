/**
 * From the start of a process to its first 200 of `/readyz`: empty servers, and `leafmesh run` of a mesh with one agent.
 * Interleaved within each repeat; only rows of one run may be compared.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { get } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { BASELINE, type Candidate, candidates } from "./cold/candidates.ts";
import { buildCommand } from "./lib/built-command.ts";
import { type Child, startChild } from "./lib/child.ts";
import { freePort } from "./lib/free-port.ts";
import { calm, describeMachine, rssMbOf } from "./lib/machine.ts";
import { median, round, spread } from "./lib/statistics.ts";
import { markdownTable } from "./lib/table.ts";

const USAGE = `npm run bench -- cold [options]
  --repeats N     starts of each candidate (15)
  --only LIST     candidates (${candidates.map(({ name }) => name).join(",")})
  --no-build      measure the build that is there`;

/** How often a start asks whether it is over. */
const POLL_MS = 2;
const LONGEST_START_MS = 30_000;
/** LeafMesh may take this much of what an empty server takes. */
const GOAL = 1.3;

interface Sample {
  readonly ms: number;
  readonly rssMb: number;
}

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      repeats: { type: "string", default: "15" },
      only: { type: "string", default: "" },
      "no-build": { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return console.log(USAGE);
  const only = values.only.split(",").filter((name) => name !== "");
  const chosen = candidates.filter(({ name }) => only.length === 0 || only.includes(name));
  buildCommand({ build: !values["no-build"] });
  const samples = await measureAll(chosen, Number(values.repeats));
  report(chosen, samples);
}

type Samples = ReadonlyMap<string, readonly Sample[]>;

async function measureAll(chosen: readonly Candidate[], repeats: number): Promise<Samples> {
  const samples = new Map<string, Sample[]>(chosen.map(({ name }) => [name, []]));
  const folders = mkdtempSync(join(tmpdir(), "leafmesh-bench-"));
  try {
    const warmed = new Map<string, string>();
    for (const { name, folder, command } of chosen) {
      if (folder !== "warm") continue;
      const made = mkdtempSync(join(folders, `${name}-`));
      warmed.set(name, made);
      await measure(command, made);
    }
    for (let repeat = 1; repeat <= repeats; repeat++) {
      for (const { name, command } of chosen) {
        await calm();
        const sample = await measure(command, warmed.get(name) ?? mkdtempSync(join(folders, `${name}-`)));
        samples.get(name)?.push(sample);
        console.error(`repeat ${repeat}, ${name}: ${round(sample.ms)} ms, ${round(sample.rssMb)} MB`);
      }
    }
  } finally {
    rmSync(folders, { recursive: true, force: true });
  }
  return samples;
}

/** Starts, waits for the first 200 and stops. What the process leaves between two starts lies in `folder`. */
async function measure(command: readonly string[], folder: string): Promise<Sample> {
  const port = await freePort();
  const args = command.map((argument) => (argument === "$PORT" ? `${port}` : argument));
  const start = performance.now();
  // Node keeps its compile cache under TMPDIR.
  const child = startChild(process.execPath, args, {
    env: { PORT: `${port}`, BENCH_FOLDER: folder, TMPDIR: folder },
  });
  try {
    const ms = await untilReady(port, start, child);
    return { ms, rssMb: rssMbOf(child.pid) };
  } finally {
    await child.stop();
  }
}

async function untilReady(port: number, start: number, child: Child): Promise<number> {
  let ended: Error | undefined;
  child.nextJson().catch((error: Error) => {
    ended = error;
  });
  for (;;) {
    const isReady = await statusOf(port).then(
      (status) => status === 200,
      () => false,
    );
    const ms = performance.now() - start;
    if (isReady) return ms;
    if (ended) throw ended;
    if (ms > LONGEST_START_MS) throw new Error(`not ready after ${LONGEST_START_MS} ms`);
    await pause(POLL_MS);
  }
}

/** Over a connection of its own. */
function statusOf(port: number): Promise<number | undefined> {
  return new Promise((answer, reject) => {
    get({ host: "127.0.0.1", port, path: "/readyz", agent: false }, (response) => {
      response.resume();
      response.once("end", () => answer(response.statusCode));
    }).once("error", reject);
  });
}

function report(chosen: readonly Candidate[], samples: Samples): void {
  const rows = chosen.map(({ name, title }) => {
    const all = samples.get(name) ?? [];
    const ms = all.map((sample) => sample.ms);
    return {
      name,
      title,
      ms: median(ms),
      rssMb: median(all.map(({ rssMb }) => rssMb)),
      spread: spread(ms),
      repeats: all.length,
    };
  });
  const baseline = rows.find(({ name }) => name === BASELINE);
  const machine = describeMachine();
  console.log(`\n${machine}\n`);
  console.log(
    markdownTable(
      ["candidate", "first 200, ms", "×", "RSS MB", "spread"],
      rows.map((row) => [
        row.title,
        `${round(row.ms, 0)}`,
        baseline ? `${round(row.ms / baseline.ms, 2)}` : "–",
        `${round(row.rssMb, 0)}`,
        `±${round(100 * row.spread)} %`,
      ]),
    ),
  );
  const own = rows.find(({ name }) => name === "leafmesh");
  if (baseline && own) {
    const ratio = own.ms / baseline.ms;
    console.log(
      `\n${ratio <= GOAL ? "met   " : "MISSED"} start: ${round(ratio, 2)} × the empty server (at most ${GOAL})`,
    );
  }
  const folder = resolve(import.meta.dirname, "results");
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "cold.json");
  writeFileSync(file, `${JSON.stringify({ machine, rows, samples: [...samples] }, null, 2)}\n`);
  console.log(`\n${file}`);
}
