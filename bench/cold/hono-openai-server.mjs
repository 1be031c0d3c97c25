// The same with a model client, as most agent servers import one when they start.
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import OpenAI from "openai";

const client = new OpenAI({ apiKey: "not-a-real-key", baseURL: "http://127.0.0.1:9/v1" });
const app = new Hono();
app.get("/readyz", (context) => context.json({ status: client ? "ready" : "not ready" }));
serve({ fetch: app.fetch, port: Number(process.env.PORT), hostname: "127.0.0.1" });
