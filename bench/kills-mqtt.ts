/**
 * Kills Mosquitto at a random moment around the sending of a task, starts it again, and counts what the device got. A task
 * may come once or not at all; one that the mesh calls "not handed over" may not come.
 */
import { parseArgs } from "node:util";
import { mqttConnector } from "@leafmesh/device/mqtt";
import { mqttOptions } from "@leafmesh/mqtt";
import { randomId, silentLogger, systemClock } from "@leafmesh/protocol";
import { mqttRoom } from "@leafmesh/rooms";
import type { Closable } from "@leafmesh/rooms/contract";
import { type Mosquitto, mosquittoAvailable, startMosquitto } from "@leafmesh/testkit/mosquitto";
import mqtt from "mqtt";
import { summarize } from "./lib/statistics.ts";
import { markdownTable } from "./lib/table.ts";

const USAGE = `npm run bench -- kills-mqtt [options]
  --rounds N    kills (200)
  --within MS   the kill comes at a random moment of so many milliseconds before or after the task is sent (3)`;

const DEVICE = "phone-7";
const patient = new AbortController().signal;

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: "string", default: "200" },
      within: { type: "string", default: "3" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return console.log(USAGE);
  if (!mosquittoAvailable()) throw new Error("Mosquitto is not installed: apt-get install mosquitto");
  await using broker = await startMosquitto();
  const shared = new Map<string, Closable>();
  const share = <Value extends Closable>(key: string, make: () => Value): Value => {
    const value = (shared.get(key) as Value | undefined) ?? make();
    shared.set(key, value);
    return value;
  };
  const options = mqttOptions.parse({ url: broker.url, room_topic_prefix: "leafmesh" });
  const rooms = mqttRoom.create(options, {
    clock: systemClock,
    logger: silentLogger,
    newId: randomId,
    scope: { share },
  });
  const found: Round[] = [];
  try {
    for (let round = 1; round <= Number(values.rounds); round++) {
      found.push(await killAround(rooms, broker, (2 * Math.random() - 1) * Number(values.within)));
      if (round % 20 === 0) console.error(`${round} kills`);
    }
  } finally {
    for (const each of shared.values()) await each.close();
  }
  report(found);
}

interface Round {
  readonly sent: "handed" | "not_handed";
  readonly deliveries: number;
  /** From the broker's return to the next message that the device gets. */
  readonly backMs: number;
}

async function killAround(
  rooms: ReturnType<typeof mqttRoom.create>,
  broker: Mosquitto,
  afterMs: number,
): Promise<Round> {
  const ask = randomId("ask");
  const opening = {
    askId: ask,
    deviceId: DEVICE,
    approval: "silent",
    joinWithinMs: 60_000,
    lifetimeMs: 120_000,
  } as const;
  const room = await rooms.open(opening, patient);
  const iat = Math.floor(Date.now() / 1000);
  const ring = { v: 1, ask, device: DEVICE, approval: "silent", iat, exp: iat + 60, join: room.join } as const;
  const seat = await mqttConnector({ mqtt }).join(ring, { signal: patient });

  const task = { type: "task", id: ask, action: "count", inputs: {}, budget_ms: 60_000 } as const;
  const dying = afterMs < 0 ? broker.kill() : undefined;
  await moment(-afterMs);
  const sending = room.send(task, patient);
  await moment(afterMs);
  await (dying ?? broker.kill());
  const { status: sent } = await sending;
  await broker.start();
  const backAtMs = performance.now();

  // The cancel comes behind whatever is left of the task; until both sides are back it goes nowhere.
  const ticking = setInterval(() => void room.cancel(ask, "marker"), 50);
  let deliveries = 0;
  for await (const event of seat.events) {
    if (event.type !== "envelope") continue;
    if (event.envelope.type === "cancel") break;
    deliveries += 1;
  }
  clearInterval(ticking);
  const backMs = performance.now() - backAtMs;
  await seat.leave("counted");
  await room.close("counted");
  return { sent, deliveries, backMs };
}

/** Finer than a timer. */
async function moment(ms: number): Promise<void> {
  const end = performance.now() + ms;
  while (performance.now() < end) await new Promise((resolve) => setImmediate(resolve));
}

function report(rounds: readonly Round[]): void {
  const rows = (["handed", "not_handed"] as const).map((sent) => {
    const these = rounds.filter((round) => round.sent === sent);
    const times = (deliveries: number): string => `${these.filter((round) => round.deliveries === deliveries).length}`;
    const more = these.filter((round) => round.deliveries > 1).length;
    return [sent, times(0), times(1), `${more}`];
  });
  console.log(markdownTable(["the mesh says", "came 0 times", "once", "more often"], rows));
  const back = summarize(rounds.map(({ backMs }) => backMs));
  console.log(`\nboth sides back after: p50 ${Math.round(back.p50)} ms, worst ${Math.round(back.max)} ms`);
  const wrong = rounds.filter(({ sent, deliveries }) => deliveries > (sent === "handed" ? 1 : 0)).length;
  console.log(
    `${wrong === 0 ? "met   " : "MISSED"} no task twice, and none that was not handed over: ${wrong} of ${rounds.length}`,
  );
  if (wrong > 0) process.exitCode = 1;
}
