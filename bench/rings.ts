/**
 * Rings through the doubles of push services, beside the vendor's own client in the same run: how many a second, how long
 * each takes, and what it costs the process that rings. Double and sender are a process each, with a CPU of its own where
 * there are two; both are started anew for every measurement. The double verifies everything, and bounds the rings a second
 * of whoever rings it: what a ring costs says more of the sender.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { startChild } from "./lib/child.ts";
import { installPeers } from "./lib/install-peers.ts";
import { calm, canPin, describeMachine } from "./lib/machine.ts";
import { median, round, spread } from "./lib/statistics.ts";
import { markdownTable } from "./lib/table.ts";
import { type SenderOptions, type SenderResult, senderResultSchema } from "./rings/sender-options.ts";
import { type VendorName, vendors } from "./rings/vendors.ts";

const USAGE = `npm run bench -- rings [options]
  --only LIST      vendors (${Object.keys(vendors).join(",")})
  --at-once LIST   rings under way at once (1,32)
  --repeats N      measurements of each row (5)
  --seconds S      length of a measurement (2)`;

const PARTIES = ["leafmesh", "peer"] as const;
const WARM_UP_SECONDS = 1;
const [DOUBLE_CPU, SENDER_CPU] = canPin() ? [0, 1] : [];

const GOALS = [
  { what: "rings a second", of: "perSecond", isMet: (ratio: number) => ratio >= 1, limit: "at least 1" },
  { what: "p99", of: "p99Ms", isMet: (ratio: number) => ratio <= 1, limit: "at most 1" },
  { what: "CPU a ring", of: "cpuMsPerRing", isMet: (ratio: number) => ratio <= 1, limit: "at most 1" },
] as const;

interface Row {
  readonly vendor: VendorName;
  readonly atOnce: number;
  readonly results: Readonly<Record<(typeof PARTIES)[number], SenderResult[]>>;
}

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      only: { type: "string", default: Object.keys(vendors).join(",") },
      "at-once": { type: "string", default: "1,32" },
      repeats: { type: "string", default: "5" },
      seconds: { type: "string", default: "2" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return console.log(USAGE);
  const names = values.only.split(",").filter((name): name is VendorName => Object.hasOwn(vendors, name));
  if (names.length === 0) throw new Error(`--only ${values.only}: ${USAGE}`);
  if (names.includes("fcm")) installPeers();
  const rows: Row[] = names.flatMap((vendor) =>
    values["at-once"]
      .split(",")
      .map((atOnce) => ({ vendor, atOnce: Number(atOnce), results: { leafmesh: [], peer: [] } })),
  );
  for (let repeat = 1; repeat <= Number(values.repeats); repeat++) {
    for (const { vendor, atOnce, results } of rows) {
      // Whoever comes first may find a calmer machine.
      for (const party of repeat % 2 === 1 ? PARTIES : PARTIES.toReversed()) {
        await calm();
        const result = await measure({ vendor, party, atOnce, seconds: Number(values.seconds) });
        results[party].push(result);
        console.error(
          `repeat ${repeat}, ${vendor} × ${atOnce}, ${nameOf(vendor, party)}: ${Math.round(result.perSecond)}/s`,
        );
      }
    }
  }
  report(rows);
}

async function measure(
  options: Pick<SenderOptions, "party" | "atOnce" | "seconds"> & { readonly vendor: VendorName },
): Promise<SenderResult> {
  const start = (file: string, cpu: number | undefined, env: Readonly<Record<string, string>>) =>
    startChild(process.execPath, ["--conditions=leafmesh-source", join(import.meta.dirname, "rings", file)], {
      cpu,
      env,
    });
  const double = start("double.ts", DOUBLE_CPU, { VENDOR: options.vendor });
  try {
    const full = { ...options, ...(await double.nextJson()), warmUpSeconds: WARM_UP_SECONDS };
    const sender = start("sender.ts", SENDER_CPU, { SENDER: JSON.stringify(full) });
    try {
      return senderResultSchema.parse(await sender.nextJson());
    } finally {
      await sender.stop();
    }
  } finally {
    await double.stop();
  }
}

function nameOf(vendor: VendorName, party: (typeof PARTIES)[number]): string {
  return party === "leafmesh" ? `leafmesh: ${vendor}` : vendors[vendor].peerName;
}

function report(rows: readonly Row[]): void {
  const machine = describeMachine();
  const middle = (results: readonly SenderResult[], of: keyof SenderResult) => median(results.map((each) => each[of]));
  const table = rows.flatMap(({ vendor, atOnce, results }) =>
    PARTIES.map((party) => {
      const each = results[party];
      return [
        nameOf(vendor, party),
        `${atOnce}`,
        `${Math.round(middle(each, "perSecond"))}`,
        `±${round(100 * spread(each.map(({ perSecond }) => perSecond)))} %`,
        `${round(middle(each, "p50Ms"), 2)}`,
        `${round(middle(each, "p99Ms"), 2)}`,
        `${round(middle(each, "cpuMsPerRing"), 3)}`,
      ];
    }),
  );
  console.log(`\n${machine}\n`);
  console.log(markdownTable(["sender", "at once", "rings/s", "spread", "p50 ms", "p99 ms", "CPU ms/ring"], table));
  console.log();
  for (const { vendor, atOnce, results } of rows) {
    for (const { what, of, isMet, limit } of GOALS) {
      // Of neighbours in time, since a machine that others use changes from one minute to the next.
      const ratio = median(results.leafmesh.map((each, at) => each[of] / (results.peer[at]?.[of] ?? Number.NaN)));
      const verdict = isMet(ratio) ? "met   " : "MISSED";
      console.log(
        `${verdict} ${vendor}, ${atOnce} at once, ${what}: ${round(ratio, 2)} × ${vendors[vendor].peerName} (${limit})`,
      );
    }
  }
  const folder = resolve(import.meta.dirname, "results");
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "rings.json");
  writeFileSync(file, `${JSON.stringify({ machine, rows }, null, 2)}\n`);
  console.log(`\n${file}`);
}
