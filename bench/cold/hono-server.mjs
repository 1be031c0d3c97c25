// An empty server on the router that LeafMesh uses: what any server built on it starts with.
import { serve } from "@hono/node-server";
import { Hono } from "hono";

const app = new Hono();
app.get("/readyz", (context) => context.json({ status: "ready" }));
serve({ fetch: app.fetch, port: Number(process.env.PORT), hostname: "127.0.0.1" });
