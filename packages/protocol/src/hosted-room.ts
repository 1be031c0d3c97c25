/**
 * What travels in a room of a provider that only moves messages (MQTT, Ably, PubNub, Pusher), besides the envelopes:
 * who the device says it is on joining, and the word that the room is closed. Everything is JSON text.
 */
import * as z from "zod";
import { capabilitySchema, MAX_CAPABILITIES } from "./devices.ts";
import { type DeviceEnvelope, deviceEnvelopeSchema, type MeshEnvelope, meshEnvelopeSchema } from "./envelopes.ts";

/** Largest envelope in bytes of its JSON; what the room protocol of LeafMesh has as well. */
export const MAX_ENVELOPE_BYTES = 64 * 1024;

const roomClosedSchema = z.object({ type: z.literal("closed"), reason: z.string().max(200) });
/** The mesh is done with the room. */
export type RoomClosed = z.infer<typeof roomClosedSchema>;

const roomMemberSchema = z.object({
  v: z.literal(1),
  capabilities: z.array(capabilitySchema).max(MAX_CAPABILITIES).optional(),
});
/** What a device tells of itself with its presence. */
export type RoomMember = z.infer<typeof roomMemberSchema>;

/** What a device may be sent; `undefined` for anything else, also from a later version. */
export function parseFromMesh(text: string): MeshEnvelope | RoomClosed | undefined {
  return parsed(z.union([meshEnvelopeSchema, roomClosedSchema]), text);
}

/** What a mesh may be sent; `undefined` for anything else. */
export function parseFromDevice(text: string): DeviceEnvelope | undefined {
  return parsed(deviceEnvelopeSchema, text);
}

/** Presence as a device put it into the room. */
export function parseRoomMember(data: unknown): RoomMember | undefined {
  return roomMemberSchema.safeParse(data).data;
}

function parsed<Schema extends z.ZodType>(schema: Schema, text: string): z.output<Schema> | undefined {
  try {
    return schema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

/**
 * What a device asks of the mesh itself, with the room's token as a bearer, where the provider lets a client into a channel
 * only on the mesh's signature for this very connection (Pusher); and how it says that the person did not allow it.
 */
export const roomCallbackSchema = z.union([
  z.strictObject({
    socket_id: z.string().regex(/^\d{1,20}\.\d{1,20}$/),
    channel_name: z.string().min(1).max(164),
    /** Made by the device for its stay: the same after a lost link, another for whoever else holds the ring. */
    seat: z.uuid(),
  }),
  z.strictObject({ refuse: z.literal("not_allowed") }),
]);
export type RoomCallback = z.infer<typeof roomCallbackSchema>;

/** The mesh's signature, to be handed on to the provider as it is. */
export const roomVoucherSchema = z.object({ auth: z.string().min(1).max(1_024), channel_data: z.string().max(2_048) });
export type RoomVoucher = z.infer<typeof roomVoucherSchema>;
