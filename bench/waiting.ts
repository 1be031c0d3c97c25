/**
 * Asks that wait: devices have joined and hold their task. What each costs in memory beside the socket, how long it takes
 * to settle all at once, and how late a deadline strikes when nobody answers. The mesh is the real command, asked over
 * its HTTP API; the devices are bare sockets in processes of their own.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { buildCommand } from "./lib/built-command.ts";
import { type Child, startChild } from "./lib/child.ts";
import { describeMachine } from "./lib/machine.ts";
import { round, summarize } from "./lib/statistics.ts";
import { markdownTable } from "./lib/table.ts";
import { createCaller } from "./waiting/caller.ts";
import { createInspector, type Memory } from "./waiting/memory.ts";
import { ANSWER, type DevicesOptions } from "./waiting/protocol.ts";

const USAGE = `npm run bench -- waiting [options]
  --asks LIST      asks that wait at once (1000,10000)
  --no-build       measure the build that is there`;

const here = join(import.meta.dirname, "waiting");
const DEVICES_PER_PROCESS = 2_500;
/** Asks that a mesh has behind it before its memory is read. */
const WARM_UP = 1_000;
/** After this nothing is left of an ask that has ended: its sockets are closed, its timers have run out. */
const AFTER_WARM_UP_MS = 6_000;
/** After this the last ask to begin waits as all others do: its run is parked. */
const UNTIL_PARKED_MS = 3_000;
/** Long enough for all devices to join and hold their task. */
const ANSWERED_TIMEOUT_S = 900;
const UNANSWERED_BASE_S = 20;
/** Asks that a mesh on a slow core starts in a second, at least. */
const SLOWEST_STARTS_PER_SECOND = 100;
const GOAL_KB = 8;

/** Kilobytes for each of what a process holds. */
interface Each {
  readonly heapKb: number;
  readonly rssKb: number;
  /** With the garbage that getting there left behind. */
  readonly rssWithGarbageKb: number;
}

interface Row {
  readonly asks: number;
  /** An idle `ws` connection, in the same run. */
  readonly socket: Each;
  /** A waiting ask, its socket included. */
  readonly ask: Each;
  readonly startSeconds: number;
  readonly settleSeconds: number;
  readonly latenessP50Ms: number;
  readonly latenessP99Ms: number;
  readonly latenessMaxMs: number;
}

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      asks: { type: "string", default: "1000,10000" },
      "no-build": { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return console.log(USAGE);
  const command = buildCommand({ build: !values["no-build"] });
  const rows: Row[] = [];
  for (const asks of values.asks.split(",").map(Number)) {
    const socket = await measureSockets(asks);
    const answered = await measureAnswered(command, asks);
    const lateness = await measureUnanswered(command, asks);
    rows.push({ asks, socket, ...answered, ...lateness });
  }
  report(rows);
}

/** One idle connection in a server that does nothing else. */
async function measureSockets(count: number): Promise<Each> {
  const script = join(here, "idle-sockets.ts");
  const inspector = await createInspector();
  const server = startChild(process.execPath, [inspector.argument, script], { env: { ROLE: "server" } });
  const clients: Child[] = [];
  try {
    const { port } = await server.nextJson();
    const open = async (some: number): Promise<void> => {
      const client = startChild(process.execPath, [script], {
        env: { ROLE: "client", PORT: String(port), COUNT: String(some) },
      });
      clients.push(client);
      await client.nextJson();
    };
    await open(WARM_UP);
    const before = await inspector.measure(server.pid);
    for (const { count: some } of inGroups(count)) await open(some);
    return difference(before, await inspector.measure(server.pid), count);
  } finally {
    await stopAll([...clients, server]);
  }
}

async function measureAnswered(
  command: string,
  asks: number,
): Promise<Pick<Row, "ask" | "startSeconds" | "settleSeconds">> {
  return withMesh(command, ANSWERED_TIMEOUT_S, async (mesh) => {
    const warmUp = await mesh.holdTasks(0, WARM_UP);
    warmUp.answer();
    await warmUp.closed();
    await warmUp.stop();
    await pause(AFTER_WARM_UP_MS);
    const before = await mesh.memory();
    const startedAt = performance.now();
    const devices = await mesh.holdTasks(WARM_UP, asks);
    const startSeconds = (performance.now() - startedAt) / 1000;
    await pause(UNTIL_PARKED_MS);
    const ask = difference(before, await mesh.memory(), asks);
    const answeredAt = Date.now();
    devices.answer();
    const settleSeconds = ((await devices.closed()) - answeredAt) / 1000;
    const outcomes = await mesh.outcomesOf(devices.sessions);
    const wrong = outcomes.filter(({ outcome }) => outcome !== "done");
    if (wrong.length > 0) throw new Error(`${wrong.length} of ${asks} asks were not answered: ${wrong[0]?.outcome}`);
    await devices.stop();
    return { ask, startSeconds, settleSeconds };
  });
}

async function measureUnanswered(
  command: string,
  asks: number,
): Promise<Pick<Row, "latenessP50Ms" | "latenessP99Ms" | "latenessMaxMs">> {
  const timeoutS = UNANSWERED_BASE_S + Math.ceil(asks / SLOWEST_STARTS_PER_SECOND);
  return withMesh(command, timeoutS, async (mesh) => {
    const devices = await mesh.holdTasks(0, asks);
    await devices.closed();
    const outcomes = await mesh.outcomesOf(devices.sessions);
    const wrong = outcomes.filter(({ reason }) => reason !== "no_answer");
    if (wrong.length > 0) throw new Error(`${wrong.length} of ${asks} asks ended as ${JSON.stringify(wrong[0])}`);
    await devices.stop();
    const late = summarize(outcomes.map(({ waitedMs }) => waitedMs - timeoutS * 1000));
    return { latenessP50Ms: late.p50, latenessP99Ms: late.p99, latenessMaxMs: late.max };
  });
}

interface HeldTasks {
  readonly sessions: readonly string[];
  answer(): void;
  /** When the last room closed, in milliseconds since the epoch. */
  closed(): Promise<number>;
  stop(): Promise<void>;
}

interface MeshUnderTest {
  memory(): Promise<Memory>;
  /** Lets `count` devices be asked, and resolves when each holds its task. */
  holdTasks(first: number, count: number): Promise<HeldTasks>;
  outcomesOf: ReturnType<typeof createCaller>["outcomesOf"];
}

async function withMesh<Result>(
  command: string,
  replyTimeoutS: number,
  measure: (mesh: MeshUnderTest) => Promise<Result>,
): Promise<Result> {
  const folder = mkdtempSync(join(tmpdir(), "leafmesh-bench-"));
  const args = ["run", join(here, "mesh.yaml"), "--port", "0", "--no-watch", "--json", "--grace", "0"];
  const inspector = await createInspector();
  const mesh = startChild(process.execPath, [inspector.argument, command, ...args], {
    env: { BENCH_FOLDER: folder, REPLY_TIMEOUT: String(replyTimeoutS) },
  });
  const caller = createCaller(String((await mesh.nextJson()).url));
  try {
    return await measure({
      memory: () => inspector.measure(mesh.pid),
      outcomesOf: caller.outcomesOf,
      async holdTasks(first, count) {
        const holders = inGroups(count).map((group) => {
          const options: DevicesOptions = { mesh: caller.url, first: first + group.first, count: group.count };
          return startChild(process.execPath, ["--conditions=leafmesh-source", join(here, "devices.ts")], {
            env: { DEVICES: JSON.stringify(options) },
          });
        });
        await expectAll(holders, "ringable");
        const [sessions] = await Promise.all([caller.askAll(first, count), expectAll(holders, "holding")]);
        return {
          sessions,
          answer() {
            for (const { pid } of holders) process.kill(pid, ANSWER);
          },
          closed: async () => Math.max(...(await expectAll(holders, "closed")).map(({ at }) => Number(at))),
          stop: () => stopAll(holders),
        };
      },
    });
  } finally {
    caller.close();
    await mesh.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function expectAll(children: readonly Child[], event: string): Promise<readonly Record<string, unknown>[]> {
  return Promise.all(
    children.map(async (child) => {
      const line = await child.nextJson();
      if (line.event !== event) throw new Error(`expected ${event}, got ${JSON.stringify(line)}`);
      return line;
    }),
  );
}

async function stopAll(children: readonly Child[]): Promise<void> {
  await Promise.all(children.map((child) => child.stop()));
}

function inGroups(count: number): readonly { readonly first: number; readonly count: number }[] {
  const groups = Math.ceil(count / DEVICES_PER_PROCESS);
  return Array.from({ length: groups }, (_, index) => {
    const first = index * DEVICES_PER_PROCESS;
    return { first, count: Math.min(DEVICES_PER_PROCESS, count - first) };
  });
}

function difference(before: Memory, after: Memory, count: number): Each {
  const each = (from: number, to: number): number => ((to - from) * 1024) / count;
  return {
    heapKb: each(before.heapMb, after.heapMb),
    rssKb: each(before.rssMb, after.rssMb),
    rssWithGarbageKb: each(before.rssMb, after.rssBeforeMb),
  };
}

function report(rows: readonly Row[]): void {
  const machine = describeMachine();
  console.log(`\n${machine}\n`);
  console.log(
    markdownTable(
      [
        "asks",
        "ws: heap KB",
        "RSS KB",
        "ask: heap KB",
        "RSS KB",
        "own: heap KB",
        "RSS KB",
        "with garbage",
        "all waiting, s",
        "all settled, s",
        "late p50 ms",
        "p99",
        "worst",
      ],
      rows.map(({ asks, socket, ask, ...row }) => [
        `${asks}`,
        `${round(socket.heapKb)}`,
        `${round(socket.rssKb)}`,
        `${round(ask.heapKb)}`,
        `${round(ask.rssKb)}`,
        `${round(ask.heapKb - socket.heapKb)}`,
        `${round(ask.rssKb - socket.rssKb)}`,
        `${round(ask.rssWithGarbageKb - socket.rssWithGarbageKb)}`,
        `${round(row.startSeconds)}`,
        `${round(row.settleSeconds)}`,
        `${round(row.latenessP50Ms)}`,
        `${round(row.latenessP99Ms)}`,
        `${round(row.latenessMaxMs)}`,
      ]),
    ),
  );
  console.log("");
  for (const { asks, ask, socket } of rows) {
    const own = ask.rssKb - socket.rssKb;
    console.log(`${own <= GOAL_KB ? "met   " : "MISSED"} ${asks} asks: ${round(own)} KB each (at most ${GOAL_KB})`);
  }
  const folder = resolve(import.meta.dirname, "results");
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "waiting.json");
  writeFileSync(file, `${JSON.stringify({ machine, rows }, null, 2)}\n`);
  console.log(`\n${file}`);
}
