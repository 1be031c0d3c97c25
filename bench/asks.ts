/**
 * A whole ask over the LeafMesh room, from the tool call to the outcome, beside bare `ws` over the same hops; and one
 * message there and back over a room that is open. Once with the room in the mesh's process, once in a process of its own.
 *
 * The hops of an ask, bare or not: ring, TCP and HTTP upgrade, hello, task, accepted and reply; with the room elsewhere
 * also its opening over HTTP and the mesh's own connection and hello. Bare hops keep nothing; one row stores the four
 * steps that an ask stores before it goes on. The mesh and the device are a process each. Interleaved within each repeat;
 * only rows of one run may be compared.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { loadMeshKey } from "@leafmesh/core/security";
import { createDirectHub, directNotifier } from "@leafmesh/notifiers";
import { createRingSigner, silentLogger, systemClock } from "@leafmesh/protocol";
import { connectUrlOf, createRoomService } from "@leafmesh/room-service";
import { customRoom, leafmeshRooms } from "@leafmesh/rooms";
import { DEVICE, NO_RATE, PUSH_TOKEN, ROOM_KEY } from "./asks/meeting.ts";
import { leafmeshEcho, leafmeshRelayEcho, rawAsks, rawEcho, rawRelayEcho, rawRemoteAsks } from "./asks/parties.ts";
import { acceptRaw } from "./asks/raw-rooms.ts";
import { createRawStore } from "./asks/raw-store.ts";
import { deviceActionParty, type Party } from "./lib/ask-party.ts";
import { startChild } from "./lib/child.ts";
import { calm, describeMachine } from "./lib/machine.ts";
import { median, round, spread, summarize } from "./lib/statistics.ts";
import { markdownTable } from "./lib/table.ts";

const USAGE = `npm run bench -- asks [options]
  --repeats N   measurements of each row (5)
  --asks N      asks in a measurement, one after another (200)`;

const ROWS = {
  ask: "leafmesh: device_action, built-in room",
  rawAsk: "ws: the same hops",
  storedAsk: "ws and SQLite: the same hops, each step stored first",
  remoteAsk: "leafmesh: device_action, rooms serve",
  rawRemoteAsk: "ws through a relay: the same hops",
  echo: "leafmesh: one message there and back",
  rawEcho: "ws: one message there and back",
  relayEcho: "leafmesh, rooms serve: one message there and back",
  rawRelayEcho: "ws through a relay: one message there and back",
} as const;
type Row = keyof typeof ROWS;

/** What a row may cost at the median, as a multiple of the other. */
const GOALS: readonly { readonly row: Row; readonly beside: Row; readonly atMost: number; readonly what: string }[] = [
  { row: "ask", beside: "rawAsk", atMost: 2, what: "a whole ask" },
  { row: "remoteAsk", beside: "rawRemoteAsk", atMost: 2, what: "a whole ask, rooms elsewhere" },
  { row: "echo", beside: "rawEcho", atMost: 2, what: "one message there and back" },
  { row: "relayEcho", beside: "rawRelayEcho", atMost: 2, what: "one message there and back, rooms elsewhere" },
];

const WARM_UP = 50;
/** Between two asks, so that none waits for what the one before it left to be cleared away. */
const PAUSE_MS = 5;
/** Over an open room nothing is left to clear away, and a pause would measure how long processes take to wake. */
const OPEN_ROOM: ReadonlySet<Row> = new Set(["echo", "rawEcho", "relayEcho", "rawRelayEcho"]);

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
  const signer = await createRingSigner(await loadMeshKey({ folder }));
  const hub = createDirectHub({ clock: systemClock, logger: silentLogger });
  const server = createServer();
  const raw = acceptRaw(server);
  let url = "";
  const bounds = { opensPerSecond: 100_000, connectsPerSecond: 100_000 };
  const service = createRoomService({ connectUrl: () => connectUrlOf(url), limits: NO_RATE, bounds });
  server.on("upgrade", (request, socket, head) => {
    if (request.url?.startsWith("/raw/")) return;
    if (!service.handleUpgrade(request, socket, head)) hub.handleUpgrade(request, socket, head);
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  const relay = startNode("asks/relay.ts", {});
  const device = startNode("asks/device.ts", { MESH: url, MESH_KEY: JSON.stringify(signer.key) });
  const parties: Party[] = [];
  const opened = async (party: Party | Promise<Party>): Promise<Party> => {
    parties.push(await party);
    return await party;
  };
  try {
    const addresses = await relay.nextJson();
    const [roomsUrl, relayUrl] = [String(addresses.rooms), String(addresses.relay)];
    await device.nextJson();
    const asking = {
      notifiers: [directNotifier(() => hub)],
      rooms: [leafmeshRooms(() => service), customRoom],
      deviceId: DEVICE,
      pushToken: PUSH_TOKEN,
      folder,
      signer,
    };
    const elsewhere = `{ provider: room, url: "${roomsUrl}", api_key: ${ROOM_KEY} }`;
    const rows: Record<Row, Party> = {
      ask: await opened(
        deviceActionParty({
          ...asking,
          connections: "{ phones: { provider: direct } }",
          device: "{ connection: phones, approval: silent }",
        }),
      ),
      rawAsk: await opened(rawAsks(url, raw, "room")),
      storedAsk: await opened(rawAsks(url, raw, "stored", createRawStore(folder))),
      remoteAsk: await opened(
        deviceActionParty({
          ...asking,
          connections: `{ phones: { provider: direct }, rooms: ${elsewhere} }`,
          device: "{ connection: phones, room: rooms, approval: silent }",
        }),
      ),
      rawRemoteAsk: await opened(rawRemoteAsks(relayUrl, raw)),
      echo: await opened(leafmeshEcho(service, raw)),
      rawEcho: await opened(rawEcho(url, raw)),
      relayEcho: await opened(leafmeshRelayEcho(roomsUrl, raw)),
      rawRelayEcho: await opened(rawRelayEcho(relayUrl, raw)),
    };
    const samples: Samples = {
      ask: [],
      rawAsk: [],
      storedAsk: [],
      remoteAsk: [],
      rawRemoteAsk: [],
      echo: [],
      rawEcho: [],
      relayEcho: [],
      rawRelayEcho: [],
    };
    for (const party of parties) await timed(party, WARM_UP);
    for (let repeat = 1; repeat <= repeats; repeat++) {
      for (const row of Object.keys(ROWS) as Row[]) {
        await calm();
        const times = await timed(rows[row], asks, OPEN_ROOM.has(row) ? undefined : PAUSE_MS);
        samples[row].push(times);
        console.error(`repeat ${repeat}, ${ROWS[row]}: p50 ${round(summarize(times).p50, 3)} ms`);
      }
    }
    return samples;
  } finally {
    for (const party of parties) await party.close();
    await Promise.all([device.stop(), relay.stop(), hub.close(), service.close()]);
    server.closeAllConnections();
    server.close();
  }
}

function startNode(file: string, env: Readonly<Record<string, string>>) {
  return startChild(process.execPath, ["--conditions=leafmesh-source", join(import.meta.dirname, file)], { env });
}

async function timed(party: Party, asks: number, pauseMs?: number): Promise<number[]> {
  const times: number[] = [];
  for (let asked = 0; asked < asks; asked++) {
    if (pauseMs !== undefined) await pause(pauseMs);
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
      ["one after another, one device; hops: ring, TCP, upgrade, hello, task, reply", "p50 ms", "p99 ms", "spread"],
      rows.map(({ row, p50, p99, spread: wide }) => [
        ROWS[row],
        `${round(p50, 3)}`,
        `${round(p99, 3)}`,
        `±${round(100 * wide)} %`,
      ]),
    ),
  );
  console.log();
  const p50Of = (row: Row): number => rows.find((each) => each.row === row)?.p50 ?? Number.NaN;
  for (const { row, beside, atMost, what } of GOALS) {
    const ratio = p50Of(row) / p50Of(beside);
    const verdict = ratio <= atMost ? "met   " : "MISSED";
    console.log(`${verdict} ${what}: ${round(ratio, 2)} × ${ROWS[beside]} (at most ${atMost})`);
    if (!(ratio <= atMost)) process.exitCode = 1;
  }
  const folder = resolve(import.meta.dirname, "results");
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "asks.json");
  writeFileSync(file, `${JSON.stringify({ machine, rows, samples }, null, 2)}\n`);
  console.log(`\n${file}`);
}
