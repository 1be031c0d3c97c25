/** The events of a session: rows in the store and frames on its stream, named `noun.verb` in the past tense. */
import * as z from "zod";
import { knownDeviceSchema } from "./devices.ts";
import { askResultSchema } from "./outcomes.ts";
import { approvalSchema } from "./ring.ts";

/** Where a run stands. The last four are final. */
export const runStatusSchema = z.enum([
  "queued",
  "running",
  "suspended",
  "succeeded",
  "failed",
  "cancelled",
  "timed_out",
]);
export type RunStatus = z.infer<typeof runStatusSchema>;

export const FINAL_RUN_STATUSES: ReadonlySet<RunStatus> = new Set(["succeeded", "failed", "cancelled", "timed_out"]);

export const runErrorSchema = z.strictObject({ code: z.string(), message: z.string() });
export type RunError = z.infer<typeof runErrorSchema>;

/** How sure the mesh is that a task reached the device; see `AskResult.may_have_happened`. */
const ask = { ask_id: z.string(), device: z.string() };

const payloads = {
  "session.created": z.strictObject({ entry_point: z.string().optional() }),
  "devices.changed": z.strictObject({ devices: z.array(knownDeviceSchema) }),
  "message.received": z.strictObject({ run_id: z.string(), content: z.string() }),
  "run.queued": z.strictObject({ run_id: z.string(), agent: z.string() }),
  "run.started": z.strictObject({ run_id: z.string(), agent: z.string(), resumed: z.boolean().optional() }),
  "run.finished": z.strictObject({
    run_id: z.string(),
    status: runStatusSchema,
    reply: z.string().optional(),
    error: runErrorSchema.optional(),
  }),
  "model.answered": z.strictObject({
    run_id: z.string(),
    agent: z.string(),
    turn: z.int(),
    content: z.string().optional(),
    tool_calls: z.int(),
    usage: z.strictObject({ input_tokens: z.int(), output_tokens: z.int() }).optional(),
  }),
  "model.retried": z.strictObject({
    run_id: z.string(),
    agent: z.string(),
    reason: z.string(),
    attempt: z.int(),
    wait_ms: z.int(),
  }),
  "tool.called": z.strictObject({
    run_id: z.string(),
    agent: z.string(),
    tool_call_id: z.string(),
    tool: z.string(),
    arguments: z.json(),
  }),
  "tool.finished": z.strictObject({
    run_id: z.string(),
    tool_call_id: z.string(),
    tool: z.string(),
    success: z.boolean(),
    duration_ms: z.int(),
  }),
  /** Of a request that is refused, `device` and `action` are there as far as they exist, and nobody is waited for. */
  "ask.created": z.strictObject({
    ask_id: z.string(),
    device: z.string().optional(),
    run_id: z.string(),
    agent: z.string(),
    action: z.string().optional(),
    approval: approvalSchema,
    join_by: z.number().optional(),
  }),
  "ask.opened": z.strictObject({ ...ask, room_provider: z.string(), room: z.string() }),
  "ask.ringing": z.strictObject({ ...ask, notifier: z.string() }),
  "ask.rung": z.strictObject({ ...ask, notifier: z.string(), receipt: z.string().optional() }),
  "ask.joined": z.strictObject({ ...ask, capabilities: z.array(z.string()).optional() }),
  "ask.sent": z.strictObject({ ...ask, reply_by: z.number() }),
  "ask.accepted": z.strictObject(ask),
  "ask.progress": z.strictObject({ ...ask, note: z.string().optional(), pct: z.number().optional() }),
  "ask.away": z.strictObject({ ...ask, grace_s: z.number() }),
  "ask.back": z.strictObject(ask),
  "ask.cancel_requested": z.strictObject({ ask_id: z.string() }),
  "ask.settled": z.strictObject({ ask_id: z.string(), duration_ms: z.int(), result: askResultSchema }),
  /** A reply that came after the outcome, or a second one: kept for people, never fed to the model as fresh. */
  "ask.late_reply": z.strictObject({ ...ask, outcome: z.string() }),
  /**
   * A call of a tool that a client declared. `call_token` answers it: stored events have none, the session's stream
   * fills it in while the call is open. `expires_at` is in seconds since the epoch.
   */
  device_tool_call: z.strictObject({
    call_id: z.string(),
    call_token: z.string().optional(),
    tool_id: z.string(),
    args: z.record(z.string(), z.json()),
    expires_at: z.number(),
  }),
  /** One for each `device_tool_call`: it needs no answer any more. */
  "device_tool_call.settled": z.strictObject({
    call_id: z.string(),
    status: z.enum(["answered", "expired", "lost", "cancelled"]),
  }),
  /** The provider says that this token will never work again, so that the app can drop it. */
  "device.token_dead": z.strictObject({ device: z.string(), notifier: z.string() }),
  warning: z.strictObject({ code: z.string(), message: z.string() }),
} as const;

export type SessionEventType = keyof typeof payloads;
export type SessionEventPayload<Type extends SessionEventType> = z.infer<(typeof payloads)[Type]>;

/** One event to be stored. `ts` is seconds since the epoch. */
export type SessionEvent = {
  [Type in SessionEventType]: { type: Type; payload: SessionEventPayload<Type> };
}[SessionEventType];

/** A stored event: `seq` is gap-free within its session and is the SSE `id`. */
export type StoredEvent = SessionEvent & { seq: number; session_id: string; ts: number };

export const sessionEventPayloads: { readonly [Type in SessionEventType]: (typeof payloads)[Type] } = payloads;

/** Frames that are on the stream but not in the store: they carry no `id:` and are not replayed. */
export const transientPayloads = {
  /** Text of the model's answer as it comes. `model.answered` holds the whole. */
  "model.delta": z.strictObject({ run_id: z.string(), text: z.string() }),
  /** After the backlog, and whenever the session goes idle or starts to run. */
  session_state: z.strictObject({ state: z.enum(["idle", "running"]), last_seq: z.int(), server_now: z.number() }),
  /** Only when the session itself ends. */
  stream_end: z.strictObject({ reason: z.string() }),
} as const;

export type TransientEventType = keyof typeof transientPayloads;
export type TransientEvent = {
  [Type in TransientEventType]: { type: Type; payload: z.infer<(typeof transientPayloads)[Type]> };
}[TransientEventType];
