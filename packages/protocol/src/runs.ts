/**
 * Runs that are submitted by themselves, and the tools that their client executes: bodies, frames, errors, limits. A
 * run's stream speaks protocol 2: every frame has a gap-free `seq` within its run.
 */
import * as z from "zod";
import { deviceDeclarationSchema, deviceListSchema } from "./devices.ts";
import { runErrorSchema, runStatusSchema } from "./events.ts";
import { MAX_MESSAGE_CHARACTERS } from "./http.ts";

export const RUN_PROTOCOL = 2;

export const MIN_CLIENT_TOOL_TIMEOUT_SECONDS = 5;
export const MAX_CLIENT_TOOL_TIMEOUT_SECONDS = 900;
export const DEFAULT_CLIENT_TOOL_TIMEOUT_SECONDS = 120;
export const MAX_TOOL_RESULTS = 64;
/** Of one result; text blocks count together. */
export const MAX_TOOL_RESULT_CHARACTERS = 100_000;
/** Holds 64 results of 100 000 characters of up to four bytes each. */
export const MAX_RESUME_BYTES = 32 * 1024 * 1024;
/** Of one tool's `input_schema`, as JSON text in UTF-8. */
export const MAX_INPUT_SCHEMA_BYTES = 16 * 1024;
const LONGEST_RUN_SECONDS = 7 * 24 * 3600;

/** The name by which the model calls a tool; `device_` begins the names of tools that a conversation brings itself. */
export const toolSlugSchema = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,64}$/, "must be 1 to 64 letters, digits or the characters _ and -")
  .refine((name) => !name.startsWith("device_"), "must not begin with device_");

export const toolInputSchema = z
  .record(z.string(), z.json())
  .refine((schema) => schema.type === "object", { message: 'must be "object"', path: ["type"] })
  .refine((schema) => utf8Bytes(schema) <= MAX_INPUT_SCHEMA_BYTES, {
    message: `must have at most ${MAX_INPUT_SCHEMA_BYTES} bytes as JSON`,
  });

/** `POST /tools` */
export const createToolSchema = z.strictObject({
  slug: toolSlugSchema.meta({ description: "The tool's name, as the model calls it." }),
  kind: z.enum(["http"]).default("http").meta({ description: "Nothing is ever called for a client-owned tool." }),
  client_owned: z
    .literal(true, { error: "must be true; tools that the mesh executes are declared in mesh.yaml" })
    .meta({ description: "The client that submits the run executes the tool." }),
  effect: z.enum(["read", "write"]).default("read").meta({ description: "Whether the tool changes something." }),
  description: z
    .string()
    .max(4_000)
    .refine((text) => text.trim() !== "", "must not be blank")
    .meta({ description: "What the model reads about the tool." }),
  input_schema: toolInputSchema.meta({ description: "JSON Schema of the arguments; the model sees it as it is." }),
  config: z
    .strictObject({ schema_version: z.literal(1) })
    .default({ schema_version: 1 })
    .meta({ description: "Nothing in it is ever called." }),
});
export type CreateTool = z.output<typeof createToolSchema>;

export const toolViewSchema = z.object({
  slug: z.string(),
  kind: z.string(),
  client_owned: z.boolean(),
  effect: z.enum(["read", "write"]),
  description: z.string(),
  input_schema: z.record(z.string(), z.json()),
  config: z.record(z.string(), z.json()),
  /** `file`: declared in mesh.yaml. */
  source: z.enum(["api", "file"]),
});
export type ToolView = z.infer<typeof toolViewSchema>;

export const clientToolsSchema = z.enum(["end", "suspend"]);
export type ClientTools = z.infer<typeof clientToolsSchema>;

/** `POST /runs` */
export const submitRunSchema = z
  .strictObject({
    agent_slug: z.string().min(1).max(128).meta({ description: "The agent that works on the message." }),
    session_key: z
      .string()
      .min(1)
      .max(256)
      .optional()
      .meta({ description: "The app's own name for the conversation; the first run with it opens it." }),
    input: z.strictObject({ message: z.string().min(1, "must not be empty").max(MAX_MESSAGE_CHARACTERS) }),
    client_tools: clientToolsSchema.default("end").meta({
      description: "`suspend` shows the model the client-owned tools and waits for the client when it calls one.",
    }),
    client_tool_timeout_s: z
      .number()
      .min(MIN_CLIENT_TOOL_TIMEOUT_SECONDS)
      .max(MAX_CLIENT_TOOL_TIMEOUT_SECONDS)
      .optional()
      .meta({ description: 'How long each wait lasts; only valid with `client_tools: "suspend"`.' }),
    callback_url: z
      .string()
      .max(2_048)
      .optional()
      .meta({ description: "Gets signed notices when the run is suspended, resumed and ended." }),
    timeout_s: z
      .number()
      .positive()
      .max(LONGEST_RUN_SECONDS)
      .optional()
      .meta({ description: "Seconds until the run's own deadline; at most the mesh's `limits.run_timeout`." }),
    device: deviceDeclarationSchema.optional().meta({ description: "Short for a list of one." }),
    devices: deviceListSchema
      .optional()
      .meta({ description: "Merged into the conversation's devices by id; an empty list clears them." }),
  })
  .refine((run) => run.client_tools === "suspend" || run.client_tool_timeout_s === undefined, {
    message: 'is only valid with client_tools: "suspend"',
    path: ["client_tool_timeout_s"],
  });
export type SubmitRun = z.output<typeof submitRunSchema>;

/** `POST /runs/{run_id}/resume`. What `value` has to be depends on the contract. */
export const resumeSchema = z.strictObject({ contract: z.string().min(1).max(64), value: z.unknown() });

const textBlockSchema = z.strictObject({ type: z.literal("text"), text: z.string() });
type TextContent = string | readonly { readonly text: string }[];

export const toolResultSchema = z.strictObject({
  tool_call_id: z.string().min(1).max(256),
  content: z
    .union([z.string(), z.array(textBlockSchema).min(1).max(1_000)], {
      error: "must be a text or a list of text blocks",
    })
    .refine((content) => hasAtMostCharacters(textOfContent(content), MAX_TOOL_RESULT_CHARACTERS), {
      message: `must have at most ${MAX_TOOL_RESULT_CHARACTERS} characters`,
    }),
  is_error: z.boolean().default(false),
});
export type ToolResultInput = z.output<typeof toolResultSchema>;

/** `value` of the contract `result`. */
export const resultValueSchema = z.strictObject({
  tool_results: z.array(toolResultSchema).min(1, "must not be empty").max(MAX_TOOL_RESULTS),
});

/** `value` of the contract `approval`. */
export const approvalValueSchema = z.strictObject({
  decision: z.enum(["approve", "reject"]),
  message: z.string().max(4_000).optional(),
  tool_call_id: z.string().max(256).optional().meta({
    description:
      "The call that is decided about. Given, a repeat after a lost answer can never decide about the next one.",
  }),
});
export type ApprovalInput = z.output<typeof approvalValueSchema>;

/** The text that a result's content stands for: blocks are lines of their own. */
export function textOfContent(content: TextContent): string {
  return typeof content === "string" ? content : content.map(({ text }) => text).join("\n");
}

/** Counts characters, of which one outside the basic plane is one and not the two units that JavaScript keeps it in. */
function hasAtMostCharacters(text: string, most: number): boolean {
  if (text.length <= most) return true;
  if (text.length > 2 * most) return false;
  let count = 0;
  for (const _ of text) count++;
  return count <= most;
}

/** One call that waits, or that a run ended with. */
export const clientToolCallSchema = z.object({
  id: z.string(),
  name: z.string(),
  arguments: z.record(z.string(), z.json()),
});
export type ClientToolCall = z.infer<typeof clientToolCallSchema>;

export const suspensionSchema = z.object({
  kind: z.literal("external_wait"),
  resume_contract: z.enum(["result", "approval"]),
  /** ISO 8601 with an offset. */
  deadline_at: z.string(),
  prompt: z.object({
    reason: z.enum(["client_tools", "approval"]),
    /** The wait that there really is: a run's own deadline may cut it short. */
    timeout_s: z.number(),
    tool_calls: z.array(clientToolCallSchema),
  }),
});
export type Suspension = z.infer<typeof suspensionSchema>;

/** Types of frames; a reader passes over those it does not know. */
export const RUN_FRAME_TYPES = [
  "run.start",
  "message",
  "tool.call",
  "tool.result",
  "suspend",
  "resume",
  "run.end",
] as const;
export type RunFrameType = (typeof RUN_FRAME_TYPES)[number];

/** One frame of a run's stream, of its events, and of a notice to its `callback_url`. */
export const runFrameSchema = z.object({
  protocol: z.literal(RUN_PROTOCOL),
  seq: z.int().positive(),
  run_id: z.string(),
  type: z.string(),
  segment_id: z.null(),
  data: z.record(z.string(), z.json()),
});
export type RunFrameView = z.infer<typeof runFrameSchema>;

export const runOutputSchema = z.object({
  result: z.object({ message: z.string().nullable(), client_tool_calls: z.array(clientToolCallSchema).optional() }),
});
export type RunOutput = z.infer<typeof runOutputSchema>;

/** `GET /runs/{run_id}/state`. Times are ISO 8601 with an offset. */
export const runStateSchema = z.object({
  run_id: z.string(),
  session_id: z.string(),
  agent_slug: z.string(),
  status: runStatusSchema,
  client_tools: clientToolsSchema,
  created_at: z.string(),
  started_at: z.string().nullable(),
  finished_at: z.string().nullable(),
  deadline_at: z.string(),
  replay_of: z.string().nullable(),
  suspension: suspensionSchema.nullable(),
  output: runOutputSchema.nullable(),
  failure_class: z.string().nullable(),
  failure_detail: z.string().nullable(),
  error: runErrorSchema.nullable(),
});
export type RunState = z.infer<typeof runStateSchema>;

/** A refusal by these routes. Their errors are not wrapped. */
export const runsErrorSchema = z.object({ code: z.string(), message: z.string(), details: z.json().optional() });
export type RunsError = z.infer<typeof runsErrorSchema>;

/** One entry of `details.errors`. */
export interface FieldError {
  /** Shape errors join the path with dots, mismatches index with brackets. */
  readonly field: string;
  readonly code: string;
  readonly value?: string | undefined;
  readonly message?: string | undefined;
}

/** `body` of a notice to a `callback_url`. */
export const runNoticeSchema = z.object({
  id: z.string(),
  event: z.enum(["run.suspended", "run.resumed", "run.ended"]),
  run_id: z.string(),
  session_id: z.string(),
  frame: runFrameSchema,
});
export type RunNotice = z.infer<typeof runNoticeSchema>;

/** `body` of a notice to `server.callbacks.url`: what the app has to know about the devices of its people. */
export const deviceNoticeSchema = z.object({
  id: z.string(),
  /** The push service says that this device's token will never work again: forget it, and ask the device for a new one. */
  event: z.literal("device.token_dead"),
  run_id: z.string(),
  session_id: z.string(),
  device: z.string(),
  /** Name of the connection that rang. */
  notifier: z.string(),
  /** When the push service said so, in seconds since the epoch. A token that the app got later is another one. */
  at: z.number(),
});

/** Any notice. The same one has the same `id` however often it is sent. */
export const callbackNoticeSchema = z.union([runNoticeSchema, deviceNoticeSchema]);
export type CallbackNotice = z.infer<typeof callbackNoticeSchema>;

/** `sha256=` and the hex HMAC-SHA256 of timestamp, dot, nonce, dot and the raw body. */
export const SIGNATURE_HEADER = "X-LeafMesh-Signature";
/** Seconds since the epoch. */
export const SIGNATURE_TIMESTAMP_HEADER = "X-LeafMesh-Timestamp";
/** Of one attempt: never sent twice. */
export const SIGNATURE_NONCE_HEADER = "X-LeafMesh-Nonce";

function utf8Bytes(value: unknown): number {
  return new TextEncoder().encode(JSON.stringify(value)).byteLength;
}
