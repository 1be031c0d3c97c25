/**
 * A whole ask over Mosquitto, from the tool call to the outcome, beside bare MQTT.js over the same hops at QoS 1 with
 * TCP_NODELAY; and one message there and back, which shows whether Nagle's algorithm is off. The mesh, the broker and the
 * device are a process each. Interleaved within each repeat; only rows of one run may be compared.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { loadMeshKey } from "@leafmesh/core/security";
import { createRingSigner } from "@leafmesh/protocol";
import { mosquittoAvailable, startMosquitto } from "@leafmesh/testkit/mosquitto";
import { leafmeshAsks, leafmeshEcho, leafmeshRooms, rawAsks, rawEcho } from "./asks-mqtt/parties.ts";
import type { Party } from "./lib/ask-party.ts";
import { startChild } from "./lib/child.ts";
import { calm, describeMachine } from "./lib/machine.ts";
import { median, round, spread, summarize } from "./lib/statistics.ts";
import { markdownTable } from "./lib/table.ts";

const USAGE = `npm run bench -- asks-mqtt [options]
  --repeats N   measurements of each row (5)
  --asks N      asks in a measurement, one after another (200)`;

const ROWS = {
  ask: "leafmesh: device_action over Mosquitto",
  rooms: "leafmesh: notifier, room and device kit alone",
  rawAsk: "MQTT.js, TCP_NODELAY: the same hops",
  echo: "leafmesh: one message there and back",
  rawEcho: "MQTT.js, TCP_NODELAY: one message there and back",
  naggedEcho: "MQTT.js as it comes: one message there and back",
} as const;
type Row = keyof typeof ROWS;

interface Goal {
  readonly row: Row;
  readonly beside: Row;
  /** What the row may cost at the median, as a multiple of the other. */
  readonly atMost: number;
  readonly what: string;
  /** Far from its limit unless something is broken: missing it fails the run. */
  readonly isGuard?: boolean;
}

const GOALS: readonly Goal[] = [
  { row: "ask", beside: "rawAsk", atMost: 2, what: "a whole ask" },
  { row: "rooms", beside: "rawAsk", atMost: 2, what: "an ask without its machine and store" },
  { row: "echo", beside: "rawEcho", atMost: 2, what: "one message there and back" },
  { row: "echo", beside: "naggedEcho", atMost: 0.25, what: "Nagle's algorithm is off", isGuard: true },
];

const WARM_UP = 50;
/** Between two asks, so that none waits for what the one before it left to be cleared away. */
const PAUSE_MS = 5;

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      repeats: { type: "string", default: "5" },
      asks: { type: "string", default: "200" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return console.log(USAGE);
  if (!mosquittoAvailable()) throw new Error("Mosquitto is not installed: apt-get install mosquitto");
  const folder = mkdtempSync(join(tmpdir(), "leafmesh-bench-"));
  try {
    report(await measure(folder, Number(values.repeats), Number(values.asks)));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Milliseconds of every single ask, by repeat. */
type Samples = Readonly<Record<Row, number[][]>>;

async function measure(folder: string, repeats: number, asks: number): Promise<Samples> {
  await using broker = await startMosquitto();
  const signer = await createRingSigner(await loadMeshKey({ folder }));
  const device = startChild(
    process.execPath,
    ["--conditions=leafmesh-source", join(import.meta.dirname, "asks-mqtt/device.ts")],
    { env: { BROKER: broker.url, MESH_KEY: JSON.stringify(signer.key) } },
  );
  const parties: Party[] = [];
  const opened = async (party: Promise<Party>): Promise<Party> => {
    parties.push(await party);
    return await party;
  };
  try {
    await device.nextJson();
    const rows: Record<Row, Party> = {
      ask: await opened(leafmeshAsks(broker.url, folder, signer)),
      rooms: await opened(leafmeshRooms(broker.url, signer)),
      rawAsk: await opened(rawAsks(broker.url)),
      echo: await opened(leafmeshEcho(broker.url)),
      rawEcho: await opened(rawEcho(broker.url, true)),
      naggedEcho: await opened(rawEcho(broker.url, false)),
    };
    const samples: Samples = { ask: [], rooms: [], rawAsk: [], echo: [], rawEcho: [], naggedEcho: [] };
    for (const party of parties) await timed(party, WARM_UP);
    for (let repeat = 1; repeat <= repeats; repeat++) {
      for (const row of Object.keys(ROWS) as Row[]) {
        await calm();
        const times = await timed(rows[row], asks);
        samples[row].push(times);
        console.error(`repeat ${repeat}, ${ROWS[row]}: p50 ${round(summarize(times).p50, 2)} ms`);
      }
    }
    return samples;
  } finally {
    for (const party of parties) await party.close();
    await device.stop();
  }
}

async function timed(party: Party, asks: number): Promise<number[]> {
  const times: number[] = [];
  for (let asked = 0; asked < asks; asked++) {
    await pause(PAUSE_MS);
    const start = performance.now();
    await party.ask();
    times.push(performance.now() - start);
  }
  return times;
}

function report(samples: Samples): void {
  const rows = (Object.keys(ROWS) as Row[]).map((row) => {
    const medians = samples[row].map((times) => summarize(times).p50);
    return { row, p50: median(medians), p99: summarize(samples[row].flat()).p99, spread: spread(medians) };
  });
  const machine = describeMachine();
  console.log(`\n${machine}\n`);
  console.log(
    markdownTable(
      ["one after another, one device", "p50 ms", "p99 ms", "spread"],
      rows.map(({ row, p50, p99, spread: wide }) => [
        ROWS[row],
        `${round(p50, 2)}`,
        `${round(p99, 2)}`,
        `±${round(100 * wide)} %`,
      ]),
    ),
  );
  console.log();
  const p50Of = (row: Row): number => rows.find((each) => each.row === row)?.p50 ?? Number.NaN;
  for (const { row, beside, atMost, what, isGuard } of GOALS) {
    const ratio = p50Of(row) / p50Of(beside);
    const verdict = ratio <= atMost ? "met   " : "MISSED";
    console.log(`${verdict} ${what}: ${round(ratio, 2)} × ${ROWS[beside]} (at most ${atMost})`);
    if (isGuard && !(ratio <= atMost)) process.exitCode = 1;
  }
  const folder = resolve(import.meta.dirname, "results");
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "asks-mqtt.json");
  writeFileSync(file, `${JSON.stringify({ machine, rows, samples }, null, 2)}\n`);
  console.log(`\n${file}`);
}
