/**
 * Closed-loop load on one address: so many callers, each sending its next request when it has its answer. A process of
 * its own, so that its work is not counted as the server's; options as JSON in `LOAD`, the result as one line of JSON.
 */
import { Agent, request } from "node:http";
import { z } from "zod";
import { cpuMsOf, rssMbOf } from "./machine.ts";
import { summarize } from "./statistics.ts";

export const loadOptionsSchema = z.strictObject({
  url: z.string(),
  /** Body of every request. */
  body: z.string(),
  /** Every answer must have a status below 300 and a JSON body with this `reply`. */
  expectedReply: z.string(),
  concurrency: z.int().min(1),
  seconds: z.number().positive(),
  /** Load before the measurement, so that no candidate is measured while its code is still being compiled. */
  warmUpSeconds: z.number().min(0),
  /** The process whose CPU and memory are read. */
  pid: z.int(),
});
export type LoadOptions = z.infer<typeof loadOptionsSchema>;

export const loadResultSchema = z.strictObject({
  turns: z.int(),
  turnsPerSecond: z.number(),
  cpuMsPerTurn: z.number(),
  p50Ms: z.number(),
  p99Ms: z.number(),
  maxMs: z.number(),
  rssMb: z.number(),
  /** CPU that the measured process used in all, and the load itself. */
  ownCpuMs: z.number(),
});
export type LoadResult = z.infer<typeof loadResultSchema>;

async function measure(options: LoadOptions): Promise<LoadResult> {
  const agent = new Agent({ keepAlive: true, maxSockets: options.concurrency });
  const samples: number[] = [];

  const caller = async (isOver: () => boolean, record: boolean): Promise<void> => {
    while (!isOver()) {
      const before = performance.now();
      await post(agent, options);
      if (record) samples.push(performance.now() - before);
    }
  };
  const callers = (isOver: () => boolean, record: boolean) =>
    Promise.all(Array.from({ length: options.concurrency }, () => caller(isOver, record)));

  const warmUntil = performance.now() + options.warmUpSeconds * 1000;
  await callers(() => performance.now() >= warmUntil, false);
  const cpuBefore = cpuMsOf(options.pid);
  const before = performance.now();
  const end = before + options.seconds * 1000;
  await callers(() => performance.now() >= end, true);
  const wallMs = performance.now() - before;
  const cpuMs = cpuMsOf(options.pid) - cpuBefore;
  agent.destroy();
  const { p50, p99, max } = summarize(samples);
  return {
    turns: samples.length,
    turnsPerSecond: (samples.length / wallMs) * 1000,
    cpuMsPerTurn: cpuMs / samples.length,
    p50Ms: p50,
    p99Ms: p99,
    maxMs: max,
    rssMb: rssMbOf(options.pid),
    ownCpuMs: cpuMsOf(options.pid) + cpuMsOf(process.pid),
  };
}

function post(agent: Agent, { url, body, expectedReply }: LoadOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const sent = request(url, { agent, method: "POST", headers }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (piece: string) => {
        text += piece;
      });
      response.on("error", reject);
      response.on("end", () => {
        const isRight = (response.statusCode ?? 500) < 300 && JSON.parse(text).reply === expectedReply;
        if (isRight) resolve();
        else reject(new Error(`${url} answered ${response.statusCode} ${text.slice(0, 500)}`));
      });
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

if (import.meta.main)
  console.log(JSON.stringify(await measure(loadOptionsSchema.parse(JSON.parse(process.env.LOAD ?? "{}")))));
