// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references are what some tests are about
import { describe, expect, it } from "vitest";
import { toolsMesh } from "./reference-prose.ts";
import { everythingShown, headlines, loadText, meshOf } from "./test-support.ts";

const agent = (tools: string) => `agents: { helper: { model: m, prompt: p, tools: ${tools} } }\n`;
const client = "{ client_owned: true, description: d, input_schema: { type: object } }";

describe("tools of the file", () => {
  it("are what the reference shows", () => {
    const mesh = meshOf(loadText(toolsMesh, { env: { OPENAI_API_KEY: "k", CRM_TOKEN: "token-of-the-crm" } }));
    expect(mesh.agents.get("site_guide")?.tools).toEqual(["highlight", "book_call"]);
    expect(mesh.tools?.get("highlight")).toEqual({
      kind: "client",
      name: "highlight",
      description: "Highlight an element of the page the visitor is looking at.",
      inputSchema: { type: "object", properties: { selector: { type: "string" } }, required: ["selector"] },
      effect: "read",
    });
    const booking = mesh.tools?.get("book_call");
    if (booking?.kind !== "http") throw new Error("not a tool of the mesh");
    expect(booking).toMatchObject({ url: "https://crm.example.com/calls", effect: "write", requiresApproval: true });
    expect(booking.headers?.Authorization?.reveal()).toBe("Bearer token-of-the-crm");
  });

  it("that read need no approval, unless they say so", () => {
    const mesh = meshOf(
      loadText(`${agent("[a, b]")}tools:
  a: { url: "https://x.example", description: d, input_schema: { type: object } }
  b: { url: "https://x.example", description: d, input_schema: { type: object }, requires_approval: true }
`),
    );
    expect(mesh.tools?.get("a")).toMatchObject({ requiresApproval: false, effect: "read" });
    expect(mesh.tools?.get("b")).toMatchObject({ requiresApproval: true });
  });

  it("of a client take nothing that only the mesh could use", () => {
    const loaded = loadText(
      `${agent("[a]")}tools: { a: { client_owned: true, description: d, input_schema: { type: object }, requires_approval: true, url: "https://x.example" } }\n`,
    );
    expect(loaded.ok).toBe(false);
    expect(headlines(loaded)).toEqual([
      "mesh.yaml:2:102 tools.a.requires_approval: a call of a client-owned tool is never held for an approval: the mesh does not execute it; remove it; the client asks its person itself",
      "mesh.yaml:2:113 tools.a.url: a client-owned tool is never called by the mesh; remove it, or client_owned",
    ]);
  });

  it.each([
    ["{ description: d, input_schema: { type: object } }", 'tools.a: the key "url" is missing'],
    ["{ client_owned: true, description: d }", 'tools.a: the key "input_schema" is missing'],
    [
      "{ client_owned: true, description: d, input_schema: { type: array } }",
      "tools.a.input_schema: must be a JSON Schema of type object",
    ],
    ["{ url: ftp://x, description: d, input_schema: { type: object } }", "tools.a.url: must be an address"],
  ])("%s is refused with its place", (tool, said) => {
    const loaded = loadText(`${agent("[a]")}tools: { a: ${tool} }\n`);
    expect(loaded.ok).toBe(false);
    expect(headlines(loaded)[0]).toContain(said);
  });

  it.each(["device_action", "device_x", "two words", "a.b", "x".repeat(65)])("cannot be called %s", (name) => {
    expect(loadText(`${agent("[]")}tools: { "${name}": ${client} }\n`).ok).toBe(false);
  });

  it("that no agent lists are worth a word", () => {
    expect(headlines(loadText(`${agent("[]")}tools: { a: ${client} }\n`))).toEqual([
      "mesh.yaml:2:10 warning: tools.a: no agent lists this tool",
    ]);
  });

  it("keep their headers to themselves", () => {
    const loaded = loadText(
      `${agent("[a]")}tools: { a: { url: "https://x.example", description: d, input_schema: {}, headers: { Authorization: Bearer-secret-1 } } }\n`,
    );
    expect(loaded.ok).toBe(false);
    expect(everythingShown(loaded)).not.toContain("Bearer-secret-1");
  });
});

describe("tools that an agent lists", () => {
  const mesh = `${agent("[highlihgt, b]")}tools: { highlight: ${client} }\n`;

  it("and nobody declares are a warning without a store, with the nearest name", () => {
    const loaded = loadText(mesh);
    expect(loaded.ok).toBe(true);
    expect(headlines(loaded)[0]).toBe(
      'mesh.yaml:1:50 warning: agents.helper.tools[0]: there is no tool "highlihgt" in this file; did you mean "highlight"?',
    );
  });

  it("are an error where the store is known, unless it has them", () => {
    const loaded = loadText(mesh, { knownTools: new Set(["b"]) });
    expect(loaded.ok).toBe(false);
    expect(headlines(loaded)[0]).toContain('agents.helper.tools[0]: there is no tool "highlihgt"');
    expect(headlines(loaded).join()).not.toContain("tools[1]");
  });

  it("are listed once", () => {
    const loaded = loadText(`${agent("[a, a]")}tools: { a: ${client} }\n`);
    expect(headlines(loaded)).toEqual([
      "mesh.yaml:1:53 agents.helper.tools[1]: this tool is listed above; list each tool once",
    ]);
  });
});

describe("callbacks", () => {
  it("are signed with the file's secret, or the environment's", () => {
    const file = `${agent("[]")}server: { callbacks: { secret: "\${HOOK}", allow: ["http://127.0.0.1:*"] } }\n`;
    const env = { OPENAI_API_KEY: "k", HOOK: "from-the-file", LEAFMESH_WEBHOOK_SECRET: "from-the-environment" };
    const written = meshOf(loadText(file, { env })).server.callbacks;
    expect(written?.secret?.reveal()).toBe("from-the-file");
    expect(written?.allow).toEqual(["http://127.0.0.1:*"]);
    const fallback = meshOf(loadText(agent("[]"), { env })).server.callbacks;
    expect(fallback?.secret?.reveal()).toBe("from-the-environment");
    expect(meshOf(loadText(agent("[]"))).server.callbacks).toBeUndefined();
  });

  it("may go to an address of the operator's own, when something signs them", () => {
    const file = (more: string) => `${agent("[]")}server: { callbacks: { url: "https://app.example/hook"${more} } }\n`;
    expect(meshOf(loadText(file(", secret: s"))).server.callbacks?.url).toBe("https://app.example/hook");
    const env = { OPENAI_API_KEY: "k", LEAFMESH_WEBHOOK_SECRET: "from-the-environment" };
    expect(meshOf(loadText(file(""), { env })).server.callbacks?.url).toBe("https://app.example/hook");
    expect(headlines(loadText(file("")))).toEqual([
      expect.stringMatching(
        /server\.callbacks\.url: nothing signs the notices that go there; set server\.callbacks\.secret or/,
      ),
    ]);
  });

  it.each(["127.0.0.1", "http://x/path", "ftp://x", "http://x:port", "*"])(
    "cannot be allowed to go to %s",
    (origin) => {
      expect(loadText(`${agent("[]")}server: { callbacks: { allow: ["${origin}"] } }\n`).ok).toBe(false);
    },
  );
});
