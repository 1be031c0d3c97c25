import type { RawPlace } from "./raw.ts";

export const DEVICE = "phone-7";
export const ANSWER = { level: 82, charging: false };

/** What the device's process is told. */
export type Rung =
  | { readonly kind: "ring"; readonly ring: unknown }
  | { readonly kind: "raw" | "echo"; readonly place: RawPlace; readonly room: string };
