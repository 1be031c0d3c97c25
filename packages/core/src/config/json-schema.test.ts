// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references are written into the meshes
import { Ajv } from "ajv";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { meshJsonSchema } from "./json-schema.ts";
import { loadText, testRegistry } from "./test-support.ts";

const schema = meshJsonSchema(testRegistry);
const accepts = new Ajv({ strict: true, allowUnionTypes: true, strictRequired: false }).compile(schema);

const agent = "agents: { a: { model: m, prompt: p } }\n";
const env = { PORT: "80", FLAG: "true", NAME: "x", URL: "http://h", OPENAI_API_KEY: "k" };

const good: Readonly<Record<string, string>> = {
  "the least": agent,
  "a device block": `connections: { c: { provider: direct } }\nagents: { a: { name: a, model: m, prompt: p, device: { connection: c, approval: ask, allow: ["*"], join_timeout: 5 } } }\n`,
  "every provider": `${agent}server: { public_url: https://m.example }\nconnections:\n  a: { provider: direct }\n  b: { provider: leafmesh }\n  c: { provider: mqtt, url: "mqtt://b", keepalive: 9 }\n  d: { provider: fcm, service_account: k, sandbox: false }\n  e: { provider: sms, account_sid: a, auth_token: b }\n  f: { provider: pusher, app_id: a, secret: b }\n`,
  models: `${agent}models: { a: {}, b: { kind: openai, base_url: "http://h/v1?api-version=1", headers: { x: y } }, c: { kind: scripted, script: s, record: r } }\n`,
  "server keys": `${agent}server: { port: 0, api_keys: [one-key, { name: app, key: two-key }], cors_origins: [http://localhost:3000] }\n`,
  storage: `${agent}storage: { url: "sqlite:x.db", durable: true, session_ttl: 12h }\n`,
  "storage in seconds": `${agent}storage: { session_ttl: 60 }\n`,
  "merge keys": "agents: { a: &a { model: m, prompt: p }, b: { <<: *a, max_tokens: 5 } }\n",
  "references for numbers, truth values, choices and addresses": `name: "\${NAME}"\n${agent}server: { port: "\${PORT}", public_url: "\${URL}" }\nstorage: { durable: "\${FLAG}" }\nlog_level: "\${LEVEL:-debug}"\n`,
};

const bad: Readonly<Record<string, string>> = {
  "no agents": "name: x\n",
  "an empty mapping of agents": "agents: {}\n",
  "an unknown key": `${agent}zebra: 1\n`,
  "an unknown key of an agent": "agents: { a: { model: m, prompt: p, zebra: 1 } }\n",
  "an unknown key of a device block": "agents: { a: { model: m, prompt: p, device: { connection: c, zebra: 1 } } }\n",
  "a device block without a connection": "agents: { a: { model: m, prompt: p, device: {} } }\n",
  "an agent without a prompt": "agents: { a: { model: m } }\n",
  "an agent of another type": "agents: { a: { model: m, prompt: p, agent_type: human } }\n",
  "a wrong choice": "agents: { a: { model: m, prompt: p, tool_choice: any } }\n",
  "a number too large": "agents: { a: { model: m, prompt: p, temperature: 3 } }\n",
  "a fraction": "agents: { a: { model: m, prompt: p, max_tokens: 1.5 } }\n",
  "a number for a text": "agents: { a: { model: 4, prompt: p } }\n",
  "a number in quotes": `${agent}server:\n  port: "80"\n`,
  "an agent's name": 'agents: { "a b": { model: m, prompt: p } }\n',
  "a bad pattern": 'agents: { a: { model: m, prompt: p, device: { connection: c, deny: ["a b"] } } }\n',
  "a connection without a provider": `${agent}connections: { c: {} }\n`,
  "a connection of an unknown provider": `${agent}connections: { c: { provider: zebra } }\n`,
  "a connection without a field": `${agent}connections: { c: { provider: fcm } }\n`,
  "a connection with another provider's field": `${agent}connections: { c: { provider: direct, url: x } }\n`,
  "a connection with a field of the wrong type": `${agent}connections: { c: { provider: mqtt, url: "mqtt://b", keepalive: often } }\n`,
  "a connection with a bad address": `${agent}connections: { c: { provider: mqtt, url: "http://b" } }\n`,
  "a scripted model without a script": `${agent}models: { c: { kind: scripted } }\n`,
  "a model of an unknown kind": `${agent}models: { c: { kind: zebra } }\n`,
  "an entry point without a target": `${agent}entry_points: [{ name: x }]\n`,
  "no entry points": `${agent}entry_points: []\n`,
  "a port that is none": `${agent}server: { port: 65536 }\n`,
  "an API key with an unknown field": `${agent}server: { api_keys: [{ name: a, key: b, zebra: 1 }] }\n`,
  "an origin with a path": `${agent}server: { cors_origins: ["http://h/p"] }\n`,
  "a duration without a unit": `${agent}storage: { session_ttl: "7 days" }\n`,
  "a storage of another kind": `${agent}storage: { url: "mysql://h/db" }\n`,
};

const judgedBySchema = (text: string): boolean => accepts(parse(text, { merge: true }));

describe("the schema and the loader agree", () => {
  test.each(Object.entries(good))("on %s", (_, text) => {
    const loaded = loadText(text, { env });
    expect({ loader: loaded.ok ? [] : loaded.diagnostics, schema: judgedBySchema(text) }).toEqual({
      loader: [],
      schema: true,
    });
  });

  test.each(Object.entries(bad))("on %s", (_, text) => {
    const knownConnections = new Map([["c", { provider: "direct" }]]);
    expect({ loader: loadText(text, { env, knownConnections }).ok, schema: judgedBySchema(text) }).toEqual({
      loader: false,
      schema: false,
    });
  });
});

/** Every schema of a field within a schema, with its path. */
function fieldsIn(node: unknown, path: string): [path: string, field: Record<string, unknown>][] {
  if (typeof node !== "object" || node === null) return [];
  return Object.entries(node).flatMap(([key, value]): [string, Record<string, unknown>][] => {
    const below = fieldsIn(value, `${path}/${key}`);
    const isField = path.endsWith("/properties") && typeof value === "object" && value !== null;
    return isField ? [[`${path}/${key}`, value], ...below] : below;
  });
}

describe("an editor", () => {
  const fields = fieldsIn(schema, "");

  test("can explain every field", () => {
    const unexplained = fields.filter(
      ([path, { description }]) => typeof description !== "string" && !path.endsWith("/provider"),
    );
    expect(unexplained.map(([path]) => path)).toEqual([]);
    expect(fields.length).toBeGreaterThan(60);
  });

  test("is told which draft this is and nothing of our own", () => {
    expect(schema.$schema).toBe("http://json-schema.org/draft-07/schema#");
    expect(JSON.stringify(schema)).not.toMatch(/"(secret|multiline)":true|"documentedDefault":/);
  });

  test("can complete choices and defaults", () => {
    const approval = fields.find(([path]) => path.endsWith("/properties/approval"))?.[1];
    expect(approval).toMatchObject({
      default: "ask",
      anyOf: [{ enum: ["ask", "silent"] }, { pattern: "\\$\\{.+\\}" }],
    });
  });
});
