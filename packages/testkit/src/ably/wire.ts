/** Frames of Ably's realtime protocol, as its client sends and reads them. */
import * as z from "zod";

export const ACTION = {
  heartbeat: 0,
  ack: 1,
  nack: 2,
  connected: 4,
  disconnected: 6,
  close: 7,
  closed: 8,
  error: 9,
  attach: 10,
  attached: 11,
  detach: 12,
  detached: 13,
  presence: 14,
  message: 15,
  sync: 16,
  auth: 17,
} as const;

export const FLAG = {
  hasPresence: 1 << 0,
  hasBacklog: 1 << 1,
  resumed: 1 << 2,
  presence: 1 << 16,
  publish: 1 << 17,
  subscribe: 1 << 18,
  presenceSubscribe: 1 << 19,
} as const;

/** 0 absent, 1 present, 2 enter, 3 leave, 4 update. */
export const PRESENCE = { present: 1, enter: 2, leave: 3, update: 4 } as const;

export const frameSchema = z.object({
  action: z.int(),
  channel: z.string().optional(),
  channelSerial: z.string().nullish(),
  msgSerial: z.int().optional(),
  params: z.record(z.string(), z.string()).nullish(),
  messages: z
    .array(
      z.object({
        id: z.string().optional(),
        name: z.string().optional(),
        clientId: z.string().optional(),
        data: z.unknown().optional(),
        encoding: z.string().nullish(),
        extras: z.unknown().optional(),
      }),
    )
    .optional(),
  presence: z
    .array(
      z.object({
        action: z.int(),
        clientId: z.string().optional(),
        data: z.unknown().optional(),
        encoding: z.string().nullish(),
      }),
    )
    .optional(),
});
export type Frame = z.infer<typeof frameSchema>;
