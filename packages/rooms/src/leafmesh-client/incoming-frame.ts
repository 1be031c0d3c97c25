import { isJsonDeeperThan, MAX_FRAME_DEPTH, type ServiceFrame, serviceFrameSchema } from "@leafmesh/protocol";
import * as z from "zod";
import type { DeviceEnvelopeType } from "./mesh-seat.ts";
import type { Numbered } from "./sequence.ts";

/** What the service itself says is checked here; what it relays from the device is the seat's to judge. */
export type IncomingFrame = Exclude<ServiceFrame, { type: DeviceEnvelopeType }> | RelayedFrame | Extension;
type RelayedFrame = Numbered & { readonly type: DeviceEnvelopeType };
type Extension = { readonly type: "x-" };

const relayedSchema = z.looseObject({ type: z.enum(["accepted", "progress", "reply"]), seq: z.int().positive() });
const extensionSchema = z.object({ type: z.string().startsWith("x-") });

/** One text message of the service; `undefined` when it is no frame. */
export function readFrame(text: string): IncomingFrame | undefined {
  if (isJsonDeeperThan(text, MAX_FRAME_DEPTH)) return undefined;
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return undefined;
  }
  const relayed = relayedSchema.safeParse(json);
  if (relayed.success) return relayed.data;
  if (extensionSchema.safeParse(json).success) return { type: "x-" };
  const own = serviceFrameSchema.safeParse(json);
  if (!own.success || own.data.type === "accepted" || own.data.type === "progress" || own.data.type === "reply") {
    return undefined;
  }
  return own.data;
}
