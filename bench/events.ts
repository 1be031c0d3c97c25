/**
 * What storing one event costs on both backends, beside the bare library under each with the same durability; and how long
 * one event takes to reach many listeners to its session.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import type { Backend } from "@leafmesh/core";
import { type PostgresServer, postgresAvailable, startPostgres } from "@leafmesh/testkit/postgres";
import {
  appendTo,
  barePostgres,
  bareSqlite,
  type EventStore,
  embeddedBackend,
  meshStore,
  newFolder,
  openBackend,
  postgresBackend,
  sessionName,
} from "./events/stores.ts";
import { describeMachine } from "./lib/machine.ts";
import { round, summarize } from "./lib/statistics.ts";
import { markdownTable } from "./lib/table.ts";

const USAGE = `npm run bench -- events [options]
  --seconds S      how long each store is written to (3)
  --writers LIST   writers at once, each with a session of its own (1,32)
  --streams LIST   listeners to one session (1,100,1000)`;

const FAN_OUT_EVENTS = 200;
const WARM_UP_MS = 500;

interface AppendRow {
  readonly store: string;
  readonly writers: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

interface FanOutRow {
  readonly store: string;
  readonly streams: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seconds: { type: "string", default: "3" },
      writers: { type: "string", default: "1,32" },
      streams: { type: "string", default: "1,100,1000" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return console.log(USAGE);
  if (!postgresAvailable()) throw new Error("PostgreSQL is not installed: apt-get install postgresql");
  await using server = await startPostgres({ durable: true });
  const appends: AppendRow[] = [];
  for (const writers of values.writers.split(",").map(Number)) {
    for (const open of stores(server, writers)) {
      const folder = newFolder();
      const store = await open(folder.path);
      try {
        appends.push(await measureAppends(store, writers, Number(values.seconds)));
      } finally {
        await store.close();
        folder.remove();
      }
    }
  }
  const fanOuts: FanOutRow[] = [];
  for (const streams of values.streams.split(",").map(Number)) fanOuts.push(...(await measureFanOut(server, streams)));
  report(appends, fanOuts);
}

/** Each LeafMesh store beside what it stands on. */
function stores(server: PostgresServer, writers: number): readonly ((folder: string) => Promise<EventStore>)[] {
  return [
    async (folder) => bareSqlite(folder, false),
    (folder) => meshStore("LeafMesh embedded", embeddedBackend(folder, false), writers),
    async (folder) => bareSqlite(folder, true),
    (folder) => meshStore("LeafMesh embedded, durable", embeddedBackend(folder, true), writers),
    () => barePostgres(server, 16),
    async () => {
      const url = await server.createDatabase(`mesh_${writers}`);
      return meshStore("LeafMesh PostgreSQL", postgresBackend(url), writers);
    },
  ];
}

async function measureAppends(store: EventStore, writers: number, seconds: number): Promise<AppendRow> {
  const samples: number[] = [];
  const write = async (index: number, endAt: number, keep: boolean): Promise<void> => {
    const session = sessionName(index);
    while (performance.now() < endAt) {
      const before = performance.now();
      await store.append(session);
      if (keep) samples.push(performance.now() - before);
    }
  };
  const all = (endAt: number, keep: boolean) =>
    Promise.all(Array.from({ length: writers }, (_, index) => write(index, endAt, keep)));
  await all(performance.now() + WARM_UP_MS, false);
  const before = performance.now();
  await all(before + seconds * 1000, true);
  const perSecond = (samples.length / (performance.now() - before)) * 1000;
  const { p50, p99 } = summarize(samples);
  return { store: store.name, writers, perSecond, p50Ms: p50, p99Ms: p99 };
}

/** From the commit's beginning until the last listener has the event; on PostgreSQL the listeners are another process's. */
async function measureFanOut(server: PostgresServer, streams: number): Promise<readonly FanOutRow[]> {
  const folder = newFolder();
  const embedded = await openBackend(embeddedBackend(folder.path, false), 1);
  const name = `fan_out_${streams}`;
  const url = await server.createDatabase(name);
  const writer = await openBackend(postgresBackend(url), 1);
  const other = postgresBackend(url);
  await other.migrate();
  try {
    return [
      { store: "LeafMesh embedded", streams, ...(await fanOut(embedded, embedded, streams)) },
      { store: "LeafMesh PostgreSQL, another process", streams, ...(await fanOut(writer, other, streams)) },
    ];
  } finally {
    await Promise.all([embedded, writer, other].map((backend) => backend.close()));
    folder.remove();
  }
}

async function fanOut(writer: Backend, reader: Backend, streams: number): Promise<{ p50Ms: number; p99Ms: number }> {
  let missing = 0;
  let reached = (): void => {};
  const stops = Array.from({ length: streams }, () =>
    reader.subscribe(sessionName(0), {
      onEvents(events) {
        missing -= events.length;
        if (missing === 0) reached();
      },
      onTransient() {},
    }),
  );
  // Places the listeners: what is stored from now on reaches them.
  await reader.events(sessionName(0));
  const samples: number[] = [];
  for (let count = 0; count < FAN_OUT_EVENTS; count++) {
    missing = streams;
    const all = new Promise<void>((done) => {
      reached = done;
    });
    const before = performance.now();
    await Promise.all([appendTo(writer, sessionName(0)), all]);
    samples.push(performance.now() - before);
  }
  for (const stop of stops) stop();
  const { p50, p99 } = summarize(samples.slice(FAN_OUT_EVENTS / 10));
  return { p50Ms: p50, p99Ms: p99 };
}

function report(appends: readonly AppendRow[], fanOuts: readonly FanOutRow[]): void {
  const machine = describeMachine();
  console.log(`\n${machine}\n`);
  console.log(
    markdownTable(
      ["store", "writers", "events/s", "p50 ms", "p99 ms"],
      appends.map(({ store, writers, perSecond, p50Ms, p99Ms }) => [
        store,
        ...[writers, Math.round(perSecond), round(p50Ms, 3), round(p99Ms, 3)].map(String),
      ]),
    ),
  );
  console.log("\nOne event of a session to all who listen to it, the commit included:\n");
  console.log(
    markdownTable(
      ["store", "streams", "p50 ms", "p99 ms"],
      fanOuts.map(({ store, streams, p50Ms, p99Ms }) => [
        store,
        ...[streams, round(p50Ms, 2), round(p99Ms, 2)].map(String),
      ]),
    ),
  );
  const folder = resolve(import.meta.dirname, "results");
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "events.json");
  writeFileSync(file, `${JSON.stringify({ machine, appends, fanOuts }, null, 2)}\n`);
  console.log(`\n${file}`);
}
