import { isDeepStrictEqual } from "node:util";
import type { DeclaredTool, ToolRecord } from "@leafmesh/core";
import {
  type CreateTool,
  createToolSchema,
  type FieldError,
  runsErrorSchema,
  type ToolView,
  toolViewSchema,
} from "@leafmesh/protocol";
import * as z from "zod";
import type { ApiDependencies } from "../dependencies.ts";
import { ApiError } from "../errors.ts";
import { flatErrorBody, readFields } from "../flat-errors.ts";
import { defineRoute, MAX_BODY_BYTES, type Route } from "../route.ts";

/** Declared through the API; each is read when an agent that lists it begins to work. */
const MAX_TOOLS = 1_000;

const refused = {
  401: { description: "No valid API key.", schema: runsErrorSchema },
  404: { description: "There is no such tool, or it is not the caller's.", schema: runsErrorSchema },
};

export function toolRoutes({ mesh, backend, clock }: ApiDependencies): readonly Route[] {
  const shared = { tag: "client-executed tools", access: "key", errorBody: flatErrorBody } as const;
  return [
    defineRoute({
      ...shared,
      method: "POST",
      path: "/tools",
      summary: "Declare a tool that clients execute",
      description:
        "An agent of mesh.yaml that lists the slug in its `tools` has it from its next run on. The same declaration again is no error.",
      documentedBody: createToolSchema,
      answers: {
        201: { description: "Declared.", schema: toolViewSchema },
        401: refused[401],
        409: { description: "Another tool has that slug.", schema: runsErrorSchema },
        422: { description: "The body is not as documented.", schema: runsErrorSchema },
      },
      async handle({ caller, incoming }) {
        const wanted = await readFields(incoming, createToolSchema, MAX_BODY_BYTES);
        const tool = toRecord(wanted, caller.owner, clock.nowMs());
        if (mesh().tools?.has(tool.slug)) throw slugTaken(tool.slug, "mesh.yaml declares a tool of that name.");
        const before = await backend.tool(tool.slug);
        if (!before && (await backend.tools()).length >= MAX_TOOLS) {
          throw new ApiError(429, "too_many_tools", `${MAX_TOOLS} tools are declared. Delete one first.`);
        }
        const created = !before && (await backend.commit([{ kind: "tool.create", tool }])).committed;
        const stored = created ? tool : await backend.tool(tool.slug);
        if (!stored || !isSame(stored, tool)) throw slugTaken(tool.slug, "Another tool has that slug.");
        return { status: 201, body: view(stored) };
      },
    }),

    defineRoute({
      ...shared,
      method: "GET",
      path: "/tools",
      summary: "The declared tools, of mesh.yaml and of the API",
      answers: {
        200: { description: "By slug.", schema: z.object({ tools: z.array(toolViewSchema) }) },
        401: refused[401],
      },
      async handle() {
        const ofFile = [...(mesh().tools?.values() ?? [])];
        const names = new Set(ofFile.map(({ name }) => name));
        const stored = (await backend.tools()).filter(({ slug }) => !names.has(slug));
        const tools = [...ofFile.map(viewOfFile), ...stored.map(view)];
        return { status: 200, body: { tools: tools.sort((one, other) => (one.slug < other.slug ? -1 : 1)) } };
      },
    }),

    defineRoute({
      ...shared,
      method: "DELETE",
      path: "/tools/{slug}",
      summary: "Remove a tool that was declared through the API",
      query: z.object({ force: z.stringbool().default(false) }),
      answers: {
        204: { description: "Removed. Runs that wait for its calls go on all the same." },
        ...refused,
        409: {
          description: "Agents list it; `details.agents` names them. `?force=true` removes it.",
          schema: runsErrorSchema,
        },
      },
      async handle({ params, query, caller }) {
        const slug = params.slug ?? "";
        const tool = await backend.tool(slug);
        if (tool?.owner !== caller.owner || !tool) throw new ApiError(404, "no_such_tool", "There is no such tool.");
        const agents = [...mesh().agents.values()]
          .filter((agent) => agent.tools?.includes(slug))
          .map(({ name }) => name);
        if (agents.length > 0 && !query.force) {
          const message = `The tool is listed by ${agents.join(", ")}. Take it out of mesh.yaml first, or send ?force=true.`;
          throw new ApiError(409, "tool_in_use", message, { details: { agents } });
        }
        await backend.commit([{ kind: "tool.delete", slug }]);
        return { status: 204 };
      },
    }),
  ];
}

function toRecord(wanted: CreateTool, owner: string | undefined, createdAt: number): ToolRecord {
  const { slug, kind, effect, description, input_schema: inputSchema, config } = wanted;
  return { slug, kind, owner, clientOwned: true, effect, description, inputSchema, config, createdAt };
}

function isSame(stored: ToolRecord, wanted: ToolRecord): boolean {
  const { createdAt: _, ...left } = stored;
  const { createdAt: __, ...right } = wanted;
  return isDeepStrictEqual({ ...left, owner: left.owner ?? null }, { ...right, owner: right.owner ?? null });
}

function slugTaken(value: string, message: string): ApiError {
  const errors = [{ field: "slug", code: "tool_exists", value }] satisfies FieldError[];
  return new ApiError(409, "tool_exists", message, { details: { errors } });
}

/** JSON columns were written from JSON. */
function view({ slug, kind, clientOwned, effect, description, inputSchema, config }: ToolRecord): ToolView {
  return {
    slug,
    kind,
    client_owned: clientOwned,
    effect,
    description,
    input_schema: inputSchema as ToolView["input_schema"],
    config: config as ToolView["config"],
    source: "api",
  };
}

/** Neither address nor headers of a tool of the mesh are shown. */
function viewOfFile({ name, kind, effect, description, inputSchema }: DeclaredTool): ToolView {
  return {
    slug: name,
    kind: "http",
    client_owned: kind === "client",
    effect,
    description,
    input_schema: inputSchema as ToolView["input_schema"],
    config: {},
    source: "file",
  };
}
