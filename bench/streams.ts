/**
 * Many idle event streams of one conversation on one mesh process: the memory that each holds, and how soon one event is
 * with all of them, beside a bare `node:http` server that does the same. The mesh is the real command.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { startOpenAIServer } from "@leafmesh/testkit";
import { buildCommand } from "./lib/built-command.ts";
import { startChild } from "./lib/child.ts";
import { describeMachine } from "./lib/machine.ts";
import { round, summarize } from "./lib/statistics.ts";
import { markdownTable } from "./lib/table.ts";
import { createInspector } from "./waiting/memory.ts";

const USAGE = `npm run bench -- streams [options]
  --streams N      idle streams on one process (5000)
  --events N       events that are timed (15)
  --no-build       measure the build that is there`;

const here = join(import.meta.dirname, "streams");
/** Streams that a process has held and lost before its memory is read. */
const WARM_UP = 500;
/** After this nothing of a message, or of a stream that was closed, is under way any more. */
const SETTLED_AFTER_MS = 1_000;

interface Row {
  readonly server: string;
  readonly streams: number;
  readonly heapKb: number;
  readonly rssKb: number;
  readonly p50Ms: number;
  readonly worstMs: number;
}

interface Server {
  readonly name: string;
  readonly args: readonly string[];
  /** Readies it; answers the stream's address and how one event comes about. */
  prepare(url: string): Promise<{ readonly stream: string; event(): Promise<unknown> }>;
}

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      streams: { type: "string", default: "5000" },
      events: { type: "string", default: "15" },
      "no-build": { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return console.log(USAGE);
  const command = buildCommand({ build: !values["no-build"] });
  const model = await startOpenAIServer({ handler: () => ({ content: "Hello." }) });
  const folder = mkdtempSync(join(tmpdir(), "leafmesh-bench-"));
  const file = join(folder, "mesh.yaml");
  writeFileSync(
    file,
    `name: streams
models:
  test: { base_url: "${model.baseUrl}", api_key: none }
limits: { max_streams: 100000, max_queued_runs_per_session: 1000 }
agents:
  helper: { model: test/any, prompt: Say hello. }
`,
  );
  const bare: Server = {
    name: "node:http",
    args: [join(here, "bare-server.ts")],
    prepare: async (url) => ({ stream: url, event: () => send(url) }),
  };
  const mesh: Server = {
    name: "LeafMesh",
    args: [command, "run", file, "--port", "0", "--no-watch", "--json", "--grace", "0", "--log-level", "error"],
    async prepare(url) {
      const opened: { session_id: string } = await (await send(`${url}/api/sessions`, {})).json();
      const path = `${url}/api/sessions/${opened.session_id}`;
      return { stream: `${path}/stream`, event: () => send(`${path}/query`, { query: "hello" }) };
    },
  };
  try {
    const rows: Row[] = [];
    for (const server of [bare, mesh]) rows.push(await measure(server, Number(values.streams), Number(values.events)));
    report(rows);
  } finally {
    await model.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function measure(server: Server, streams: number, events: number): Promise<Row> {
  const inspector = await createInspector();
  const child = startChild(process.execPath, [inspector.argument, ...server.args]);
  const hold = async (url: string, count: number) => {
    const client = startChild(process.execPath, [join(here, "client.ts")], { env: { URL: url, COUNT: `${count}` } });
    await client.nextJson();
    return client;
  };
  try {
    const { stream, event } = await server.prepare(String((await child.nextJson()).url));
    await (await hold(stream, WARM_UP)).stop();
    await pause(SETTLED_AFTER_MS);
    const before = await inspector.measure(child.pid);
    const client = await hold(stream, streams);
    const after = await inspector.measure(child.pid);
    const tookMs: number[] = [];
    while (tookMs.length < events) {
      const sentAt = Date.now();
      await event();
      tookMs.push(Number((await client.nextJson()).at) - sentAt);
      await pause(SETTLED_AFTER_MS);
    }
    await client.stop();
    const { p50, max } = summarize(tookMs);
    const each = (from: number, to: number): number => ((to - from) * 1024) / streams;
    return {
      server: server.name,
      streams,
      heapKb: each(before.heapMb, after.heapMb),
      rssKb: each(before.rssMb, after.rssMb),
      p50Ms: p50,
      worstMs: max,
    };
  } finally {
    await child.stop();
  }
}

function send(url: string, body?: object): Promise<Response> {
  return fetch(url, {
    method: "POST",
    ...(body ? { headers: { "content-type": "application/json" }, body: JSON.stringify(body) } : {}),
  });
}

function report(rows: readonly Row[]): void {
  const machine = describeMachine();
  console.log(`\n${machine}\n`);
  console.log(
    markdownTable(
      ["server", "idle streams", "heap KB each", "RSS KB each", "one event to all p50 ms", "worst ms"],
      rows.map(({ server, streams, heapKb, rssKb, p50Ms, worstMs }) => [
        server,
        ...[streams, round(heapKb), round(rssKb), round(p50Ms), round(worstMs)].map(String),
      ]),
    ),
  );
  const folder = resolve(import.meta.dirname, "results");
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "streams.json");
  writeFileSync(file, `${JSON.stringify({ machine, rows }, null, 2)}\n`);
  console.log(`\n${file}`);
}
