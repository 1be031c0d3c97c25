/**
 * The `direct` notifier's socket: a device holds one WebSocket to the mesh and is rung over it. JSON text frames; the
 * first is `hello`. Unknown fields are ignored; unknown frame types are an error except those that start with `x-`.
 */
import * as z from "zod";
import { deviceIdSchema } from "./identifiers.ts";
import { askIdSchema, MAX_RING_BYTES } from "./ring.ts";

export const DIRECT_SUBPROTOCOL = "leafmesh.direct.v1";
export const DIRECT_PROTOCOL_VERSION = 1;
/** Where a mesh serves the socket, below its own address. */
export const DIRECT_PATH = "/v1/direct";
/** Largest frame either side may send, in bytes. */
export const MAX_DIRECT_FRAME_BYTES = 8 * 1024;

/** A secret that the app chose for this device: printable, so that it survives every form and log filter unchanged. */
export const directTokenSchema = z
  .string()
  .min(1, "must not be empty")
  .max(512, "must be at most 512 characters")
  .regex(/^[^\p{C}]*$/u, "must be printable characters only");

/** First frame of a device, within 5 s: who it is, and the push token that the app gives the mesh for it. */
export const directHelloFrameSchema = z.object({
  type: z.literal("hello"),
  v: z.int(),
  id: deviceIdSchema,
  token: directTokenSchema,
});

/** The device can be rung from now on. The mesh pings after `idle_s` of silence and gives the socket up `dead_s` later. */
export const directWelcomeFrameSchema = z.object({
  type: z.literal("welcome"),
  v: z.int(),
  idle_s: z.number().positive(),
  dead_s: z.number().positive(),
});

/** `body` is the ring as compact JSON, byte for byte what any other notifier would carry. */
export const directRingFrameSchema = z.object({ type: z.literal("ring"), body: z.string().max(MAX_RING_BYTES) });
/** The ring arrived. Says nothing about what the device will do with it. */
export const directRingReceivedFrameSchema = z.object({ type: z.literal("ring.received"), ask: askIdSchema });

const ping = z.object({ type: z.literal("ping") });
const pong = z.object({ type: z.literal("pong") });

/** What a device may send. */
export const directDeviceFrameSchema = z.discriminatedUnion("type", [
  directHelloFrameSchema,
  directRingReceivedFrameSchema,
  ping,
  pong,
]);
export type DirectDeviceFrame = z.infer<typeof directDeviceFrameSchema>;

/** What the mesh may send. */
export const directMeshFrameSchema = z.discriminatedUnion("type", [
  directWelcomeFrameSchema,
  directRingFrameSchema,
  ping,
  pong,
]);
export type DirectMeshFrame = z.infer<typeof directMeshFrameSchema>;

/** Close codes. After `replaced`, `badFrame` and `unsupportedVersion` a device must not come back by itself. */
export const DIRECT_CLOSE = {
  goingAway: 1001,
  /** A newer socket of the same device and token took over. */
  replaced: 4001,
  badFrame: 4400,
  unsupportedVersion: 4426,
  noHello: 4508,
  tooSlow: 4513,
} as const;

/** Whether a device whose socket was closed with `code` should open another, after a back-off. */
export function mayReconnectDirectAfter(code: number): boolean {
  return code !== DIRECT_CLOSE.replaced && code !== DIRECT_CLOSE.badFrame && code !== DIRECT_CLOSE.unsupportedVersion;
}
