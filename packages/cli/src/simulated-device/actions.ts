/** What the simulated device can do, as a phone could. */
import { fail, type TaskHandler } from "@leafmesh/device";
import type { Capability } from "@leafmesh/protocol";
import { gradientPng } from "./png.ts";

const PHOTO_PIXELS = 64;

const properties = (fields: Record<string, string>) => ({
  type: "object",
  properties: Object.fromEntries(
    Object.entries(fields).map(([name, description]) => [name, { type: "string", description }]),
  ),
  required: Object.keys(fields),
  additionalProperties: false,
});

export const SIMULATED_CAPABILITIES: readonly Capability[] = [
  {
    name: "battery.read",
    description: "Reads the battery: its level in percent, and whether it is charging.",
    inputs: { type: "object", properties: {}, additionalProperties: false },
    effect: "read",
  },
  {
    name: "setting.write",
    description: "Changes one setting of the phone, such as ringtone_volume.",
    inputs: properties({ name: "The setting's name.", value: "Its new value." }),
    effect: "write",
  },
  {
    name: "photo.take",
    description: "Takes a photo with the main camera.",
    inputs: { type: "object", properties: {}, additionalProperties: false },
    effect: "read",
  },
  {
    name: "message.send",
    description: "Sends a text message.",
    inputs: properties({ to: "Phone number or name of the receiver.", body: "The text." }),
    effect: "write",
  },
];

/** Handlers over a state that lives as long as the process. `battery` is a percentage. */
export function simulatedHandlers(battery: number): Readonly<Record<string, TaskHandler>> {
  const settings = new Map<string, string>();
  let photos = 0;
  let messages = 0;
  return {
    "battery.read": () => ({ level: battery, charging: false }),
    "setting.write": ({ inputs: { name, value } }) => {
      if (typeof name !== "string" || value === undefined) {
        return fail("bad_inputs", 'setting.write needs a "name" and a "value"');
      }
      const previous = settings.get(name) ?? null;
      settings.set(name, String(value));
      return { name, value: String(value), previous };
    },
    "photo.take": async ({ progress, upload }) => {
      photos += 1;
      progress("the shutter is released", 50);
      return { photo: await upload(`photo-${photos}.png`, gradientPng(PHOTO_PIXELS, photos), "image/png") };
    },
    "message.send": ({ inputs: { to, body } }) => {
      if (typeof to !== "string" || typeof body !== "string") {
        return fail("bad_inputs", 'message.send needs "to" and "body"');
      }
      messages += 1;
      return { sent: true, message: messages, to };
    },
  };
}
