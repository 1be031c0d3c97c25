import * as z from "zod";
import { deviceIdSchema, MAX_DEVICES_PER_CONVERSATION } from "./identifiers.ts";

/** One thing that a device says it can do. Names and descriptions are chosen outside the mesh: data, size-capped. */
export const capabilitySchema = z.strictObject({
  name: z
    .string()
    .regex(/^[A-Za-z0-9_\-.:]{1,64}$/, "must be 1 to 64 letters, digits or the characters _ - . :")
    .meta({ description: "The action's name, as device_action gives it." }),
  description: z.string().max(500).optional(),
  /** JSON Schema of the action's inputs. */
  inputs: z.record(z.string(), z.json()).optional(),
  effect: z.enum(["read", "write"]).optional(),
});
export type Capability = z.infer<typeof capabilitySchema>;

export const MAX_CAPABILITIES = 64;

const shared = {
  id: deviceIdSchema,
  name: z
    .string()
    .min(1)
    .max(120)
    .optional()
    .meta({ description: "Shown to the agent so that it knows which is which." }),
  platform: z.string().min(1).max(60).optional().meta({ description: 'For example "android", "ios", "web".' }),
  capabilities: z
    .array(capabilitySchema)
    .max(MAX_CAPABILITIES)
    .optional()
    .meta({ description: "What the device can do. Left out, any action name is accepted." }),
};

/**
 * A device as a conversation request brings it. The push token is a plain string only on the wire: the server
 * wraps it in a `Secret` before anything else sees the request.
 */
export const deviceDeclarationSchema = z.strictObject({
  ...shared,
  push_token: z.string().min(1, "must not be empty").max(8192).meta({
    description: "Where the notifier reaches this device. Never shown, logged or stored in clear.",
    secret: true,
  }),
});
export type DeviceDeclaration = z.infer<typeof deviceDeclarationSchema>;

export const deviceListSchema = z.array(deviceDeclarationSchema).max(MAX_DEVICES_PER_CONVERSATION);

/** A device as everyone but the notifier sees it. */
export const knownDeviceSchema = z.strictObject(shared);
export type KnownDevice = z.infer<typeof knownDeviceSchema>;
