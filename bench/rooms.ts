/**
 * A whole ask through the rooms of each hosted provider, from the tool call to the outcome, beside the vendor's own
 * client over the same hops, and beside one message there and back between clients that stay connected. Mesh, service
 * and device: the service is a double or the vendor's own server, the device a process of its own. Interleaved within
 * each repeat; only rows of one run and one service may be compared.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { loadMeshKey } from "@leafmesh/core/security";
import { createRingSigner } from "@leafmesh/protocol";
import { type WebSocket, WebSocketServer } from "ws";
import type { Party } from "./lib/ask-party.ts";
import { startChild } from "./lib/child.ts";
import { calm, describeMachine } from "./lib/machine.ts";
import { median, round, spread, summarize } from "./lib/statistics.ts";
import { markdownTable } from "./lib/table.ts";
import { leafmeshAsks, type RingBell, rawAsks, rawEcho } from "./rooms/parties.ts";
import { services } from "./rooms/services.ts";

const USAGE = `npm run bench -- rooms [options]
  --repeats N   measurements of each row (5)
  --asks N      asks in a measurement, one after another (50)
  --only LIST   services (${Object.keys(services).join(",")})
LiveKit's server is taken from LEAFMESH_LIVEKIT_SERVER or the PATH, and left out where it is not.`;

const WARM_UP = 10;
/** Between two asks, so that none waits for what the one before it left to be cleared away. */
const PAUSE_MS = 5;

const ROWS = {
  ask: "leafmesh: device_action",
  rawAsk: "the vendor's client: the same hops",
  echo: "the vendor's client: one message there and back",
} as const;
type Row = keyof typeof ROWS;

interface Measured {
  readonly service: string;
  readonly row: Row;
  readonly p50: number;
  readonly p99: number;
  readonly spread: number;
}

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      repeats: { type: "string", default: "5" },
      asks: { type: "string", default: "50" },
      only: { type: "string", default: "" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return console.log(USAGE);
  const only = values.only.split(",").filter((name) => name !== "");
  const folder = mkdtempSync(join(tmpdir(), "leafmesh-bench-"));
  const measured: Measured[] = [];
  try {
    for (const [name, { available, open }] of Object.entries(services)) {
      if (only.length > 0 && !only.includes(name)) continue;
      if (!available()) {
        console.log(`Left out: ${name}; its server is not on this machine.`);
        continue;
      }
      await using service = disposable(await open());
      measured.push(...(await measure(service, folder, Number(values.repeats), Number(values.asks))));
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  report(measured);
}

function disposable<Closable extends { close(): Promise<void> }>(closable: Closable): Closable & AsyncDisposable {
  return Object.assign(closable, { [Symbol.asyncDispose]: () => closable.close() });
}

type Service = Awaited<ReturnType<(typeof services)[string]["open"]>>;

async function measure(
  { title, room, record, place, callbacks, publicUrl, pauseMs = PAUSE_MS }: Service,
  folder: string,
  repeats: number,
  asks: number,
): Promise<readonly Measured[]> {
  const signer = await createRingSigner(await loadMeshKey({ folder }));
  const { bell, stop } = await startDevice(JSON.stringify(signer.key));
  const parties: Party[] = [];
  const opened = async (party: Promise<Party>): Promise<Party> => {
    parties.push(await party);
    return await party;
  };
  try {
    const rows: Record<Row, Party> = {
      ask: await opened(leafmeshAsks({ room, record, callbacks, publicUrl, bell, folder, signer })),
      rawAsk: await opened(rawAsks(place, bell)),
      echo: await opened(rawEcho(place, bell)),
    };
    const samples: Record<Row, number[][]> = { ask: [], rawAsk: [], echo: [] };
    for (const party of parties) await timed(party, WARM_UP, pauseMs);
    for (let repeat = 1; repeat <= repeats; repeat++) {
      for (const row of Object.keys(ROWS) as Row[]) {
        await calm();
        const times = await timed(rows[row], asks, pauseMs);
        samples[row].push(times);
        console.error(`${title}, repeat ${repeat}, ${ROWS[row]}: p50 ${round(summarize(times).p50, 2)} ms`);
      }
    }
    return (Object.keys(ROWS) as Row[]).map((row) => {
      const medians = samples[row].map((times) => summarize(times).p50);
      const { p99 } = summarize(samples[row].flat());
      return { service: title, row, p50: median(medians), p99, spread: spread(medians) };
    });
  } finally {
    for (const party of parties) await party.close();
    await stop();
  }
}

/** The device's process, and the one socket that tells it things. */
async function startDevice(meshKey: string): Promise<{ bell: RingBell; stop(): Promise<void> }> {
  const server = new WebSocketServer({ host: "127.0.0.1", port: 0 });
  const arrival = new Promise<WebSocket>((resolve) => server.once("connection", resolve));
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  const program = join(import.meta.dirname, "rooms/device.ts");
  const device = startChild(process.execPath, ["--conditions=leafmesh-source", program], {
    env: { RINGS: `ws://127.0.0.1:${port}`, MESH_KEY: meshKey },
  });
  const socket = await arrival;
  return {
    bell: (rung) => socket.send(JSON.stringify(rung)),
    async stop() {
      await device.stop();
      server.close();
    },
  };
}

async function timed(party: Party, asks: number, pauseMs: number): Promise<number[]> {
  const times: number[] = [];
  for (let asked = 0; asked < asks; asked++) {
    await pause(pauseMs);
    const start = performance.now();
    await party.ask();
    times.push(performance.now() - start);
  }
  return times;
}

function report(measured: readonly Measured[]): void {
  const machine = describeMachine();
  console.log(`\n${machine}\n`);
  console.log(
    markdownTable(
      ["service", "one after another, one device", "p50 ms", "p99 ms", "spread", "× its client"],
      measured.map(({ service, row, p50, p99, spread: wide }) => {
        const beside = measured.find((other) => other.service === service && other.row === "rawAsk");
        return [
          service,
          ROWS[row],
          `${round(p50, 2)}`,
          `${round(p99, 2)}`,
          `±${round(100 * wide)} %`,
          `${round(p50 / (beside?.p50 ?? Number.NaN), 2)}`,
        ];
      }),
    ),
  );
  const folder = resolve(import.meta.dirname, "results");
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "rooms.json");
  writeFileSync(file, `${JSON.stringify({ machine, measured }, null, 2)}\n`);
  console.log(`\n${file}`);
}
