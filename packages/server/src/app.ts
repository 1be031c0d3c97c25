/** Puts the routes behind a router, with access control and one way to answer errors. */
import type { HttpBindings } from "@hono/node-server";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import { StorageError } from "@leafmesh/core";
import { type Context, Hono } from "hono";
import { createAccessControl } from "./access.ts";
import { parseWith, readJson } from "./body.ts";
import type { ApiDependencies } from "./dependencies.ts";
import { ApiError } from "./errors.ts";
import { describeRoutes } from "./openapi.ts";
import type { Route } from "./route.ts";
import { askRoutes } from "./routes/asks.ts";
import { meshRoutes } from "./routes/mesh.ts";
import { operationRoutes } from "./routes/operations.ts";
import { sessionRoutes } from "./routes/sessions.ts";
import { createStreamLimit } from "./stream-limit.ts";

type Env = { Bindings: HttpBindings };

const SECURITY_HEADERS = { "x-content-type-options": "nosniff", "referrer-policy": "no-referrer" };

export interface Api {
  readonly app: Hono<Env>;
  /** What the server answers, for the document and for a test that finds a route without an entry. */
  readonly routes: readonly Route[];
}

export function createApi(dependencies: ApiDependencies): Api {
  const streams = createStreamLimit(() => dependencies.mesh().limits.maxStreams);
  const settings = dependencies.mesh().server;
  const access = createAccessControl(settings);
  let document: Promise<unknown> | undefined;
  const routes: readonly Route[] = [
    ...meshRoutes(dependencies, streams),
    ...sessionRoutes(dependencies, streams),
    ...askRoutes(dependencies),
    ...operationRoutes(dependencies, () => {
      document ??= describeRoutes(routes, dependencies.version, settings.apiKeys.length > 0);
      return document;
    }),
  ];

  const app = new Hono<Env>();

  const answerError = (error: unknown, context: Context<Env>): Response => {
    const answer = toApiError(error, dependencies);
    const { outgoing } = context.env;
    if (outgoing.headersSent) {
      outgoing.destroy();
      return RESPONSE_ALREADY_SENT;
    }
    return context.json(answer.toBody(), answer.status as 400, { ...SECURITY_HEADERS, ...answer.headers });
  };

  for (const route of routes) {
    const path = route.path.replace(/\{(\w+)\}/g, ":$1");
    app.on(route.method, path, async (context) => {
      const { incoming, outgoing } = context.env;
      try {
        if (route.access !== "own") access.checkOrigin(incoming);
        const caller = route.access === "key" ? access.authenticate(incoming) : { owner: undefined };
        const query = route.query ? parseWith(route.query, context.req.query()) : undefined;
        const body = route.body ? await readJson(incoming, route.body, route.maxBodyBytes) : undefined;
        const origin = access.allowedOrigin(incoming);
        if (origin) outgoing.setHeader("access-control-allow-origin", origin);
        const gone = new AbortController();
        outgoing.once("close", () => {
          if (!outgoing.writableFinished) gone.abort();
        });
        const params = context.req.param() as Record<string, string>;
        const answer = await route.handle({ params, body, query, caller, incoming, outgoing, signal: gone.signal });
        if ("streamed" in answer) return RESPONSE_ALREADY_SENT;
        const headers = { ...SECURITY_HEADERS, ...answer.headers };
        if (answer.body === undefined) return context.body(null, answer.status as 204, headers);
        return context.json(answer.body as object, answer.status as 200, headers);
      } catch (error) {
        if (outgoing.destroyed) return RESPONSE_ALREADY_SENT;
        return answerError(error, context);
      }
    });
  }

  app.options("*", (context) => {
    const origin = access.allowedOrigin(context.env.incoming);
    if (!origin) return context.body(null, 403);
    return context.body(null, 204, {
      "access-control-allow-origin": origin,
      "access-control-allow-methods": "GET, POST, PUT, DELETE",
      "access-control-allow-headers": "content-type, x-api-key, last-event-id, authorization",
      "access-control-max-age": "600",
      vary: "origin",
    });
  });

  app.notFound((context) => {
    const known = routes.filter((route) => matches(route.path, context.req.path));
    if (known.length === 0) {
      return answerError(new ApiError(404, "no_such_route", "There is no such route; see /openapi.json."), context);
    }
    const allow = known.map((route) => route.method).join(", ");
    return answerError(new ApiError(405, "method_not_allowed", `Use ${allow} here.`, { headers: { allow } }), context);
  });
  app.onError((error, context) => answerError(error, context));

  return { app, routes };
}

function matches(template: string, path: string): boolean {
  const expected = template.split("/");
  const actual = path.split("/");
  return (
    expected.length === actual.length && expected.every((part, index) => part.startsWith("{") || part === actual[index])
  );
}

function toApiError(error: unknown, { logger }: ApiDependencies): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof StorageError) {
    logger.error("storage failed", { error });
    return new ApiError(503, `storage_${error.code}`, "The mesh's storage failed; the operator's log says why.", {
      headers: { "retry-after": "10" },
    });
  }
  logger.error("a request failed unexpectedly", { error });
  return new ApiError(500, "internal", "Something went wrong inside the mesh; the operator's log says what.");
}
