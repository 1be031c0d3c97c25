/**
 * The messages that a mesh and a device exchange inside a room, the same through every provider. An adapter moves
 * envelopes and reports presence; it never interprets them.
 */
import * as z from "zod";
import { askIdSchema } from "./ring.ts";

/** Where a device puts an answer too large for a message. The token is one-use and dies with the ask. */
export const uploadTargetSchema = z.object({
  url: z.string().max(1024),
  token: z.string().max(256),
  max_bytes: z.int().positive(),
});
export type UploadTarget = z.infer<typeof uploadTargetSchema>;

/** mesh → device, once per room. */
export const taskEnvelopeSchema = z.object({
  type: z.literal("task"),
  id: askIdSchema,
  action: z.string().min(1).max(200),
  inputs: z.record(z.string(), z.json()),
  /** Milliseconds the device has from receipt, for devices whose clock is wrong. */
  budget_ms: z.int().nonnegative(),
  /** Seconds since the epoch after which the device must not start. */
  expires_at: z.number().optional(),
  upload: uploadTargetSchema.optional(),
});
export type TaskEnvelope = z.infer<typeof taskEnvelopeSchema>;

/** device → mesh: the task id is stored and the work is about to start. Sent before acting. */
export const acceptedEnvelopeSchema = z.object({ type: z.literal("accepted"), id: askIdSchema });
export type AcceptedEnvelope = z.infer<typeof acceptedEnvelopeSchema>;

/** device → mesh, any number; does not extend the budget. */
export const progressEnvelopeSchema = z.object({
  type: z.literal("progress"),
  id: askIdSchema,
  note: z.string().max(500).optional(),
  pct: z.number().min(0).max(100).optional(),
});
export type ProgressEnvelope = z.infer<typeof progressEnvelopeSchema>;

/** Outcomes that a device may claim; the others are the mesh's to find. */
export const replyOutcomeSchema = z.enum(["done", "failed", "declined", "sent_for_approval"]);
export type ReplyOutcome = z.infer<typeof replyOutcomeSchema>;

/** device → mesh, once, final. */
export const replyEnvelopeSchema = z.object({
  type: z.literal("reply"),
  id: askIdSchema,
  outcome: replyOutcomeSchema,
  data: z.json().optional(),
  error: z
    .object({
      code: z.string().max(64).optional(),
      message: z.string().max(2000).optional(),
      /** Set by a device that cannot say whether a failed task took effect. */
      may_have_happened: z.boolean().optional(),
    })
    .optional(),
});
export type ReplyEnvelope = z.infer<typeof replyEnvelopeSchema>;

/** mesh → device, best effort. */
export const cancelEnvelopeSchema = z.object({
  type: z.literal("cancel"),
  id: askIdSchema,
  reason: z.string().max(200),
});
export type CancelEnvelope = z.infer<typeof cancelEnvelopeSchema>;

/** device → mesh before any task: the person did not allow the connection. After a task it is ignored. */
export const refusedEnvelopeSchema = z.object({ type: z.literal("refused"), reason: z.literal("not_allowed") });
export type RefusedEnvelope = z.infer<typeof refusedEnvelopeSchema>;

export const meshEnvelopeSchema = z.discriminatedUnion("type", [taskEnvelopeSchema, cancelEnvelopeSchema]);
export type MeshEnvelope = z.infer<typeof meshEnvelopeSchema>;

export const deviceEnvelopeSchema = z.discriminatedUnion("type", [
  acceptedEnvelopeSchema,
  progressEnvelopeSchema,
  replyEnvelopeSchema,
  refusedEnvelopeSchema,
]);
export type DeviceEnvelope = z.infer<typeof deviceEnvelopeSchema>;
