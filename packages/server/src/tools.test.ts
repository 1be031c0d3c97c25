/** Declaring tools that clients execute, over real HTTP. */
import { afterEach, describe, expect, it } from "vitest";
import { asks, HIGHLIGHT, isType, type RunsServer, says, startRunsServer } from "./test-runs.ts";

const open: RunsServer[] = [];
afterEach(async () => {
  for (const server of open.splice(0)) await server.close();
});

async function start(...more: Parameters<typeof startRunsServer>) {
  const server = await startRunsServer(...more);
  open.push(server);
  return server;
}

const TOOL = {
  slug: "fill_form",
  kind: "http",
  client_owned: true,
  effect: "read",
  description: "Fill a form of the page the visitor is looking at.",
  input_schema: { type: "object", properties: { selector: { type: "string" } }, required: ["selector"] },
  config: { schema_version: 1 },
};

describe("POST /tools", () => {
  it("declares a tool that an agent lists, and its client executes", async () => {
    const server = await start([asks(["fill_form"]), says("Filled.")], {
      agents: { helper: { tools: ["fill_form"] } },
    });
    const created = await server.call("POST", "/tools", { json: TOOL });
    expect(created.status).toBe(201);
    expect(created.body).toEqual({ ...TOOL, source: "api" });
    const runId = await server.submit();
    await server.frames(runId, isType("suspend"));
    expect(server.requests[0]?.tools).toEqual([
      { name: "fill_form", description: TOOL.description, parameters: TOOL.input_schema },
    ]);
    await server.resume(runId, [{ tool_call_id: "call-1", content: "filled" }]);
    expect((await server.frames(runId, isType("run.end"))).at(-1)?.data.status).toBe("succeeded");
  });

  it("takes the same declaration again, and refuses another under the slug", async () => {
    const server = await start([]);
    const both = await Promise.all([1, 2].map(() => server.call("POST", "/tools", { json: TOOL })));
    expect(both.map(({ status }) => status)).toEqual([201, 201]);
    const other = await server.call("POST", "/tools", { json: { ...TOOL, description: "Other." } });
    expect([other.status, other.body.code]).toEqual([409, "tool_exists"]);
    const ofFile = await server.call("POST", "/tools", { json: { ...TOOL, slug: HIGHLIGHT.name } });
    expect([ofFile.status, ofFile.body.code]).toEqual([409, "tool_exists"]);
  });

  it.each([
    ["slug", { slug: "two words" }],
    ["slug", { slug: "device_lock" }],
    ["client_owned", { client_owned: false }],
    ["client_owned", { client_owned: undefined }],
    ["effect", { effect: "destroy" }],
    ["description", { description: " " }],
    ["input_schema.type", { input_schema: { type: "array" } }],
    ["input_schema", { input_schema: { type: "object", description: "x".repeat(20_000) } }],
    ["config.url", { config: { schema_version: 1, url: "https://x.example" } }],
    ["requires_approval", { requires_approval: true }],
  ])("refuses a wrong %s", async (field, change) => {
    const server = await start([]);
    const { status, body } = await server.call("POST", "/tools", { json: { ...TOOL, ...change } });
    expect(status).toBe(422);
    expect(body).toMatchObject({ code: "validation_failed", details: { errors: [{ field }] } });
    expect((await server.call("GET", "/tools")).body.tools.map(({ slug }: { slug: string }) => slug)).toEqual([
      "highlight",
      "scroll",
    ]);
  });
});

describe("the declared tools", () => {
  it("are listed with those of the file, and removed by their owner", async () => {
    const server = await start([], { apiKeys: ["one", "two"] });
    const as = (key: string) => ({ headers: { "x-api-key": key } });
    await server.call("POST", "/tools", { json: TOOL, ...as("one") });
    const { body } = await server.call("GET", "/tools", as("two"));
    expect(body.tools.map(({ slug, source }: { slug: string; source: string }) => `${slug} ${source}`)).toEqual([
      "fill_form api",
      "highlight file",
      "scroll file",
    ]);
    const foreign = await server.call("DELETE", "/tools/fill_form", as("two"));
    expect([foreign.status, foreign.body.code]).toEqual([404, "no_such_tool"]);
    expect((await server.call("DELETE", "/tools/fill_form", as("one"))).status).toBe(204);
    expect((await server.call("DELETE", "/tools/fill_form", as("one"))).status).toBe(404);
  });

  it("are not removed while an agent lists them, unless told to", async () => {
    const server = await start([], { agents: { helper: { tools: ["fill_form"] } } });
    await server.call("POST", "/tools", { json: TOOL });
    const used = await server.call("DELETE", "/tools/fill_form");
    expect(used.status).toBe(409);
    expect(used.body).toMatchObject({ code: "tool_in_use", details: { agents: ["helper"] } });
    expect((await server.call("DELETE", "/tools/fill_form?force=true")).status).toBe(204);
  });
});
