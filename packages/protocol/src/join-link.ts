/** Links to a ring, for notifiers that can only send an address: `<link>/<code>` in a text message. */
import * as z from "zod";
import { meshKeySchema } from "./ring.ts";

/** Path of the mesh's own page below its public address; a code follows. `POST` there gives the ring out, once. */
export const JOIN_PAGE_PATH = "/j";

/** Letters and digits without 0, O, I and l; 22 of them have 128.8 bits. */
export const joinCodeSchema = z
  .string()
  .regex(/^[1-9A-HJ-NP-Za-km-z]{22}$/, "must be the 22 characters of a link's code");

/** What the person is asked for, to be shown before they allow it. From outside the mesh: text, never markup. */
export const linkedRequestSchema = z.object({
  action: z.string(),
  inputs: z.record(z.string(), z.unknown()),
  reason: z.string().optional(),
});

/** The answer to `POST /j/{code}`. */
export const openedLinkSchema = z.object({
  /** The signed ring as JSON text, for `Device.handleRing`. */
  ring: z.string(),
  /** Milliseconds until the device could no longer join, whatever its clock says. */
  expires_in_ms: z.number(),
  request: linkedRequestSchema,
  /** Keys by which the device recognises the ring. An app pins the mesh's own instead. */
  mesh_keys: z.array(meshKeySchema),
});
export type OpenedJoinLink = z.infer<typeof openedLinkSchema>;
