/**
 * What an operator writes in mesh.yaml. The single source for the parser, the error text, the JSON Schema for editors
 * and the reference in docs/mesh-yaml.md; `mesh.ts` is what the rest of LeafMesh works with. Every object is strict and
 * every field says in its `description` what it does, and in `documentedDefault` what its default is where that is not one
 * value. A field marked `secret` is masked wherever its line is shown.
 *
 * `connections` is left open here, because which fields a record takes is the provider's to say (`connections.ts`).
 */
import { approvalSchema, secretString } from "@leafmesh/protocol";
import * as z from "zod";
import { endpointAddress, headerName, headerValue } from "./schema-parts.ts";
import { agentToolsSchema, callbacksSchema, toolsSchema } from "./tool-schema.ts";

/** Entries of one `allow` or `deny` list. */
export const MAX_ACTION_PATTERNS = 200;
const LONGEST_RUN_SECONDS = 7 * 24 * 3600;
const DURATION_RULE = "must be a number of seconds, or a number with s, m, h, d or w such as 7d";

const nameSchema = z
  .string()
  .regex(
    /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$/,
    "must be 1 to 64 letters, digits or the characters _ - . and must not begin with - or .",
  );

/** Prose for people: not empty, no limit of its own. */
const text = (description: string) => z.string().min(1, "must not be empty").meta({ description });

const seconds = (description: string, most: number) =>
  z.number().positive("must be more than 0").max(most, `must be at most ${most}`).meta({ description });

const wholeNumber = (description: string, least: number, most: number) =>
  z.int().min(least, `must be at least ${least}`).max(most, `must be at most ${most}`).meta({ description });

const webAddress = z
  .string()
  .regex(
    /^https?:\/\/[^\s/?#@]+(\/[^\s?#]*)?$/,
    "must be an address that begins with http:// or https://, without user, ? and #",
  );

const actionPattern = z
  .string()
  .regex(
    /^[A-Za-z0-9_\-.:*?]{1,128}$/,
    "must be the name of an action or a pattern: letters, digits, the characters _ - . : and the wildcards * and ?",
  );

const actionList = z
  .array(actionPattern)
  .min(1, "must list at least one action")
  .max(MAX_ACTION_PATTERNS, `must list at most ${MAX_ACTION_PATTERNS} actions`);

export const deviceBlockSchema = z.strictObject({
  connection: z.string().meta({
    description: "The connection that rings the device. Its provider must be a notifier.",
  }),
  room: z.string().optional().meta({
    description: "The connection where the mesh and the device meet. Its provider must be a room.",
    documentedDefault: "the built-in LeafMesh rooms",
  }),
  approval: approvalSchema.default("ask").meta({
    description:
      "`ask`: the person at the device is asked to allow each connection, and nothing runs unless it is allowed. " +
      "`silent`: the device joins without asking.",
  }),
  allow: actionList.optional().meta({
    description:
      "The only actions that may be asked for, as names or patterns with `*` and `?`. Others are `refused` before anything is rung.",
    documentedDefault: "all",
  }),
  deny: actionList.optional().meta({
    description: "Actions that are `refused` before anything is rung, as names or patterns. Wins over `allow`.",
    documentedDefault: "none",
  }),
  join_timeout: seconds("Seconds that the device has to join after the ring.", LONGEST_RUN_SECONDS)
    .optional()
    .meta({ documentedDefault: "60, with `approval: silent` 30" }),
  reply_timeout: seconds("Seconds that the device has to answer once it got the task.", LONGEST_RUN_SECONDS).default(
    60,
  ),
});

export const agentSchema = z.strictObject({
  name: z.string().optional().meta({ description: "May repeat the agent's key, and then must equal it." }),
  description: text("What the agent is for. For people; the model does not see it.").optional(),
  agent_type: z
    .literal("llm", { error: 'must be "llm"; other types of agents are not available yet' })
    .default("llm")
    .meta({ description: "How the agent works. `llm`: a language model decides." }),
  model: z.string().min(1, "must not be empty").meta({
    description:
      "The model's name: `gpt-4o-mini` for OpenAI, or `<entry>/<model>` with the name of an entry of `models`.",
  }),
  prompt: text("The agent's instructions: the system message of every model call."),
  temperature: z
    .number()
    .min(0, "must be at least 0")
    .max(2, "must be at most 2")
    .default(0.1)
    .meta({ description: "How freely the model chooses its words, from 0 to 2." }),
  max_tokens: wholeNumber("Most tokens of one model answer.", 1, 1_000_000).default(800),
  tool_choice: z
    .enum(["auto", "required", "none"])
    .default("auto")
    .meta({ description: "Whether the model may (`auto`), must (`required`) or must not (`none`) call a tool." }),
  max_tool_calls_per_message: wholeNumber("Most tool calls that one message may lead to.", 0, 20).default(5),
  tool_call_timeout: seconds(
    "Seconds that one tool call may take. `device_action` has deadlines of its own: `device.join_timeout` and `device.reply_timeout`.",
    300,
  ).default(30),
  allow_parallel_tool_calls: z
    .boolean()
    .default(true)
    .meta({ description: "Whether the model may ask for several tool calls in one answer." }),
  history_limit: wholeNumber("Most messages of the conversation that the model is shown.", 1, 200).default(20),
  tools: agentToolsSchema,
  device: deviceBlockSchema.optional().meta({
    description: "Lets the agent ask the conversation's devices to act: gives it the `device_action` tool.",
    documentedDefault: "no devices",
  }),
});

const recordPath = z.string().min(1, "must not be empty").optional().meta({
  description:
    "File that every call to this endpoint is recorded into, for replay with `kind: scripted`. Relative to the folder of mesh.yaml.",
});

export const openAiEndpointSchema = z.strictObject({
  kind: z.literal("openai").default("openai").meta({ description: "Speaks the OpenAI chat completions API." }),
  base_url: endpointAddress.optional().meta({
    description: "Address of the API, such as `http://127.0.0.1:11434/v1`.",
    documentedDefault: "`OPENAI_BASE_URL`, else `https://api.openai.com/v1`",
  }),
  api_key: secretString("The API's key. `none` where the service asks for none.")
    .optional()
    .meta({ documentedDefault: "`OPENAI_API_KEY` where `base_url` is left out" }),
  headers: z
    .record(headerName, headerValue)
    .optional()
    .meta({ description: "More headers for every request.", documentedDefault: "none" }),
  record: recordPath,
});

export const scriptedEndpointSchema = z.strictObject({
  kind: z.literal("scripted").meta({ description: "Answers from a script or a recorded cassette; calls nobody." }),
  script: text("File of the script or cassette, relative to the folder of mesh.yaml."),
  record: recordPath,
});

/** By `kind`; an entry without one is `openai`. */
export const endpointSchemas = { openai: openAiEndpointSchema, scripted: scriptedEndpointSchema } as const;

export const entryPointSchema = z.strictObject({
  name: nameSchema.meta({ description: "What a request names in `entry_point`. Unique." }),
  target: z.string().meta({ description: "The agent that messages go to." }),
  description: text("What the entry point is for.").optional(),
});

export const limitsSchema = z.strictObject({
  run_timeout: seconds("Seconds that one run may take, asks included.", LONGEST_RUN_SECONDS).default(3600),
  max_open_asks_per_session: wholeNumber("Most asks of one session that may be open at once.", 1, 1_000).default(16),
  max_asks_per_run: wholeNumber("Most asks that one run may make.", 1, 1_000).default(32),
  max_sessions_per_key: wholeNumber("Most sessions that one API key may hold.", 1, 10_000_000).default(10_000),
  max_streams: wholeNumber("Most event streams that may be open at once.", 1, 1_000_000).default(1_000),
  max_concurrent_runs: wholeNumber(
    "Most runs that work at once; more wait in the queue. A run that only waits for devices does not count.",
    1,
    10_000,
  ).default(32),
  max_queued_runs_per_session: wholeNumber("Most messages of one session that may wait.", 1, 10_000).default(16),
  tool_result_max_chars: wholeNumber(
    "Most characters of one tool result that the model is shown.",
    100,
    10_000_000,
  ).default(100_000),
});

const namedApiKeySchema = z.strictObject({
  name: nameSchema.meta({ description: "Shown in logs, and the owner of the sessions that the key creates. Unique." }),
  key: secretString("The key itself."),
});

export const serverSchema = z.strictObject({
  host: z.string().min(1, "must not be empty").default("127.0.0.1").meta({
    description: "Address to listen on. Without `api_keys` only a loopback address is accepted.",
  }),
  port: wholeNumber("Port to listen on; 0 takes any free one.", 0, 65_535).default(18_820),
  public_url: webAddress.optional().meta({
    description: "Where devices and services outside reach this mesh.",
    documentedDefault: "not reachable from outside",
  }),
  api_keys: z
    .array(
      z.union([secretString("A key without a name."), namedApiKeySchema], {
        error: "must be a key, or a mapping with name and key",
      }),
    )
    .default([])
    .meta({ description: "Keys that requests send as `X-API-Key`: each a text, or a mapping with `name` and `key`." }),
  cors_origins: z
    .array(
      z.string().regex(/^https?:\/\/[^\s/?#]+$/, "must be an origin such as https://app.example.com, without a path"),
    )
    .default([])
    .meta({ description: "Browser origins that may call the API." }),
  callbacks: callbacksSchema.optional().meta({
    description: "Notices to the `callback_url` of runs, and about dead push tokens.",
    documentedDefault: "signed with `LEAFMESH_WEBHOOK_SECRET`, into the public internet only",
  }),
});

export const storageSchema = z.strictObject({
  url: z
    .string()
    .regex(
      /^(sqlite:(?!\/\/|:memory:).+|postgres(ql)?:\/\/[^\s/?#]+\/[^\s/?#]+(\?[^\s#]*)?)$/,
      "must be sqlite: and the path of a file, such as sqlite:.leafmesh/mesh.db, or postgres:// with host and database, such as postgres://mesh:secret@db.example.com/mesh",
    )
    .default("sqlite:.leafmesh/mesh.db")
    .meta({
      description:
        "Where sessions, runs and asks are kept: a file, relative to the folder of mesh.yaml, or a PostgreSQL database, which several mesh processes may share.",
      secret: true,
    }),
  durable: z.boolean().default(false).meta({
    description: "Survive a power cut, not only a crash of the process, at the price of slower writes.",
  }),
  session_ttl: z
    .union([z.number().positive(DURATION_RULE), z.string().regex(/^\d+(\.\d+)?[smhdw]$/, DURATION_RULE)], {
      error: DURATION_RULE,
    })
    .default("7d")
    .meta({
      description:
        "A session idle for longer loses its messages, push tokens, uploads and images. Seconds, or a number with `s`, `m`, `h`, `d` or `w`.",
    }),
});

const LOG_LEVELS = ["debug", "info", "warning", "error", "DEBUG", "INFO", "WARNING", "ERROR"] as const;

const openRecord = z.looseObject({});

export const meshFileSchema = z.strictObject({
  name: nameSchema.default("default_mesh").meta({ description: "Name of the mesh, in logs and rings." }),
  version: z.string().default("1.0.0").meta({ description: "Version of this file, yours to choose." }),
  log_level: z
    .enum(LOG_LEVELS)
    .default("info")
    .meta({ description: "The least important log lines that are written." }),
  models: z.record(nameSchema, openRecord).default({}).meta({ description: "Model endpoints beside OpenAI, by name." }),
  connections: z
    .record(nameSchema, openRecord)
    .default({})
    .meta({ description: "Notifiers and rooms, by name. Each has a `provider` and that provider's fields." }),
  agents: z
    .record(nameSchema, agentSchema)
    .refine((agents) => Object.keys(agents).length > 0, "must hold at least one agent")
    .meta({ description: "The agents, by name.", minProperties: 1 }),
  tools: toolsSchema,
  entry_points: z.array(entryPointSchema).min(1, "must list at least one entry point").optional().meta({
    description: "Where messages come in.",
    documentedDefault: "one named `default` for the first agent",
  }),
  limits: limitsSchema.prefault({}).meta({ description: "Bounds that keep one user or bug from taking everything." }),
  server: serverSchema.prefault({}).meta({ description: "The HTTP API." }),
  storage: storageSchema.prefault({}).meta({ description: "Where state is kept." }),
});
export type MeshFile = z.output<typeof meshFileSchema>;
export type AgentFile = z.output<typeof agentSchema>;
