/** Bodies of the HTTP API. The server parses with these schemas and `/openapi.json` is generated from them. */
import * as z from "zod";
import { deviceDeclarationSchema, deviceListSchema, knownDeviceSchema } from "./devices.ts";
import { runErrorSchema, runStatusSchema } from "./events.ts";
import { askResultSchema } from "./outcomes.ts";

export const MAX_MESSAGE_CHARACTERS = 100_000;

export const errorBodySchema = z.object({
  error: z.object({ code: z.string(), message: z.string(), details: z.json().optional() }),
});
export type ErrorBody = z.infer<typeof errorBodySchema>;

const message = z.string().min(1, "must not be empty").max(MAX_MESSAGE_CHARACTERS);
const devices = {
  device: deviceDeclarationSchema.optional().meta({ description: "Short for a list of one." }),
  devices: deviceListSchema
    .optional()
    .meta({ description: "Merged into the conversation's devices by id; an empty list clears them." }),
};
const context = z
  .record(z.string(), z.json())
  .optional()
  .meta({ description: "Free data of the app for this message; `device_tools` inside it has a meaning of its own." });

/** `POST /api/mesh/request` */
export const meshRequestSchema = z.strictObject({
  message,
  entry_point: z.string().max(128).optional().meta({ description: "Default: the mesh's only or first entry point." }),
  session_id: z.string().max(128).optional().meta({ description: "Continue this conversation." }),
  ...devices,
  context,
  stream: z.boolean().optional().meta({ description: "Answer with server-sent events instead of one JSON body." }),
});
export type MeshRequest = z.infer<typeof meshRequestSchema>;

export const meshReplySchema = z.object({
  session_id: z.string(),
  run_id: z.string(),
  status: runStatusSchema,
  agent: z.string(),
  reply: z.string().optional(),
  error: runErrorSchema.optional(),
});
export type MeshReply = z.infer<typeof meshReplySchema>;

/** `POST /api/sessions` */
export const createSessionSchema = z.strictObject({ entry_point: z.string().max(128).optional(), ...devices, context });
export const sessionCreatedSchema = z.object({ session_id: z.string() });

/** `POST /api/sessions/{id}/query`; exactly one of `query` and its alias `message`. */
export const querySchema = z.strictObject({
  query: message.optional(),
  message: message.optional(),
  ...devices,
  context,
  wait: z.boolean().optional().meta({ description: "Wait for the run's end instead of answering 202." }),
});

export const runAcceptedSchema = z.object({ run_id: z.string(), session_id: z.string(), status: runStatusSchema });

export const sessionViewSchema = z.object({
  session_id: z.string(),
  created_at: z.number(),
  last_active_at: z.number(),
  state: z.enum(["idle", "running", "ended"]),
  entry_point: z.string(),
  devices: z.array(knownDeviceSchema),
});
export type SessionView = z.infer<typeof sessionViewSchema>;

export const historyEntrySchema = z.object({
  position: z.int(),
  run_id: z.string(),
  role: z.enum(["user", "assistant", "tool"]),
  agent: z.string().optional(),
  content: z.string(),
  tool_calls: z.array(z.object({ id: z.string(), name: z.string(), arguments: z.string() })).optional(),
  tool_call_id: z.string().optional(),
  ts: z.number(),
});
export type HistoryEntry = z.infer<typeof historyEntrySchema>;

export const askStateSchema = z.enum(["created", "reaching", "offered", "claimed", "settled"]);

/** An ask as `GET …/asks` and `leafmesh asks` show it. Times are seconds since the epoch. */
export const askViewSchema = z.object({
  ask_id: z.string(),
  session_id: z.string(),
  run_id: z.string(),
  agent: z.string(),
  device: z.string().optional(),
  action: z.string().optional(),
  inputs: z.json().optional(),
  state: askStateSchema,
  created_at: z.number(),
  settled_at: z.number().optional(),
  result: askResultSchema.optional(),
  timeline: z.array(z.object({ ts: z.number(), type: z.string(), payload: z.json() })),
});
export type AskView = z.infer<typeof askViewSchema>;
