/** One route of the API: what the server does and what `/openapi.json` says come from the same record. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type * as z from "zod";
import type { ApiError } from "./errors.ts";

export interface Caller {
  /** Name of the API key; `undefined` on a mesh without keys. */
  readonly owner: string | undefined;
}

/** What a handler is given. `body` and `query` are parsed by the route's schemas. */
export interface RouteRequest<Body, Query> {
  readonly params: Readonly<Record<string, string>>;
  readonly body: Body;
  readonly query: Query;
  readonly caller: Caller;
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  /** Aborted when the client is gone. */
  readonly signal: AbortSignal;
}

/** A handler either returns its answer or takes the response over (`streamed`) and writes it itself. */
export type RouteAnswer =
  | { readonly status: number; readonly body?: unknown; readonly headers?: Readonly<Record<string, string>> }
  | { readonly streamed: true };

export interface Answer {
  readonly description: string;
  readonly schema?: z.ZodType;
  readonly contentType?: string;
}

export interface Route {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** With `{name}` for parameters, as OpenAPI writes it. */
  readonly path: string;
  readonly summary: string;
  readonly description?: string | undefined;
  readonly tag: string;
  /** `key`: the X-API-Key header where keys are configured; `none`: open; `own`: the handler checks a token of its own. */
  readonly access: "key" | "none" | "own";
  readonly body?: z.ZodType | undefined;
  /** JSON that the handler reads itself: only for the document. */
  readonly documentedBody?: z.ZodType | undefined;
  /** Bodies that are not JSON: only for the document, the handler reads them. */
  readonly rawBody?: readonly string[] | undefined;
  readonly query?: z.ZodObject | undefined;
  readonly maxBodyBytes: number;
  readonly answers: Readonly<Record<number, Answer>>;
  /** The body of a refusal; as everywhere else unless given. */
  errorBody?(error: ApiError): unknown;
  handle(request: RouteRequest<unknown, unknown>): Promise<RouteAnswer>;
}

/** Of every answer. */
export const SECURITY_HEADERS = { "x-content-type-options": "nosniff", "referrer-policy": "no-referrer" };

export const MAX_BODY_BYTES = 1024 * 1024;

type RouteInput<Body extends z.ZodType | undefined, Query extends z.ZodObject | undefined> = Omit<
  Route,
  "body" | "query" | "handle" | "maxBodyBytes"
> & {
  readonly body?: Body;
  readonly query?: Query;
  readonly maxBodyBytes?: number;
  handle(
    request: RouteRequest<
      Body extends z.ZodType ? z.output<Body> : undefined,
      Query extends z.ZodType ? z.output<Query> : undefined
    >,
  ): Promise<RouteAnswer>;
};

/** Declares a route with its handler typed by its schemas. */
export function defineRoute<
  Body extends z.ZodType | undefined = undefined,
  Query extends z.ZodObject | undefined = undefined,
>(route: RouteInput<Body, Query>): Route {
  return { maxBodyBytes: MAX_BODY_BYTES, ...route } as Route;
}
