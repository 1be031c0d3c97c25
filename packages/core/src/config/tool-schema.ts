/** What an operator writes about a tool in mesh.yaml. Which fields belong together is checked in `check-tools.ts`. */
import { secretString, toolInputSchema, toolSlugSchema } from "@leafmesh/protocol";
import * as z from "zod";
import { endpointAddress, headerName, headerValue } from "./schema-parts.ts";

/** Tools that one agent may list: what model services take is not much more. */
export const MAX_TOOLS_PER_AGENT = 64;

export const toolSchema = z.strictObject({
  kind: z.literal("http").default("http").meta({ description: "How the mesh executes the tool: it calls an address." }),
  client_owned: z.boolean().default(false).meta({
    description:
      "The client that submits the run executes the tool, not the mesh. Such a tool has no `url`, `headers` and `requires_approval`.",
  }),
  description: z
    .string()
    .min(1, "must not be empty")
    .max(4_000)
    .meta({ description: "What the model reads about it." }),
  input_schema: z
    .record(z.string(), z.any())
    .refine(
      (schema) => toolInputSchema.safeParse(schema).success,
      "must be a JSON Schema of type object, at most 16 KiB",
    )
    .meta({ description: "JSON Schema of the arguments. The model sees it as it is." }),
  effect: z.enum(["read", "write"]).default("read").meta({ description: "Whether the tool changes something." }),
  url: endpointAddress.optional().meta({
    description:
      "Address that the arguments are POSTed to as JSON; the answer's text is the result. Without TLS only near.",
    documentedDefault: "**required** unless `client_owned`",
  }),
  headers: z
    .record(headerName, headerValue)
    .optional()
    .meta({ description: "More headers for every call.", documentedDefault: "none" }),
  requires_approval: z.boolean().optional().meta({
    description: "Whether the run waits for a person who approves the call.",
    documentedDefault: "true with `effect: write`, else false",
  }),
});
export type ToolFile = z.output<typeof toolSchema>;

export const agentToolsSchema = z
  .array(toolSlugSchema)
  .max(MAX_TOOLS_PER_AGENT, `must list at most ${MAX_TOOLS_PER_AGENT} tools`)
  .optional()
  .meta({
    description: "Tools that the agent may call: names of entries of `tools`, or of tools declared with `POST /tools`.",
    documentedDefault: "none",
  });

export const toolsSchema = z.record(toolSlugSchema, toolSchema).default({}).meta({
  description: "Tools that agents may list, by name: the mesh calls an address, or the client executes them.",
});

export const callbacksSchema = z.strictObject({
  url: endpointAddress.optional().meta({
    description:
      "Where your app is told that a device's push token is dead, so that it can forget it. Without TLS only near.",
    documentedDefault: "none, it is told on the session's stream alone",
  }),
  secret: secretString("What notices are signed with.").optional().meta({
    documentedDefault:
      "`LEAFMESH_WEBHOOK_SECRET`; without either there is no `url`, and no run may name a `callback_url`",
  }),
  allow: z
    .array(
      z
        .string()
        .regex(
          /^https?:\/\/([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(:(\d{1,5}|\*))?$/,
          "must be an origin such as http://127.0.0.1:9000, or http://127.0.0.1:* for any port",
        ),
    )
    .default([])
    .meta({
      description:
        "Origins that a `callback_url` may lead to although they are not https or not in the public internet: for tests and for services of your own network.",
    }),
});
