// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references are written into the meshes
import { Secret } from "@leafmesh/protocol";
import { describe, expect, test } from "vitest";
import { headlines, loadText, meshOf } from "./test-support.ts";

const agent = "agents: { a: { model: gpt-4o-mini, prompt: Help. } }\n";

/** As the devices page of the product shows it. */
const deviceBlock = `agents:
  phone_helper:
    name: "phone_helper"
    model: "gpt-4o-mini"
    prompt: |
      Help the customer with their phone. Use device_action to read or
      change something on it when they ask you to.

    device:
      connection: "my_phones" # a notifier connection (required)
      room: "my_rooms" # a room connection (optional)
      approval: "ask" # ask (default) | silent
`;

const inStore = new Map([
  ["my_phones", { provider: "direct" }],
  ["my_rooms", { provider: "leafmesh" }],
]);

describe("a mesh of one block, with its connections in the store", () => {
  const loaded = loadText(deviceBlock, { knownConnections: inStore });

  test("is loaded without a word", () => {
    expect(headlines(loaded)).toEqual([]);
  });

  test("has every default", () => {
    expect(meshOf(loaded)).toEqual({
      name: "default_mesh",
      version: "1.0.0",
      logLevel: "info",
      folder: "/srv/mesh",
      digest: expect.stringMatching(/^[0-9a-f]{64}$/),
      models: new Map([["openai", { name: "openai", kind: "openai", apiKey: expect.any(Secret) }]]),
      connections: new Map(),
      agents: new Map([
        [
          "phone_helper",
          {
            name: "phone_helper",
            description: undefined,
            type: "llm",
            endpoint: "openai",
            model: "gpt-4o-mini",
            prompt:
              "Help the customer with their phone. Use device_action to read or\nchange something on it when they ask you to.\n",
            temperature: 0.1,
            maxTokens: 800,
            toolChoice: "auto",
            maxToolCallsPerMessage: 5,
            toolCallTimeoutMs: 30_000,
            allowParallelToolCalls: true,
            historyLimit: 20,
            device: {
              connection: "my_phones",
              room: "my_rooms",
              approval: "ask",
              allow: undefined,
              deny: undefined,
              joinTimeoutMs: 60_000,
              replyTimeoutMs: 60_000,
            },
          },
        ],
      ]),
      tools: new Map(),
      entryPoints: [{ name: "default", target: "phone_helper" }],
      limits: {
        runTimeoutMs: 3_600_000,
        maxOpenAsksPerSession: 16,
        maxAsksPerRun: 32,
        maxSessionsPerKey: 10_000,
        maxStreams: 1_000,
        maxConcurrentRuns: 32,
        maxQueuedRunsPerSession: 16,
        toolResultMaxChars: 100_000,
      },
      server: { host: "127.0.0.1", port: 18_820, publicUrl: undefined, apiKeys: [], corsOrigins: [] },
      storage: {
        url: "/srv/mesh/.leafmesh/mesh.db",
        kind: "sqlite",
        durable: false,
        sessionTtlMs: 7 * 24 * 3_600_000,
      },
    });
  });

  test("is loaded with warnings where no store was asked", () => {
    const unasked = loadText(deviceBlock, { knownConnections: undefined });
    expect(unasked.ok).toBe(true);
    expect(headlines(unasked)).toEqual([
      'mesh.yaml:10:19 warning: agents.phone_helper.device.connection: there is no connection "my_phones" in this file; connections that can ring: none',
      'mesh.yaml:11:13 warning: agents.phone_helper.device.room: there is no connection "my_rooms" in this file; connections that can be a room: none',
    ]);
  });

  test("is refused where the store has no such connections", () => {
    expect(headlines(loadText(deviceBlock, { knownConnections: new Map() }))).toEqual([
      'mesh.yaml:10:19 agents.phone_helper.device.connection: there is no connection "my_phones"; connections that can ring: none',
      'mesh.yaml:11:13 agents.phone_helper.device.room: there is no connection "my_rooms"; connections that can be a room: none',
    ]);
  });
});

test("every key at once", () => {
  const mesh = meshOf(
    loadText(`
name: phone-support
version: "2"
log_level: WARNING
models:
  local: { base_url: "http://127.0.0.1:11434/v1/", api_key: none, headers: { x-team: support }, record: calls.jsonl }
  demo: { kind: scripted, script: demo.yaml }
connections:
  my_phones: { provider: mqtt, url: "mqtt://b", room_topic_prefix: rooms }
agents:
  helper:
    description: Reads.
    agent_type: llm
    model: local/meta/llama
    prompt: Be brief.
    temperature: 0
    max_tokens: 100
    tool_choice: required
    max_tool_calls_per_message: 0
    tool_call_timeout: 0.5
    allow_parallel_tool_calls: false
    history_limit: 1
    device:
      connection: my_phones
      room: my_phones
      approval: silent
      allow: [read_*]
      deny: [read_contacts]
      reply_timeout: 1.5
  other: { model: demo/any, prompt: p }
entry_points:
  - { name: chat, target: other, description: Front door. }
limits: { run_timeout: 60, max_open_asks_per_session: 1, max_asks_per_run: 2, max_sessions_per_key: 3, max_streams: 4, max_concurrent_runs: 5, max_queued_runs_per_session: 6, tool_result_max_chars: 700 }
server: { host: "[::1]", port: 0, public_url: "https://mesh.example.com/base/", api_keys: [first-key, { name: app, key: second-key }], cors_origins: ["https://app.example.com"] }
storage: { url: "sqlite:/var/lib/mesh.db", durable: true, session_ttl: 90 }
`),
  );
  expect(mesh).toMatchObject({ name: "phone-support", version: "2", logLevel: "warn" });
  expect([...mesh.models.values()].map(({ name, kind }) => `${name} ${kind}`)).toEqual([
    "openai openai",
    "local openai",
    "demo scripted",
  ]);
  expect(mesh.models.get("local")).toMatchObject({
    baseUrl: "http://127.0.0.1:11434/v1",
    headers: { "x-team": "support" },
    record: "/srv/mesh/calls.jsonl",
  });
  expect(mesh.models.get("demo")).toMatchObject({ script: "/srv/mesh/demo.yaml" });
  expect(mesh.connections.get("my_phones")).toEqual({
    name: "my_phones",
    provider: "mqtt",
    options: { url: "mqtt://b", room_topic_prefix: "rooms", keepalive: 60 },
  });
  expect(mesh.agents.get("helper")).toEqual({
    name: "helper",
    description: "Reads.",
    type: "llm",
    endpoint: "local",
    model: "meta/llama",
    prompt: "Be brief.",
    temperature: 0,
    maxTokens: 100,
    toolChoice: "required",
    maxToolCallsPerMessage: 0,
    toolCallTimeoutMs: 500,
    allowParallelToolCalls: false,
    historyLimit: 1,
    device: {
      connection: "my_phones",
      room: "my_phones",
      approval: "silent",
      allow: ["read_*"],
      deny: ["read_contacts"],
      joinTimeoutMs: 30_000,
      replyTimeoutMs: 1_500,
    },
  });
  expect(mesh.entryPoints).toEqual([{ name: "chat", target: "other", description: "Front door." }]);
  expect(mesh.limits).toEqual({
    runTimeoutMs: 60_000,
    maxOpenAsksPerSession: 1,
    maxAsksPerRun: 2,
    maxSessionsPerKey: 3,
    maxStreams: 4,
    maxConcurrentRuns: 5,
    maxQueuedRunsPerSession: 6,
    toolResultMaxChars: 700,
  });
  expect(mesh.server).toMatchObject({
    host: "::1",
    port: 0,
    publicUrl: "https://mesh.example.com/base",
    corsOrigins: ["https://app.example.com"],
  });
  expect(mesh.server.apiKeys.map(({ name, key }) => `${name} ${key.reveal()}`)).toEqual([
    "key-1 first-key",
    "app second-key",
  ]);
  expect(mesh.storage).toEqual({ url: "/var/lib/mesh.db", kind: "sqlite", durable: true, sessionTtlMs: 90_000 });
});

test.each([
  ["90", 90],
  ["45s", 45],
  ["1.5h", 5_400],
  ["30m", 1_800],
  ["2w", 1_209_600],
])("session_ttl: %s", (written, seconds) => {
  const mesh = meshOf(loadText(`${agent}storage: { session_ttl: ${written} }\n`));
  expect(mesh.storage.sessionTtlMs).toBe(seconds * 1000);
});

describe("references", () => {
  const env = {
    PORT: "8080",
    DIGITS: "0123456",
    FLAG: "true",
    EMPTY: "",
    QUOTED: "a: [b] # ${PORT}",
    OPENAI_API_KEY: "sk-of-the-test",
  };

  test("become numbers and truth values where these are asked for, and texts elsewhere", () => {
    const mesh = meshOf(
      loadText(
        `
connections:
  c: { provider: mqtt, url: "mqtt://b", username: "\${DIGITS}", password: "\${DIGITS}", keepalive: "\${PORT:-1}" }
agents:
  a:
    model: \${DIGITS}
    prompt: \${FLAG}
    allow_parallel_tool_calls: \${FLAG}
    temperature: \${TEMPERATURE:-0.5}
server:
  port: \${PORT}
`,
        { env: { ...env, PORT: "3000" } },
      ),
    );
    expect(mesh.server.port).toBe(3000);
    expect(mesh.agents.get("a")).toMatchObject({
      model: "0123456",
      prompt: "true",
      allowParallelToolCalls: true,
      temperature: 0.5,
    });
    expect(mesh.connections.get("c")?.options).toMatchObject({ username: "0123456", keepalive: 3000 });
  });

  test.each([
    ["a default where the variable is not set", "${NOPE:-x y}", "x y"],
    ["a default where the variable is empty", "${EMPTY:-x}", "x"],
    ["a default that is empty", "a${NOPE:-}b", "ab"],
    ["within a text", '"at ${PORT}!"', "at 8080!"],
    ["several", "${PORT}-${PORT}", "8080-8080"],
    ["a literal one", '"$${PORT} and ${PORT}"', "${PORT} and 8080"],
    ["a dollar that is none", '"$5 {PORT} $PORT"', "$5 {PORT} $PORT"],
    ["one pass only, and no YAML in what it gives", "${QUOTED}", "a: [b] # ${PORT}"],
    ["in a text of several lines", "|\n      one ${PORT}\n      two", "one 8080\ntwo\n"],
    ["in a folded text", ">-\n      one\n      ${PORT}", "one 8080"],
    ["in single quotes", "'${PORT}'", "8080"],
    ["a file", "${file:./greeting.txt}", "Hello\nyou"],
    ["a file by its absolute path", "${file:/srv/mesh/greeting.txt}", "Hello\nyou"],
  ])("%s", (_, written, prompt) => {
    const mesh = `agents:\n  a:\n    model: m\n    prompt: ${written}\n`;
    const loaded = loadText(mesh, {
      env,
      readFile: (path) =>
        path === "/srv/mesh/greeting.txt" ? { ok: true, text: "Hello\nyou\n" } : { ok: false, why: "missing" },
    });
    expect(meshOf(loaded).agents.get("a")?.prompt).toBe(prompt);
  });

  test("that come out empty count as left out", () => {
    const mesh = meshOf(
      loadText(
        `${agent}server:\n  public_url: \${PUBLIC_URL:-}\n  api_keys:\n    - \${FIRST:-}\n    - \${SECOND:-second-key}\n`,
      ),
    );
    expect(mesh.server.publicUrl).toBeUndefined();
    expect(mesh.server.apiKeys.map(({ key }) => key.reveal())).toEqual(["second-key"]);
  });

  test("an object's own names are no variables", () => {
    expect(headlines(loadText(`${agent}name: \${constructor}\n`))[0]).toContain("constructor is not set");
  });

  test("files are read once and named in the answer, found or not", () => {
    const asked: string[] = [];
    const loaded = loadText(`${agent}version: "\${file:a}\${file:./a}\${file:b}"\n`, {
      readFile(path) {
        asked.push(path);
        return path.endsWith("a") ? { ok: true, text: "1" } : { ok: false, why: "not_permitted" };
      },
    });
    expect(asked).toEqual(["/srv/mesh/a", "/srv/mesh/b"]);
    expect(loaded.files).toEqual(asked);
    expect(headlines(loaded)).toEqual([
      'mesh.yaml:2:31 version: the file "b" may not be read by this process; looked for "/srv/mesh/b"',
    ]);
  });
});

describe("YAML", () => {
  test("anchors, aliases and merge keys", () => {
    const mesh = meshOf(
      loadText(`
agents:
  reader: &common { model: m, prompt: &p Read., max_tokens: 7 }
  writer: { <<: *common, prompt: Write. }
  both: { <<: [{ prompt: *p }, { prompt: not this, model: n }] }
`),
    );
    const shown = [...mesh.agents.values()].map(({ name, model, prompt, maxTokens }) => [
      name,
      model,
      prompt,
      maxTokens,
    ]);
    expect(shown).toEqual([
      ["reader", "m", "Read.", 7],
      ["writer", "m", "Write.", 7],
      ["both", "n", "Read.", 800],
    ]);
  });

  test("an anchor may be given again; an alias means the last one above it", () => {
    const mesh = meshOf(loadText("agents:\n  a: { model: &x one, prompt: *x }\n  b: { model: &x two, prompt: *x }\n"));
    expect([...mesh.agents.values()].map(({ prompt }) => prompt)).toEqual(["one", "two"]);
  });

  test("a quoted << is a key like any other", () => {
    expect(headlines(loadText('agents: { a: { "<<": 1, model: m, prompt: p } }\n'))[0]).toContain("unknown key");
  });

  test.each([
    ["a byte order mark", `\ufeff${agent}`],
    ["bytes with a byte order mark", Buffer.from(`\ufeff${agent}`)],
    ["CRLF", agent.replaceAll("\n", "\r\n")],
    ["JSON", '{"agents": {"a": {"model": "gpt-4o-mini", "prompt": "Help."}}}'],
    ["a document mark", `---\n${agent}...\n`],
    ["the tags of YAML itself", `${agent}version: !!str 1.0\n`],
  ])("%s", (_, source) => {
    expect(meshOf(loadText(source)).agents.get("a")?.prompt).toBe("Help.");
  });

  test.each([
    ["UTF-16", Buffer.from(`\ufeff${agent}`, "utf16le"), "mesh.yaml:1:1 the file is UTF-16; save it as UTF-8"],
    [
      "Latin 1",
      Buffer.concat([Buffer.from(`${agent}name: M`), Buffer.from([0xfc]), Buffer.from("nchen\n")]),
      "mesh.yaml:2:8 this is not UTF-8; save the file as UTF-8",
    ],
  ])("%s is refused", (_, source, said) => {
    expect(headlines(loadText(source))).toEqual([said]);
  });
});

describe("warnings", () => {
  const device = (block: string, connections = "c: { provider: direct }"): string =>
    `connections: { ${connections} }\nagents: { a: { model: m, prompt: p, device: ${block} } }\n`;

  test.each([
    [
      "a connection that nothing uses",
      `connections: { c: { provider: direct } }\n${agent}`,
      "mesh.yaml:1:16 warning: connections.c: no agent uses this connection",
    ],
    [
      "built-in rooms that devices cannot reach",
      device("{ connection: c }", 'c: { provider: mqtt, url: "mqtt://b" }'),
      "mesh.yaml:2:37 warning: agents.a.device: devices elsewhere cannot reach the built-in rooms, because server.public_url is not set; set server.public_url to where devices reach this mesh, or name a room",
    ],
    [
      "uploads that devices cannot reach",
      device(
        "{ connection: c, room: r }",
        'c: { provider: mqtt, url: "mqtt://b" }, r: { provider: mqtt, url: "mqtt://b", room_topic_prefix: r }',
      ),
      "mesh.yaml:2:37 warning: agents.a.device: devices elsewhere cannot upload photos and other large answers, because server.public_url is not set; set server.public_url to where devices reach this mesh",
    ],
    [
      "a deny list that denies everything",
      device('{ connection: c, deny: ["*"] }'),
      "mesh.yaml:2:69 warning: agents.a.device.deny[0]: this denies every action, so the agent cannot ask a device for anything; remove the device block, or deny less",
    ],
    [
      "an action both allowed and denied",
      device("{ connection: c, allow: [read, write], deny: [write] }"),
      "mesh.yaml:2:91 warning: agents.a.device.deny[0]: this is allowed as well, and deny wins; remove it from one of the lists",
    ],
    [
      "a deny list that denies nothing",
      device("{ connection: c, allow: [read_*], deny: [wipe] }"),
      "mesh.yaml:2:86 warning: agents.a.device.deny[0]: this denies nothing: allow does not let the action through anyway; check its spelling, or remove it",
    ],
  ])("%s", (_, mesh, said) => {
    const loaded = loadText(mesh);
    expect(loaded.ok).toBe(true);
    expect(headlines(loaded)).toEqual([said]);
  });

  test("no key for OpenAI, unless the model is not OpenAI's", () => {
    const said = "warning: agents.a.model: this is a model of OpenAI, and OPENAI_API_KEY is not set";
    expect(headlines(loadText(agent, { env: {} }))[0]).toContain(said);
    expect(headlines(loadText(agent, { env: { OPENAI_BASE_URL: "http://127.0.0.1" } }))).toEqual([]);
    const local = "models: { x: { base_url: http://h } }\nagents: { a: { model: x/m, prompt: p } }\n";
    expect(headlines(loadText(local, { env: {} }))).toEqual([]);
    const scripted = `models: { openai: { kind: scripted, script: s } }\n${agent}`;
    expect(headlines(loadText(scripted, { env: {} }))).toEqual([]);
  });
});

describe("packages of providers", () => {
  const mesh = `connections: { c: { provider: sms, account_sid: x, auth_token: yyyyyyyy } }\n${agent}`;

  test("one that is missing is an error that says what to install", () => {
    expect(headlines(loadText(mesh, { canResolve: (name) => name !== "sms-extra" }))).toEqual([
      "mesh.yaml:1:31 connections.c.provider: the provider sms needs sms-extra, which is not installed; run: npm install sms-extra",
    ]);
  });

  test("are taken to be there where nobody can look", () => {
    expect(loadText(mesh).ok).toBe(true);
  });
});

describe("names", () => {
  test("may hold hyphens and dots, and an agent may be called like an object's method", () => {
    const mesh = meshOf(loadText("agents: { a-b.c: { model: m, prompt: p }, toString: { model: m, prompt: p } }\n"));
    expect([...mesh.agents.keys()]).toEqual(["a-b.c", "toString"]);
  });

  test("an entry point to a method's name leads nowhere", () => {
    expect(headlines(loadText(`${agent}entry_points: [{ name: x, target: toString }]\n`))[0]).toContain(
      'there is no agent "toString"',
    );
  });

  test("a connection of the file wins over one of the store", () => {
    const mesh = `connections: { c: { provider: leafmesh } }\nagents: { a: { model: m, prompt: p, device: { connection: c } } }\n`;
    const knownConnections = new Map([["c", { provider: "direct" }]]);
    expect(headlines(loadText(mesh, { knownConnections }))[0]).toContain("is a room and cannot ring devices");
  });
});

test("the digest tells one text from another", () => {
  const digestOf = (text: string): string => meshOf(loadText(text)).digest;
  expect(digestOf(agent)).toBe(digestOf(agent));
  expect(digestOf(agent)).not.toBe(digestOf(`${agent}\n`));
});

test("findings call the file as the caller does", () => {
  expect(headlines(loadText("", { file: "meshes/one.yaml" }))[0]).toMatch(/^meshes\/one\.yaml:1:1 /);
});

test("a database's address is kept whole as a secret, and shown without its login and options", () => {
  const { storage } = meshOf(
    loadText(`${agent}storage: { url: "postgresql://u:p%40ss@db.example.com:5433/mesh?sslmode=require&x=p%40ss" }\n`),
  );
  expect(storage).toMatchObject({ kind: "postgres", url: "postgresql://db.example.com:5433/mesh" });
  expect(storage.address?.reveal()).toBe("postgresql://u:p%40ss@db.example.com:5433/mesh?sslmode=require&x=p%40ss");
  expect(JSON.stringify(storage)).not.toContain("p%40ss");
});
