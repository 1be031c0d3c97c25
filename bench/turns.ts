/**
 * One agent, one tool, one turn over HTTP: the question in, two streamed model calls with a tool call between them, the
 * final text out. Every candidate gets the same model server, in the same run, interleaved within each repeat. Only
 * rows of one run may be compared.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { buildCommand } from "./lib/built-command.ts";
import { startChild } from "./lib/child.ts";
import { installPeers } from "./lib/install-peers.ts";
import { type LoadOptions, type LoadResult, loadResultSchema } from "./lib/load.ts";
import { calm, canPin, cpuMsOf, describeMachine, machineLoad, othersShare } from "./lib/machine.ts";
import { median, round, spread } from "./lib/statistics.ts";
import { markdownTable } from "./lib/table.ts";
import { BASELINE, type Candidate, candidates } from "./turns/candidates.ts";
import { FINAL_TEXT } from "./turns/model-server.ts";

const USAGE = `npm run bench -- turns [options]
  --secs N            seconds for each cell (4)
  --repeats N         repeats of the whole table (3)
  --concurrency LIST  callers at a time (1,32,256)
  --only LIST         candidates (${candidates.map(({ name }) => name).join(",")})
  --no-build          measure the build that is there`;

/** A repeat in which others used more of the machine is left out when enough remain. */
const NOISE_LIMIT = 0.15;
const FEWEST_QUIET = 3;
const WARM_UP_SECONDS = 3;
const SERVER_CPU = 0;
const LOAD_CPU = 1;

interface Settings {
  readonly seconds: number;
  readonly repeats: number;
  readonly concurrencies: readonly number[];
  readonly chosen: readonly Candidate[];
  readonly pinned: boolean;
  /** Whether the command is built first. */
  readonly build: boolean;
}

type Sample = LoadResult & { readonly others: number };

export async function run(args: readonly string[]): Promise<void> {
  const settings = readArgs(args);
  if (!settings) return;
  if (settings.chosen.some(({ name }) => name !== "leafmesh")) installPeers();
  if (settings.chosen.some(({ name }) => name === "leafmesh")) buildCommand({ build: settings.build });
  const samples = await measureAll(settings);
  const rows = summarizeAll(settings, samples);
  const machine = describeMachine();
  console.log(`\n${machine}\n${settings.pinned ? "server on CPU 0, load and model on CPU 1" : "not pinned"}\n`);
  console.log(toTable(rows));
  for (const line of judge(rows)) console.log(line);
  const folder = resolve(import.meta.dirname, "results");
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "turns.json");
  writeFileSync(
    file,
    `${JSON.stringify({ machine, ...settings, chosen: undefined, rows, samples: [...samples] }, null, 2)}\n`,
  );
  console.log(`\n${file}`);
}

function readArgs(args: readonly string[]): Settings | undefined {
  const { values } = parseArgs({
    args: [...args],
    options: {
      secs: { type: "string", default: "4" },
      repeats: { type: "string", default: "3" },
      concurrency: { type: "string", default: "1,32,256" },
      only: { type: "string", default: "" },
      "no-build": { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) {
    console.log(USAGE);
    return undefined;
  }
  const only = values.only.split(",").filter((name) => name !== "");
  const unknown = only.filter((name) => !candidates.some((candidate) => candidate.name === name));
  if (unknown.length > 0) throw new Error(`--only: there is no ${unknown.join(", ")}\n${USAGE}`);
  return {
    seconds: Number(values.secs),
    repeats: Number(values.repeats),
    concurrencies: values.concurrency.split(",").map(Number),
    chosen: candidates.filter(({ name }) => only.length === 0 || only.includes(name)),
    pinned: canPin(),
    build: !values["no-build"],
  };
}

/** Per cell, the samples of all repeats. A cell that fails is told, and the others go on. */
async function measureAll(settings: Settings): Promise<ReadonlyMap<string, readonly Sample[]>> {
  const samples = new Map<string, Sample[]>();
  const model = startChild(process.execPath, [join(import.meta.dirname, "turns/model-server.ts")], {
    cpu: settings.pinned ? LOAD_CPU : undefined,
  });
  try {
    const modelUrl = String((await model.nextJson()).url);
    for (let repeat = 1; repeat <= settings.repeats; repeat++) {
      for (const concurrency of settings.concurrencies) {
        for (const candidate of settings.chosen) {
          const cell = `repeat ${repeat}, ${concurrency} at a time, ${candidate.name}`;
          try {
            const sample = await measureQuietly(candidate, concurrency, { url: modelUrl, pid: model.pid }, settings);
            const key = cellKey(candidate, concurrency);
            samples.set(key, [...(samples.get(key) ?? []), sample]);
            console.error(`${cell}: ${describe(sample)}`);
          } catch (error) {
            console.error(`${cell}: FAILED`, error);
            process.exitCode = 1;
          }
        }
      }
    }
  } finally {
    await model.stop();
  }
  return samples;
}

async function measureQuietly(
  candidate: Candidate,
  concurrency: number,
  model: { readonly url: string; readonly pid: number },
  settings: Settings,
): Promise<Sample> {
  await calm();
  const before = machineLoad();
  const modelBefore = cpuMsOf(model.pid);
  const result = await measureCell(candidate, concurrency, model.url, settings);
  const ownMs = result.ownCpuMs + cpuMsOf(model.pid) - modelBefore;
  return { ...result, others: othersShare(before, machineLoad(), ownMs) };
}

function describe({ turnsPerSecond, cpuMsPerTurn, p50Ms, others }: Sample): string {
  return `${round(turnsPerSecond)}/s, ${round(cpuMsPerTurn, 3)} ms CPU, p50 ${round(p50Ms, 2)} ms, others ${round(100 * others)} %`;
}

async function measureCell(
  candidate: Candidate,
  concurrency: number,
  modelUrl: string,
  { seconds, pinned }: Settings,
): Promise<LoadResult> {
  const folder = mkdtempSync(join(tmpdir(), "leafmesh-bench-"));
  const { child, url } = await candidate.start({ modelUrl, folder, cpu: pinned ? SERVER_CPU : undefined });
  try {
    const options: LoadOptions = {
      url,
      body: JSON.stringify({ message: "Is my battery OK?" }),
      expectedReply: FINAL_TEXT,
      concurrency,
      seconds,
      warmUpSeconds: WARM_UP_SECONDS,
      pid: child.pid,
    };
    const load = startChild(process.execPath, [join(import.meta.dirname, "lib/load.ts")], {
      cpu: pinned ? LOAD_CPU : undefined,
      env: { LOAD: JSON.stringify(options) },
    });
    try {
      return loadResultSchema.parse(await load.nextJson());
    } finally {
      await load.stop();
    }
  } finally {
    await child.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

export interface Row {
  readonly candidate: string;
  readonly title: string;
  readonly isFramework: boolean;
  readonly concurrency: number;
  readonly turnsPerSecond: number;
  readonly cpuMsPerTurn: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly rssMb: number;
  readonly spread: number;
  readonly repeats: number;
}

function summarizeAll(settings: Settings, samples: ReadonlyMap<string, readonly Sample[]>): readonly Row[] {
  return settings.concurrencies.flatMap((concurrency) =>
    settings.chosen.flatMap((candidate) => {
      const all = samples.get(cellKey(candidate, concurrency)) ?? [];
      if (all.length === 0) return [];
      const quiet = all.filter(({ others }) => others < NOISE_LIMIT);
      const kept = quiet.length >= FEWEST_QUIET ? quiet : all;
      const middle = (pick: (sample: Sample) => number): number => median(kept.map(pick));
      return {
        candidate: candidate.name,
        title: candidate.title,
        isFramework: candidate.isFramework,
        concurrency,
        turnsPerSecond: middle((sample) => sample.turnsPerSecond),
        cpuMsPerTurn: middle((sample) => sample.cpuMsPerTurn),
        p50Ms: middle((sample) => sample.p50Ms),
        p99Ms: middle((sample) => sample.p99Ms),
        rssMb: middle((sample) => sample.rssMb),
        spread: spread(kept.map((sample) => sample.turnsPerSecond)),
        repeats: kept.length,
      };
    }),
  );
}

function toTable(rows: readonly Row[]): string {
  const baselineOf = (row: Row): Row | undefined =>
    rows.find((other) => other.candidate === BASELINE && other.concurrency === row.concurrency);
  return markdownTable(
    ["candidate", "at a time", "turns/s", "×", "CPU ms/turn", "×", "p50 ms", "p99 ms", "RSS MB", "spread"],
    rows.map((row) => {
      const baseline = baselineOf(row);
      const ratio = (value: number, of: number | undefined): string =>
        of === undefined ? "–" : `${round(value / of, 2)}`;
      return [
        row.title,
        `${row.concurrency}`,
        `${round(row.turnsPerSecond)}`,
        ratio(row.turnsPerSecond, baseline?.turnsPerSecond),
        `${round(row.cpuMsPerTurn, 3)}`,
        ratio(row.cpuMsPerTurn, baseline?.cpuMsPerTurn),
        `${round(row.p50Ms, 2)}`,
        `${round(row.p99Ms, 2)}`,
        `${round(row.rssMb, 0)}`,
        `±${round(100 * row.spread, 0)} %`,
      ];
    }),
  );
}

/** What LeafMesh is held to, as far as the chosen rows can tell. */
function judge(rows: readonly Row[]): readonly string[] {
  const lines: string[] = [];
  const check = (isMet: boolean, text: string): void => {
    lines.push(`${isMet ? "met   " : "MISSED"} ${text}`);
  };
  for (const own of rows.filter(({ candidate }) => candidate === "leafmesh")) {
    const others = rows.filter(({ concurrency }) => concurrency === own.concurrency);
    const bare = others.find(({ candidate }) => candidate === BASELINE);
    const at = `at ${own.concurrency}`;
    if (bare) {
      const cpu = own.cpuMsPerTurn / bare.cpuMsPerTurn;
      check(cpu <= 0.5, `CPU a turn ${at}: ${round(cpu, 2)} × the bare loop (at most 0.5)`);
      const throughput = own.turnsPerSecond / bare.turnsPerSecond;
      check(throughput >= 2, `turns a second ${at}: ${round(throughput, 2)} × the bare loop (at least 2)`);
      if (own.concurrency === 1)
        check(
          own.p50Ms <= bare.p50Ms,
          `p50 ${at}: ${round(own.p50Ms, 2)} ms, the bare loop ${round(bare.p50Ms, 2)} ms`,
        );
    }
    const frameworks = others.filter(({ isFramework }) => isFramework);
    if (frameworks.length === 0) continue;
    const best = Math.max(...frameworks.map(({ turnsPerSecond }) => turnsPerSecond));
    const ratio = own.turnsPerSecond / best;
    check(ratio >= 5, `turns a second ${at}: ${round(ratio, 2)} × the best framework (at least 5)`);
  }
  return lines.length === 0 ? [] : ["", ...lines];
}

function cellKey(candidate: Candidate, concurrency: number): string {
  return `${candidate.name} at ${concurrency}`;
}
