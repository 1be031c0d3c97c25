/** Puts the routes behind a router, with access control and one way to answer errors. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { StorageError } from "@leafmesh/core";
import { createAccessControl } from "./access.ts";
import { parseWith, readJson } from "./body.ts";
import type { ApiDependencies } from "./dependencies.ts";
import { ApiError } from "./errors.ts";
import { describeRoutes } from "./openapi.ts";
import { type Route, type RouteAnswer, SECURITY_HEADERS } from "./route.ts";
import { createRouter, type Found } from "./router.ts";
import { askRoutes } from "./routes/asks.ts";
import { deviceToolRoutes } from "./routes/device-tools.ts";
import { linkRoutes } from "./routes/links.ts";
import { meshRoutes } from "./routes/mesh.ts";
import { operationRoutes } from "./routes/operations.ts";
import { roomCallbackRoutes } from "./routes/room-callbacks.ts";
import { runRoutes } from "./routes/runs.ts";
import { sessionRoutes } from "./routes/sessions.ts";
import { toolRoutes } from "./routes/tools.ts";
import { createStreamLimit } from "./stream-limit.ts";

/** How long a client may go on with a body after its answer, before its connection is cut. */
const UNREAD_BODY_MS = 1_000;

export interface Api {
  /** Answers one request, whatever it is; never rejects. */
  handle(request: IncomingMessage, response: ServerResponse): Promise<void>;
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
    ...deviceToolRoutes(dependencies),
    ...toolRoutes(dependencies),
    ...runRoutes(dependencies, streams),
    ...askRoutes(dependencies),
    ...linkRoutes(dependencies),
    ...roomCallbackRoutes(dependencies),
    ...operationRoutes(dependencies, () => {
      document ??= describeRoutes(routes, dependencies.version, settings.apiKeys.length > 0);
      return document;
    }),
  ];

  const router = createRouter(routes);

  const answer = async (
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    found: Found,
    search: string,
  ): Promise<RouteAnswer> => {
    if (incoming.method === "OPTIONS") return answerPreflight(access.allowedOrigin(incoming));
    if (found.kind === "unknown") {
      throw new ApiError(404, "no_such_route", "There is no such route; see /openapi.json.");
    }
    if (found.kind === "wrong_method") {
      const allow = found.methods.join(", ");
      throw new ApiError(405, "method_not_allowed", `Use ${allow} here.`, { headers: { allow } });
    }
    const { route, params } = found;
    if (route.access !== "own") access.checkOrigin(incoming);
    const caller = route.access === "key" ? access.authenticate(incoming) : { owner: undefined };
    const query = route.query ? parseWith(route.query, firstOfEach(search)) : undefined;
    const body = route.body ? await readJson(incoming, route.body, route.maxBodyBytes) : undefined;
    const origin = access.allowedOrigin(incoming);
    if (origin) outgoing.setHeader("access-control-allow-origin", origin);
    const gone = new AbortController();
    outgoing.once("close", () => {
      if (!outgoing.writableFinished) gone.abort();
    });
    return route.handle({ params, body, query, caller, incoming, outgoing, signal: gone.signal });
  };

  return {
    routes,
    async handle(incoming, outgoing) {
      const { path, search } = splitTarget(incoming.url ?? "/");
      const found = router.find(incoming.method ?? "GET", path);
      const route = found.kind === "route" ? found.route : undefined;
      try {
        const answered = await answer(incoming, outgoing, found, search);
        if (!("streamed" in answered)) send(outgoing, answered);
      } catch (error) {
        if (outgoing.destroyed) return;
        const refused = toApiError(error, dependencies);
        if (outgoing.headersSent) outgoing.destroy();
        else {
          const body = route?.errorBody ? route.errorBody(refused) : refused.toBody();
          send(outgoing, { status: refused.status, headers: refused.headers, body });
        }
      }
    },
  };
}

/** Path and query of a request line; a proxy's form with the whole address in it, too. */
function splitTarget(target: string): { readonly path: string; readonly search: string } {
  const local = target.startsWith("/") ? target : target.replace(/^[a-z]+:\/\/[^/?#]*/i, "");
  const [path = "", ...search] = local.split("?");
  return { path, search: search.join("?") };
}

/** Of a name that is given more than once, the first. */
function firstOfEach(search: string): Readonly<Record<string, string>> {
  return Object.fromEntries([...new URLSearchParams(search)].reverse());
}

function answerPreflight(origin: string | undefined): RouteAnswer {
  if (!origin) return { status: 403 };
  return {
    status: 204,
    headers: {
      "access-control-allow-origin": origin,
      "access-control-allow-methods": "GET, POST, PUT, DELETE",
      "access-control-allow-headers":
        "content-type, x-api-key, last-event-id, authorization, x-mewbo-capabilities, idempotency-key",
      "access-control-max-age": "600",
      vary: "origin",
    },
  };
}

function send(outgoing: ServerResponse, { status, body, headers }: Exclude<RouteAnswer, { streamed: true }>): void {
  if (outgoing.destroyed) return;
  // A text goes out in one piece with the headers; bytes would be a second one.
  const text = body === undefined ? "" : JSON.stringify(body);
  outgoing.writeHead(status, {
    ...(body === undefined ? {} : { "content-type": "application/json" }),
    ...(status === 204 ? {} : { "content-length": Buffer.byteLength(text) }),
    ...SECURITY_HEADERS,
    ...headers,
  });
  outgoing.end(text);
  if (!outgoing.req.complete) outgoing.once("finish", () => stopReading(outgoing.req));
}

/** What is left of a body that nobody reads is thrown away, for as long as an honest client needs to notice. */
function stopReading(incoming: IncomingMessage): void {
  const cut = setTimeout(() => incoming.socket.destroy(), UNREAD_BODY_MS);
  incoming.once("close", () => clearTimeout(cut));
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
