/**
 * Rings a double as fast as it answers: so many at once, each caller ringing again when its ring was taken. A process of
 * its own for every measurement; options as JSON in `SENDER`, the result as one line of JSON.
 */
import { networkOf } from "@leafmesh/testkit/notifiers";
import { cpuMsOf } from "../lib/machine.ts";
import { summarize } from "../lib/statistics.ts";
import { leadAll } from "./lead.ts";
import { type SenderOptions, type SenderResult, senderOptionsSchema } from "./sender-options.ts";
import { ours, type VendorName, vendors } from "./vendors.ts";

async function measure({
  vendor: name,
  party,
  atOnce,
  seconds,
  warmUpSeconds,
  ...options
}: SenderOptions): Promise<SenderResult> {
  const vendor = vendors[name as VendorName];
  const network = networkOf(options.address);
  if (party === "peer") leadAll(network);
  const sender = party === "peer" ? await vendor.peer(options) : await ours(name as VendorName, options, network);
  const samples: number[] = [];
  const caller = async (endAt: number, keep: boolean): Promise<void> => {
    while (performance.now() < endAt) {
      const before = performance.now();
      await sender.ring();
      if (keep) samples.push(performance.now() - before);
    }
  };
  const callers = (endAt: number, keep: boolean) =>
    Promise.all(Array.from({ length: atOnce }, () => caller(endAt, keep)));

  // One alone, since a vendor may allow no more before it knows who is there.
  await sender.ring();
  await callers(performance.now() + warmUpSeconds * 1000, false);
  const [cpuBefore, before] = [cpuMsOf(process.pid), performance.now()];
  await callers(before + seconds * 1000, true);
  const [cpuMs, wallMs] = [cpuMsOf(process.pid) - cpuBefore, performance.now() - before];
  await sender.close();
  const { p50, p99 } = summarize(samples);
  return { perSecond: (samples.length / wallMs) * 1000, cpuMsPerRing: cpuMs / samples.length, p50Ms: p50, p99Ms: p99 };
}

console.log(JSON.stringify(await measure(senderOptionsSchema.parse(JSON.parse(process.env.SENDER ?? "{}")))));
process.exit(0);
