import { meshKeySchema } from "@leafmesh/protocol";
import * as z from "zod";
import type { ApiDependencies } from "../dependencies.ts";
import { defineRoute, type Route } from "../route.ts";

const health = z.object({ status: z.string(), reason: z.string().optional() });

export function operationRoutes(api: ApiDependencies, document: () => Promise<unknown>): readonly Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/healthz",
      summary: "The process is alive",
      tag: "operations",
      access: "none",
      answers: { 200: { description: "Alive.", schema: health } },
      async handle() {
        return { status: 200, body: { status: "ok" } };
      },
    }),

    defineRoute({
      method: "GET",
      path: "/readyz",
      summary: "The mesh takes work",
      tag: "operations",
      access: "none",
      answers: {
        200: { description: "Started, storage writable.", schema: health },
        503: { description: "Starting, stopping, or storage failed; `reason` says which.", schema: health },
      },
      async handle() {
        if (!api.isReady()) return { status: 503, body: { status: "unavailable", reason: "starting or stopping" } };
        try {
          await api.backend.probe();
        } catch (error) {
          api.logger.error("storage is not usable", { error });
          return { status: 503, body: { status: "unavailable", reason: "storage is not usable; see the log" } };
        }
        return { status: 200, body: { status: "ok" } };
      },
    }),

    defineRoute({
      method: "GET",
      path: "/.well-known/leafmesh-keys",
      summary: "Public keys by which a device recognises this mesh's rings",
      tag: "operations",
      access: "none",
      answers: { 200: { description: "Ed25519 keys.", schema: z.object({ keys: z.array(meshKeySchema) }) } },
      async handle() {
        return { status: 200, body: { keys: api.meshKeys }, headers: { "cache-control": "public, max-age=300" } };
      },
    }),

    defineRoute({
      method: "GET",
      path: "/openapi.json",
      summary: "This document",
      tag: "operations",
      access: "none",
      answers: { 200: { description: "OpenAPI 3.1." } },
      async handle() {
        return { status: 200, body: await document() };
      },
    }),
  ];
}
