import type { Route } from "./route.ts";

/** OpenAPI 3.1 of the routes, from the schemas they parse with. Its library is loaded on the first request for it. */
export async function describeRoutes(routes: readonly Route[], version: string, hasKeys: boolean): Promise<unknown> {
  const { createDocument } = await import("zod-openapi");
  const paths: Record<string, Record<string, object>> = {};
  for (const route of routes) {
    paths[route.path] = { ...paths[route.path], [route.method.toLowerCase()]: describe(route, hasKeys) };
  }
  return createDocument({
    openapi: "3.1.1",
    info: {
      title: "LeafMesh",
      version,
      description: "Talk to a mesh of agents, and let them ask the conversation's devices to act.",
    },
    paths,
    components: {
      securitySchemes: { apiKey: { type: "apiKey", in: "header", name: "X-API-Key" } },
    },
  });
}

function describe(route: Route, hasKeys: boolean): object {
  const names = [...route.path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? "");
  return {
    operationId: `${route.method.toLowerCase()}${route.path.replace(/[^A-Za-z0-9]+(\w)?/g, (_, letter = "") => letter.toUpperCase())}`,
    summary: route.summary,
    ...(route.description ? { description: route.description } : {}),
    tags: [route.tag],
    ...(route.access === "key" && hasKeys ? { security: [{ apiKey: [] }] } : {}),
    ...(names.length > 0
      ? { parameters: names.map((name) => ({ name, in: "path", required: true, schema: { type: "string" } })) }
      : {}),
    ...(route.query ? { requestParams: { query: route.query } } : {}),
    ...describeBody(route.body ?? route.documentedBody),
    ...(route.rawBody
      ? {
          requestBody: {
            required: true,
            content: Object.fromEntries(
              route.rawBody.map((type) => [type, { schema: { type: "string", format: "binary" } }]),
            ),
          },
        }
      : {}),
    responses: Object.fromEntries(
      Object.entries(route.answers).map(([status, answer]) => [
        status,
        {
          description: answer.description,
          ...(answer.schema || answer.contentType
            ? {
                content: { [answer.contentType ?? "application/json"]: answer.schema ? { schema: answer.schema } : {} },
              }
            : {}),
        },
      ]),
    ),
  };
}

function describeBody(schema: Route["body"]): object {
  return schema ? { requestBody: { required: true, content: { "application/json": { schema } } } } : {};
}
