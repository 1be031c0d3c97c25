/** A mesh, as a program calls it. */
import {
  type AskView,
  askViewSchema,
  type Clock,
  type createSessionSchema,
  type createToolSchema,
  type MeshKey,
  type MeshReply,
  meshKeySchema,
  type meshRequestSchema,
  randomId,
  runAcceptedSchema,
  type Secret,
  type SessionView,
  sessionCreatedSchema,
  sessionViewSchema,
  type submitRunSchema,
  systemClock,
  type ToolView,
  toolViewSchema,
} from "@leafmesh/protocol";
import * as z from "zod";
import { LeafMeshError } from "./errors.ts";
import type { FollowOptions } from "./follow.ts";
import { type MessageStream, readRun, replyTo, streamMessage } from "./message-stream.ts";
import { createRun, type Run, type SubmitOptions } from "./run.ts";
import { type AsksQuery, asksSchema, createSession, type Session } from "./session.ts";
import { type CallOptions, createTransport } from "./transport.ts";

export interface ClientOptions {
  /** Where the mesh is, such as `http://127.0.0.1:18820`. */
  readonly url: string;
  /** One of the mesh's API keys. Kept where it cannot be printed. */
  readonly apiKey?: string | Secret | undefined;
  readonly fetch?: typeof globalThis.fetch | undefined;
  readonly clock?: Clock | undefined;
  /** 0 to 1, exclusive; spreads the waits of many clients. */
  readonly random?: (() => number) | undefined;
  /** How often a call that can be repeated without harm is tried; 4 times unless given. Streams come back for ever. */
  readonly maxTries?: number | undefined;
}

export type MessageBody = Omit<z.input<typeof meshRequestSchema>, "stream">;
export type SessionBody = z.input<typeof createSessionSchema>;
export type RunBody = z.input<typeof submitRunSchema>;
export type ToolBody = z.input<typeof createToolSchema>;

export interface EntryPoints {
  readonly mesh: string;
  readonly entry_points: readonly {
    readonly name: string;
    readonly target: string;
    readonly description?: string | undefined;
  }[];
}

export interface UploadBody {
  readonly name: string;
  readonly token: string | Secret;
  /** JPEG, PNG, WebP or GIF, JSON or plain text. */
  readonly mediaType: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

export type Health = z.infer<typeof healthSchema>;

/**
 * Every method rejects with a {@link LeafMeshError}, or with the reason of an aborted signal. What can be repeated without
 * harm is tried again by itself when the failure may pass; nothing else is.
 */
export interface Client {
  readonly url: string;
  /** One message in, the agent's reply out, over lost connections too. `timeoutMs` is how long a run may take: an hour. */
  request(body: MessageBody, options?: CallOptions): Promise<MeshReply>;
  /** One message in, what happens out, until the run has ended. */
  stream(body: MessageBody, options?: Omit<FollowOptions, "after">): MessageStream;
  entryPoints(options?: CallOptions): Promise<EntryPoints>;
  readonly sessions: {
    create(body?: SessionBody, options?: CallOptions): Promise<Session>;
    /** Newest first. `before` is the `created_at` of the last one seen. */
    list(
      query?: { readonly limit?: number; readonly before?: number },
      options?: CallOptions,
    ): Promise<readonly SessionView[]>;
  };
  /** A conversation that exists. */
  session(id: string): Session;
  readonly runs: {
    submit(body: RunBody, options?: SubmitOptions): Promise<Run>;
    /** How a run of a conversation stands. */
    get(id: string, options?: CallOptions): Promise<MeshReply>;
    /** Ends a run of a conversation. */
    cancel(id: string, options?: CallOptions): Promise<void>;
  };
  /** A run that exists, of those that were submitted by themselves. */
  run(id: string): Run;
  readonly tools: {
    /** Declares a tool that clients execute. The same declaration again is no error. */
    create(body: ToolBody, options?: CallOptions): Promise<ToolView>;
    /** Those of mesh.yaml and of the API, by slug. */
    list(options?: CallOptions): Promise<readonly ToolView[]>;
    /** Removes one that was declared here. Rejects with 409 while agents list it, unless forced. */
    delete(slug: string, options?: CallOptions & { readonly force?: boolean | undefined }): Promise<void>;
  };
  readonly asks: {
    /** Across conversations, newest first. */
    list(query?: AsksQuery, options?: CallOptions): Promise<readonly AskView[]>;
    get(id: string, options?: CallOptions): Promise<AskView>;
    /** Rejects with 409 when the ask has its outcome already. */
    cancel(id: string, options?: CallOptions): Promise<void>;
    /** Brings a file for the reply of an ask, with the one-use token of its task. The device kit does this by itself. */
    upload(id: string, file: UploadBody, options?: CallOptions): Promise<void>;
  };
  /** Whether the process is alive. */
  health(options?: CallOptions): Promise<Health>;
  /** Whether the mesh takes work, and why not. */
  ready(options?: CallOptions): Promise<Health>;
  /** The API as OpenAPI 3.1. */
  openapi(options?: CallOptions): Promise<unknown>;
  /** Public keys by which a device recognises the mesh's rings. */
  keys(options?: CallOptions): Promise<readonly MeshKey[]>;
}

const healthSchema = z.object({ status: z.string(), reason: z.string().optional() });
const anything = z.unknown();
const entryPointsSchema = z.object({
  mesh: z.string(),
  entry_points: z.array(z.object({ name: z.string(), target: z.string(), description: z.string().optional() })),
});

/** Asks the mesh nothing yet. Throws a `TypeError` for an `url` that is none. */
export function createClient(options: ClientOptions): Client {
  const transport = createTransport({
    url: options.url,
    apiKey: options.apiKey,
    // Called as a method of another object, a browser's own fetch refuses to work.
    fetch: options.fetch ?? ((input, init) => globalThis.fetch(input, init)),
    clock: options.clock ?? systemClock,
    random: options.random ?? Math.random,
    maxTries: options.maxTries ?? 4,
  });
  const get = <Schema extends z.ZodType>(path: string, schema: Schema, more: CallOptions & { query?: object } = {}) =>
    transport.call({ ...more, query: { ...more.query }, method: "GET", path, safe: true }, schema);

  return {
    url: transport.url,
    request: (body, more = {}) => replyTo(transport, body, more),
    stream: (body, more = {}) => streamMessage(transport, body, more),
    entryPoints: (more) => get("/api/mesh/entry_points", entryPointsSchema, more),

    sessions: {
      async create(body = {}, more) {
        const request = { ...more, method: "POST", path: "/api/sessions", json: body, safe: false } as const;
        return createSession((await transport.call(request, sessionCreatedSchema)).session_id, transport);
      },
      async list(query = {}, more) {
        const schema = z.object({ sessions: z.array(sessionViewSchema) });
        return (await get("/api/sessions", schema, { ...more, query })).sessions;
      },
    },
    session: (id) => createSession(id, transport),

    runs: {
      async submit(body, { idempotencyKey = randomId("submit"), ...more } = {}) {
        const headers = { "idempotency-key": idempotencyKey };
        const request = { ...more, method: "POST", path: "/runs", json: body, headers, safe: true } as const;
        return createRun((await transport.call(request, runAcceptedSchema)).run_id, transport);
      },
      get: (id, more) => readRun(transport, id, more),
      async cancel(id, more) {
        const path = `/api/runs/${encodeURIComponent(id)}/cancel`;
        await transport.call({ ...more, method: "POST", path, json: {}, safe: true }, anything);
      },
    },
    run: (id) => createRun(id, transport),

    tools: {
      create: (body, more) =>
        transport.call({ ...more, method: "POST", path: "/tools", json: body, safe: true }, toolViewSchema),
      list: async (more) => (await get("/tools", z.object({ tools: z.array(toolViewSchema) }), more)).tools,
      delete: (slug, { force, ...more } = {}) =>
        transport.send({
          ...more,
          method: "DELETE",
          path: `/tools/${encodeURIComponent(slug)}`,
          query: { force },
          safe: false,
        }),
    },

    asks: {
      list: async (query = {}, more) => (await get("/api/asks", asksSchema, { ...more, query })).asks,
      get: (id, more) => get(`/api/asks/${encodeURIComponent(id)}`, askViewSchema, more),
      async cancel(id, more) {
        const path = `/api/asks/${encodeURIComponent(id)}/cancel`;
        await transport.call({ ...more, method: "POST", path, json: {}, safe: false }, anything);
      },
      async upload(id, { name, token, mediaType, bytes }, more) {
        const path = `/api/asks/${encodeURIComponent(id)}/uploads/${encodeURIComponent(name)}`;
        const secret = typeof token === "string" ? token : token.reveal();
        const headers = { authorization: `Bearer ${secret}`, "content-type": mediaType };
        await transport.call({ ...more, method: "PUT", path, bytes, headers, safe: false }, anything);
      },
    },

    health: (more) => get("/healthz", healthSchema, more),
    async ready(more) {
      try {
        return await transport.call({ ...more, method: "GET", path: "/readyz", safe: false }, healthSchema);
      } catch (error) {
        // Not being ready is an answer, not a failure.
        const answer =
          error instanceof LeafMeshError && error.status === 503 ? healthSchema.safeParse(error.body) : undefined;
        if (answer?.success) return answer.data;
        throw error;
      }
    },
    openapi: (more) => get("/openapi.json", anything, more),
    keys: async (more) =>
      (await get("/.well-known/leafmesh-keys", z.object({ keys: z.array(meshKeySchema) }), more)).keys,
  };
}
