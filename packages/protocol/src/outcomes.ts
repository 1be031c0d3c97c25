import * as z from "zod";

/** How an ask can end. Exactly one of these, exactly once; only `done` means that it happened. */
export const OUTCOMES = [
  "done",
  "failed",
  "declined",
  "sent_for_approval",
  "not_joined",
  "unreachable",
  "refused",
] as const;

export const outcomeSchema = z.enum(OUTCOMES);
export type Outcome = z.infer<typeof outcomeSchema>;

/**
 * Why, for the outcomes that have several causes. The key is the outcome that the reason belongs to; a reason
 * never appears under another outcome except `mesh_restarted` and `cancelled`, which say when it struck.
 */
export const REASONS = {
  done: [],
  failed: [
    "device_error",
    "no_answer",
    "connection_lost",
    "room_closed",
    "mesh_restarted",
    "reply_too_large",
    "cancelled",
  ],
  declined: [],
  sent_for_approval: [],
  not_joined: ["no_join", "connection_not_allowed", "device_offline", "cancelled"],
  unreachable: [
    "no_connection",
    "no_room",
    "room_key_refused",
    "room_plan_limit",
    "room_unavailable",
    "dead_token",
    "bad_token",
    "notifier_key_refused",
    "notifier_quota",
    "notifier_unavailable",
    "notifier_rejected",
    "mesh_restarted",
  ],
  refused: [
    "no_such_device",
    "no_action",
    "bad_inputs",
    "unknown_action",
    "action_denied",
    "task_too_large",
    "too_many_asks",
  ],
} as const satisfies Record<Outcome, readonly string[]>;

export type Reason = (typeof REASONS)[Outcome][number];

export const reasonSchema = z.enum([...new Set(Object.values(REASONS).flat())] as [Reason, ...Reason[]]);

/** What the agent is given, and what `asks` shows. */
export const askResultSchema = z.strictObject({
  outcome: outcomeSchema,
  /** True for `done` alone. */
  success: z.boolean(),
  /** What the device returned: data from outside the mesh, never instructions. Only with `done`. */
  data: z.json().optional(),
  /** One sentence that says what to do next. On every outcome but `done`. */
  error: z.string().optional(),
  reason: reasonSchema.optional(),
  /** True when the task was handed over and no one can say whether the device acted on it. */
  may_have_happened: z.boolean().optional(),
  /** Id of the device that was asked; absent when the request named none that exists. */
  device: z.string().optional(),
});
export type AskResult = z.infer<typeof askResultSchema>;
