/** What goes into a sender, and what comes out. */
import * as z from "zod";

export const senderOptionsSchema = z.strictObject({
  vendor: z.string(),
  party: z.enum(["leafmesh", "peer"]),
  record: z.record(z.string(), z.string()),
  pushToken: z.string(),
  address: z.strictObject({ ca: z.string(), ports: z.record(z.string(), z.int()) }),
  atOnce: z.int().min(1),
  seconds: z.number().positive(),
  warmUpSeconds: z.number().min(0),
});
export type SenderOptions = z.infer<typeof senderOptionsSchema>;

export const senderResultSchema = z.strictObject({
  perSecond: z.number(),
  cpuMsPerRing: z.number(),
  p50Ms: z.number(),
  p99Ms: z.number(),
});
export type SenderResult = z.infer<typeof senderResultSchema>;
