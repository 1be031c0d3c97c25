// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references are written into the meshes
import { describe, expect, test } from "vitest";
import { headlines, loadText } from "./test-support.ts";

/** A mesh, and every line that is said about it. */
type BadMesh = readonly [name: string, mesh: string, said: readonly string[]];

/** The rest of a valid mesh, for what is wrong elsewhere. */
const agent = "agents: { a: { model: gpt-4o-mini, prompt: Help. } }\n";
const device = (block: string): string =>
  `agents: { a: { model: m, prompt: p, device: ${block} } }\nconnections:\n  phones: { provider: direct }\n  rooms: { provider: leafmesh }\n  sms: { provider: sms, account_sid: x, auth_token: yyyyyyyy }\n`;

const groups: Readonly<Record<string, readonly BadMesh[]>> = {
  "the file as a whole": [
    [
      "empty",
      "",
      ["mesh.yaml:1:1 the file is empty; write at least one agent under agents:, or start with leafmesh new"],
    ],
    [
      "only a comment",
      "# nothing yet\n",
      ["mesh.yaml:1:1 the file is empty; write at least one agent under agents:, or start with leafmesh new"],
    ],
    [
      "only a document mark",
      "---\n",
      ["mesh.yaml:1:1 the file is empty; write at least one agent under agents:, or start with leafmesh new"],
    ],
    [
      "a list",
      "- agents\n",
      [
        "mesh.yaml:1:1 a mesh file is a mapping of keys such as agents: and connections:; check that the right file was named",
      ],
    ],
    [
      "a text",
      "agents",
      [
        "mesh.yaml:1:1 a mesh file is a mapping of keys such as agents: and connections:; check that the right file was named",
      ],
    ],
    [
      "two documents",
      `${agent}---\n${agent}`,
      [
        "mesh.yaml:2:1 a second document begins here; a mesh file holds one document; remove the --- and what does not belong",
      ],
    ],
    [
      "a directive",
      `%YAML 1.1\n---\n${agent}`,
      ["mesh.yaml:1:1 lines that begin with % are not used in a mesh file; remove this line"],
    ],
    ["NUL", `${agent}\0`, ["mesh.yaml:2:1 the file holds a NUL character, so it is not a text; save it as UTF-8"]],
    [
      "a control character",
      'agents: { a: { model: m, prompt: "a\u001b[31mb" } }',
      [
        'mesh.yaml:1:36 the control character U+001B is not allowed; remove it, or write it as "\\x.." in a quoted text',
      ],
    ],
    [
      "line ends of an old Mac",
      "agents:\r  a: 1\r",
      ["mesh.yaml:1:8 a line ends with a lone carriage return; save the file with LF or CRLF line ends"],
    ],
  ],
  "YAML syntax": [
    ["a tab as indentation", "agents:\n\ta: 1\n", ["mesh.yaml:2:1 a tab is used as indentation; indent with spaces"]],
    [
      "a quote that is not closed",
      'name: "support\nagents: {}\n',
      ["mesh.yaml:1:7 this quote is never closed; close it at the end of the value"],
    ],
    [
      "text after a quote",
      "name: 'the customer's'\n",
      [
        "mesh.yaml:1:21 text follows after the closing quote; double a quote that belongs to the text, or put a comma between two values of { } or [ ]",
      ],
    ],
    [
      "a colon in a plain value",
      "agents:\n  a:\n    prompt: Help: now\n",
      ['mesh.yaml:3:13 a value must not hold ": " outside quotes; put the value in quotes'],
    ],
    [
      "a line too deep",
      "agents:\n  a:\n    model: m\n      prompt: p\n",
      [
        "mesh.yaml:4:7 this line is indented deeper, but the key above it already has a value; begin it at the same column as that key",
      ],
    ],
    [
      "a line not deep enough",
      "agents:\n  a:\n    model: m\n   prompt: p\n",
      [
        "mesh.yaml:4:4 this line does not line up with the ones before it; keys of one mapping and items of one list begin at the same column",
      ],
    ],
    [
      "a brace that is not closed",
      "storage: { durable: true\nname: x\n",
      ["mesh.yaml:2:1 the closing } is missing; close it before this, deeper than the key it belongs to"],
    ],
    [
      "a comma that is missing",
      'a: { b: "1" c: 2 }\n',
      [
        "mesh.yaml:1:13 text follows after the closing quote; double a quote that belongs to the text, or put a comma between two values of { } or [ ]",
      ],
    ],
    [
      "a value with a reserved first character",
      "name: @mesh\n",
      ["mesh.yaml:1:7 a value must not begin with @; put the value in quotes"],
    ],
    [
      "a list on the line of its key",
      "entry_points: - name: a\n",
      ["mesh.yaml:1:15 a list item cannot begin here; begin the list on a line of its own under its key"],
    ],
    [
      "an unknown escape",
      'name: "C:\\mesh"\n',
      [
        "mesh.yaml:1:10 this escape sequence is not known; in double quotes a backslash begins an escape: double it, or use single quotes",
      ],
    ],
    [
      "a key without a colon",
      "agents\nname: x\n",
      [
        'mesh.yaml:1:1 this is not of the form "key: value"; write a colon and a space after the key, or put a text of several lines after |',
      ],
    ],
    [
      "a tag",
      `${agent}name: !!js/function "function () {}"\n`,
      ["mesh.yaml:2:7 tags such as !this are not allowed; remove the tag"],
    ],
    [
      "an alias without an anchor",
      `${agent}name: *mesh\n`,
      ["mesh.yaml:2:7 name: there is no anchor &mesh above this alias"],
    ],
    [
      "an alias inside its own value",
      `${agent}connections: &all { phones: *all }\n`,
      ["mesh.yaml:2:29 connections.phones: the alias *all stands inside the value that it names"],
    ],
    [
      "a merge of a text",
      "agents: { a: { <<: text, model: m, prompt: p } }\n",
      ["mesh.yaml:1:20 agents.a.<<: << takes a mapping, an alias of one, or a list of these"],
    ],
  ],
  keys: [
    [
      "unknown at the top",
      `${agent}conections: {}\n`,
      ['mesh.yaml:2:1 conections: unknown key; did you mean "connections"?'],
    ],
    [
      "unknown and nothing like it",
      `${agent}zebra: 1\n`,
      [
        "mesh.yaml:2:1 zebra: unknown key; known keys: name, version, log_level, models, connections, agents, tools, entry_points, limits, server, storage",
      ],
    ],
    [
      "unknown in the device block",
      device("{ connection: phones, aproval: ask }"),
      ['mesh.yaml:1:67 agents.a.device.aproval: unknown key; did you mean "approval"?'],
    ],
    [
      "letters in the wrong order",
      "agents: { a: { modle: m, prompt: p } }\n",
      [
        'mesh.yaml:1:11 agents.a: the key "model" is missing',
        'mesh.yaml:1:16 agents.a.modle: unknown key; did you mean "model"?',
      ],
    ],
    [
      "twice",
      `${agent}name: one\nname: two\n`,
      ["mesh.yaml:3:1 name: this key stands twice in the same mapping; remove one of the two"],
    ],
    [
      "two merges",
      "agents:\n  a: &a { model: m, prompt: p }\n  b:\n    <<: *a\n    <<: *a\n",
      ["mesh.yaml:5:5 agents.b.<<: this key stands twice in the same mapping; merge several with <<: [*one, *other]"],
    ],
    [
      "dangerous",
      `${agent}__proto__: { x: 1 }\n`,
      ['mesh.yaml:2:1 the key "__proto__" is not allowed; choose another name'],
    ],
    [
      "dangerous, as the name of an agent",
      "agents:\n  constructor: { model: m, prompt: p }\n  a: { model: m, prompt: p }\n",
      ['mesh.yaml:2:3 agents: the key "constructor" is not allowed; choose another name'],
    ],
    ["not a text", `${agent}? [a, b]\n: 1\n`, ["mesh.yaml:2:3 a key must be a text; write a name before the colon"]],
    ["missing", `${agent}storage:\n  : 1\n`, ["mesh.yaml:3:3 storage: a key is missing before the colon"]],
    [
      "a reference",
      `${agent}"\${KEY}": 1\n`,
      ["mesh.yaml:2:1 a ${...} is replaced in values only, not in keys; write the key out"],
    ],
    [
      "a name that is not allowed",
      'agents:\n  "a b": { model: m, prompt: p }\n',
      [
        'mesh.yaml:2:3 agents["a b"]: must be 1 to 64 letters, digits or the characters _ - . and must not begin with - or .',
      ],
    ],
  ],
  "types and values": [
    [
      "a number for a text",
      `${agent}version: 1.0\n`,
      ["mesh.yaml:2:10 version: must be a text, found a whole number; put the value in quotes"],
    ],
    [
      "a text for a number",
      `${agent}server:\n  port: "18820"\n`,
      ["mesh.yaml:3:9 server.port: must be a number, found a text; remove the quotes"],
    ],
    [
      "a fraction for a whole number",
      "agents: { a: { model: m, prompt: p, max_tokens: 1.5 } }\n",
      ["mesh.yaml:1:49 agents.a.max_tokens: must be a whole number, found a number"],
    ],
    [
      "a text for a truth value",
      `${agent}storage: { durable: yes }\n`,
      ["mesh.yaml:2:21 storage.durable: must be true or false, found a text"],
    ],
    [
      "nothing",
      "agents:\n  a:\n    model: m\n    prompt:\n",
      ["mesh.yaml:4:12 agents.a.prompt: must be a text, found nothing; write a value, or remove the key"],
    ],
    [
      "an empty text",
      'agents: { a: { model: m, prompt: "" } }\n',
      ["mesh.yaml:1:34 agents.a.prompt: must not be empty"],
    ],
    ["a list for a mapping", "agents:\n  - name: a\n", ["mesh.yaml:1:1 agents: must be a mapping, found a list"]],
    ["a text for a mapping", "agents: { a: helper }\n", ["mesh.yaml:1:14 agents.a: must be a mapping, found a text"]],
    [
      "a mapping for a list",
      `${agent}entry_points: { chat: a }\n`,
      ["mesh.yaml:2:1 entry_points: must be a list, found a mapping"],
    ],
    [
      "too large",
      "agents: { a: { model: m, prompt: p, temperature: 3 } }\n",
      ["mesh.yaml:1:50 agents.a.temperature: must be at most 2"],
    ],
    ["too small", `${agent}limits: { max_streams: 0 }\n`, ["mesh.yaml:2:24 limits.max_streams: must be at least 1"]],
    [
      "not more than nothing",
      "agents: { a: { model: m, prompt: p, tool_call_timeout: 0 } }\n",
      ["mesh.yaml:1:56 agents.a.tool_call_timeout: must be more than 0"],
    ],
    [
      "longer than a tool call may take",
      "agents: { a: { model: m, prompt: p, tool_call_timeout: 301 } }\n",
      ["mesh.yaml:1:56 agents.a.tool_call_timeout: must be at most 300"],
    ],
    [
      "none of the choices",
      "agents: { a: { model: m, prompt: p, tool_choice: autp } }\n",
      ['mesh.yaml:1:50 agents.a.tool_choice: must be "auto", "required" or "none"; did you mean "auto"?'],
    ],
    [
      "an agent type of another product",
      "agents: { a: { model: m, prompt: p, agent_type: human } }\n",
      ['mesh.yaml:1:49 agents.a.agent_type: must be "llm"; other types of agents are not available yet'],
    ],
    [
      "a duration without a unit",
      `${agent}storage: { session_ttl: 7 days }\n`,
      ["mesh.yaml:2:25 storage.session_ttl: must be a number of seconds, or a number with s, m, h, d or w such as 7d"],
    ],
    [
      "a storage of another kind",
      `${agent}storage: { url: "mysql://db/mesh" }\n`,
      [
        "mesh.yaml:2:17 storage.url: must be sqlite: and the path of a file, such as sqlite:.leafmesh/mesh.db, or postgres:// with host and database, such as postgres://mesh:secret@db.example.com/mesh",
      ],
    ],
    [
      "a public address without a scheme",
      `${agent}server: { public_url: mesh.example.com }\n`,
      [
        "mesh.yaml:2:23 server.public_url: must be an address that begins with http:// or https://, without user, ? and #",
      ],
    ],
    [
      "an origin with a path",
      `${agent}server:\n  cors_origins:\n    - https://app.example.com/\n`,
      ["mesh.yaml:4:7 server.cors_origins[0]: must be an origin such as https://app.example.com, without a path"],
    ],
    [
      "an agent's name that is another",
      "agents: { a: { name: b, model: m, prompt: p } }\n",
      ['mesh.yaml:1:22 agents.a.name: must equal the agent\'s key "a"; write the same name, or leave it out'],
    ],
    ["no agents", "agents: {}\n", ["mesh.yaml:1:1 agents: must hold at least one agent"]],
    ["agents left out", "name: x\n", ['mesh.yaml:1:1 the key "agents" is missing']],
    [
      "an empty list of entry points",
      `${agent}entry_points: []\n`,
      ["mesh.yaml:2:1 entry_points: must list at least one entry point"],
    ],
    [
      "an API key of another type",
      `${agent}server: { api_keys: [{ name: app, kye: abcdefgh }] }\n`,
      [
        'mesh.yaml:2:22 server.api_keys[0]: the key "key" is missing',
        'mesh.yaml:2:35 server.api_keys[0].kye: unknown key; did you mean "key"?',
      ],
    ],
    [
      "an API key that is a number",
      `${agent}server: { api_keys: [12345678] }\n`,
      ["mesh.yaml:2:22 server.api_keys[0]: must be a key, or a mapping with name and key"],
    ],
    [
      "an action pattern that cannot match",
      device('{ connection: phones, deny: ["read battery"] }'),
      [
        "mesh.yaml:1:74 agents.a.device.deny[0]: must be the name of an action or a pattern: letters, digits, the characters _ - . : and the wildcards * and ?",
      ],
    ],
    [
      "an empty allow list",
      device("{ connection: phones, allow: [] }"),
      ["mesh.yaml:1:67 agents.a.device.allow: must list at least one action"],
    ],
  ],
  "names that lead nowhere": [
    [
      "an entry point to no agent",
      `${agent}entry_points: [{ name: chat, target: b }]\n`,
      ['mesh.yaml:2:38 entry_points[0].target: there is no agent "b"; did you mean "a"?'],
    ],
    [
      "two entry points of one name",
      `${agent}entry_points: [{ name: x, target: a }, { name: x, target: a }]\n`,
      ["mesh.yaml:2:48 entry_points[1].name: there is another entry point above; each must be unique"],
    ],
    [
      "a model endpoint",
      "agents: { a: { model: locl/llama, prompt: p } }\nmodels: { local: { base_url: http://127.0.0.1/v1 } }\n",
      ['mesh.yaml:1:23 agents.a.model: there is no entry "locl" under models; did you mean "local"?'],
    ],
    [
      "a model without a name",
      "agents: { a: { model: openai/, prompt: p } }\n",
      ["mesh.yaml:1:23 agents.a.model: the name of the model is missing; write <entry>/<model>"],
    ],
    [
      "a connection",
      device("{ connection: phons }"),
      ['mesh.yaml:1:59 agents.a.device.connection: there is no connection "phons"; did you mean "phones"?'],
    ],
    [
      "a room",
      device("{ connection: phones, room: hall }"),
      ['mesh.yaml:1:73 agents.a.device.room: there is no connection "hall"; connections that can be a room: rooms'],
    ],
    [
      "a room that only rings",
      device("{ connection: phones, room: phones }"),
      [
        'mesh.yaml:1:73 agents.a.device.room: the connection "phones" (direct) rings devices and cannot be a room; connections that can be a room: rooms',
      ],
    ],
    [
      "a connection that is only a room",
      device("{ connection: rooms }"),
      [
        'mesh.yaml:1:59 agents.a.device.connection: the connection "rooms" (leafmesh) is a room and cannot ring devices; connections that can ring: phones, sms',
      ],
    ],
    [
      "two API keys of one name",
      `${agent}server: { api_keys: [{ name: app, key: aaaaaaaa }, { name: app, key: bbbbbbbb }] }\n`,
      ["mesh.yaml:2:60 server.api_keys[1].name: there is another key of this name above; each must be unique"],
    ],
    [
      "one API key twice",
      `${agent}server: { api_keys: [aaaaaaaa, aaaaaaaa] }\n`,
      ["mesh.yaml:2:32 server.api_keys[1]: there is another entry with this key above; each must be unique"],
    ],
  ],
  connections: [
    [
      "without a provider",
      `${agent}connections: { c: { url: x } }\n`,
      [
        'mesh.yaml:2:16 connections.c: the key "provider" is missing; providers: direct, mqtt, fcm, sms, leafmesh, pusher',
      ],
    ],
    [
      "of an unknown provider",
      `${agent}connections: { c: { provider: fmc } }\n`,
      ['mesh.yaml:2:31 connections.c.provider: there is no provider "fmc"; did you mean "fcm"?'],
    ],
    [
      "with a provider that is no name",
      `${agent}connections: { c: { provider: 5 } }\n`,
      [
        "mesh.yaml:2:31 connections.c.provider: must be the name of a provider; providers: direct, mqtt, fcm, sms, leafmesh, pusher",
      ],
    ],
    [
      "that are no records",
      `${agent}connections: { c: fcm }\n`,
      ["mesh.yaml:2:19 connections.c: must be a mapping, found a text"],
    ],
    [
      "with a field missing",
      `${agent}connections:\n  c:\n    provider: fcm\n`,
      ['mesh.yaml:3:3 connections.c: the key "service_account" is missing'],
    ],
    [
      "with an unknown field",
      `${agent}connections: { c: { provider: mqtt, url: "mqtt://b", pasword: x } }\n`,
      ['mesh.yaml:2:54 connections.c.pasword: unknown key; did you mean "password"?'],
    ],
    [
      "with a field of the wrong type",
      `${agent}connections: { c: { provider: mqtt, url: "mqtt://b", keepalive: often } }\n`,
      ["mesh.yaml:2:65 connections.c.keepalive: must be a number, found a text"],
    ],
    [
      "with a field the provider finds wrong",
      `${agent}connections: { c: { provider: mqtt, url: "http://b" } }\n`,
      ["mesh.yaml:2:42 connections.c.url: must be an address that begins with mqtt://, mqtts://, ws:// or wss://"],
    ],
    [
      "whose fields do not fit together",
      `${agent}connections: { c: { provider: sms, account_sid: x } }\n`,
      ["mesh.yaml:2:16 connections.c: needs auth_token or api_key_secret"],
    ],
    [
      "used as a room without what a room needs",
      'agents: { a: { model: m, prompt: p, device: { connection: c, room: c } } }\nconnections: { c: { provider: mqtt, url: "mqtt://b" } }\n',
      [
        "mesh.yaml:2:16 connections.c.room_topic_prefix: is needed where the connection is a room",
        "mesh.yaml:1:37 warning: agents.a.device: devices elsewhere cannot upload photos and other large answers, because server.public_url is not set; set server.public_url to where devices reach this mesh",
      ],
    ],
    [
      "that need a public address",
      `${agent}connections: { c: { provider: pusher, app_id: x, secret: yyyyyyyy } }\n`,
      ["mesh.yaml:2:16 connections.c: calls back, so server.public_url must be set"],
    ],
    [
      "that need a public address, which has a mistake of its own",
      `${agent}connections: { c: { provider: pusher, app_id: x, secret: yyyyyyyy } }\nserver: { public_url: "\${URL}" }\n`,
      [
        "mesh.yaml:3:24 server.public_url: the environment variable URL is not set; set URL, or give a default: ${URL:-...}",
      ],
    ],
    [
      "that cannot ring silently",
      device("{ connection: sms, approval: silent }").replace(
        "agents",
        "server: { public_url: https://m.example }\nagents",
      ),
      ["mesh.yaml:2:74 agents.a.device.approval: the provider sms cannot ring a device silently; write ask"],
    ],
    [
      "without a connection in the block",
      device("{ approval: ask }"),
      ['mesh.yaml:1:37 agents.a.device: the key "connection" is missing'],
    ],
  ],
  models: [
    [
      "of an unknown kind",
      `${agent}models: { x: { kind: script } }\n`,
      ['mesh.yaml:2:22 models.x.kind: must be "openai" or "scripted"; did you mean "scripted"?'],
    ],
    [
      "scripted without a script",
      `${agent}models: { x: { kind: scripted } }\n`,
      ['mesh.yaml:2:11 models.x: the key "script" is missing'],
    ],
    [
      "scripted with an address",
      `${agent}models: { x: { kind: scripted, script: s, base_url: http://h } }\n`,
      ["mesh.yaml:2:43 models.x.base_url: unknown key; known keys: kind, script, record"],
    ],
    [
      "with an address that is none",
      `${agent}models: { x: { base_url: 127.0.0.1:11434 } }\n`,
      ["mesh.yaml:2:26 models.x.base_url: must be an address that begins with http:// or https://, without user and #"],
    ],
    [
      "with a header that is none",
      `${agent}models: { x: { headers: { "a b": c } } }\n`,
      ['mesh.yaml:2:27 models.x.headers["a b"]: must be a header name'],
    ],
  ],
  server: [
    [
      "open to everyone",
      `${agent}server: { host: 0.0.0.0 }\n`,
      [
        "mesh.yaml:2:17 server.host: without server.api_keys anyone who reaches this address could use the mesh; add a key to server.api_keys, or listen on 127.0.0.1",
      ],
    ],
    [
      "open to everyone with an empty list",
      `${agent}server: { host: mesh.local, api_keys: [] }\n`,
      [
        "mesh.yaml:2:17 server.host: without server.api_keys anyone who reaches this address could use the mesh; add a key to server.api_keys, or listen on 127.0.0.1",
      ],
    ],
    ["a port that is none", `${agent}server: { port: 65536 }\n`, ["mesh.yaml:2:17 server.port: must be at most 65535"]],
  ],
  references: [
    [
      "a variable that is not set",
      `${agent}name: \${MESH_NAME}\n`,
      [
        "mesh.yaml:2:7 name: the environment variable MESH_NAME is not set; set MESH_NAME, or give a default: ${MESH_NAME:-...}",
      ],
    ],
    [
      "the second of two",
      `${agent}name: "a-\${OPENAI_API_KEY}-\${NOPE}"\n`,
      ["mesh.yaml:2:28 name: the environment variable NOPE is not set; set NOPE, or give a default: ${NOPE:-...}"],
    ],
    [
      "in a text of several lines",
      "agents:\n  a:\n    model: m\n    prompt: |\n      Help.\n      Say ${WHAT}.\n",
      [
        "mesh.yaml:6:11 agents.a.prompt: the environment variable WHAT is not set; set WHAT, or give a default: ${WHAT:-...}",
      ],
    ],
    [
      "a default after one colon",
      `${agent}name: \${NAME:mesh}\n`,
      ["mesh.yaml:2:7 name: the default of NAME is not set off by :-; write ${NAME:-...}"],
    ],
    [
      "a default after a dash",
      `${agent}name: \${NAME-mesh}\n`,
      ["mesh.yaml:2:7 name: the default of NAME is not set off by :-; write ${NAME:-...}"],
    ],
    [
      "a required mark of the shell",
      `${agent}name: "\${NAME:?must be set}"\n`,
      ["mesh.yaml:2:8 name: the default of NAME is not set off by :-; write ${NAME:-...}"],
    ],
    [
      "env: before the name",
      `${agent}name: \${env:NAME}\n`,
      ["mesh.yaml:2:7 name: a variable is named without env:; write ${NAME}"],
    ],
    [
      "no name",
      `${agent}name: "\${}"\n`,
      ["mesh.yaml:2:8 name: this ${...} names no variable; write ${NAME} or ${file:path}; for a literal ${ write $${"],
    ],
    [
      "not a name",
      `${agent}name: "\${my name}"\n`,
      [
        "mesh.yaml:2:8 name: this ${...} is not the name of a variable; write ${my} or ${my:-default}; for a literal ${ write $${",
      ],
    ],
    [
      "not closed",
      `${agent}name: "\${NAME"\n`,
      ["mesh.yaml:2:8 name: the closing } of this ${...} is missing; for a literal ${ write $${"],
    ],
    [
      "one in another",
      `${agent}name: "\${A:-\${B}}"\n`,
      [
        "mesh.yaml:2:8 name: the default of A holds another reference; references cannot be nested; write the default out",
      ],
    ],
    [
      "without quotes in braces",
      "agents: { a: { model: m, prompt: ${PROMPT} } }\n",
      ['mesh.yaml:1:34 inside { } and [ ] a ${...} must be quoted; write "${PROMPT}"'],
    ],
    [
      "two without quotes, and what is wrong elsewhere",
      "agents: { a: { model: ${MODEL}, prompt: ${PROMPT:-Help.} } }\nnmae: x\n",
      [
        'mesh.yaml:1:23 inside { } and [ ] a ${...} must be quoted; write "${MODEL}"',
        'mesh.yaml:1:41 inside { } and [ ] a ${...} must be quoted; write "${PROMPT:-…}"',
        'mesh.yaml:2:1 nmae: unknown key; did you mean "name"?',
      ],
    ],
    [
      "a file that does not exist",
      `${agent}name: \${file:./name.txt}\n`,
      ['mesh.yaml:2:7 name: the file "./name.txt" does not exist; looked for "/srv/mesh/name.txt"'],
    ],
    [
      "a file without a path",
      `${agent}name: "\${file:}"\n`,
      ["mesh.yaml:2:8 name: the path of this file is missing; write ${file:./secrets/key.json}"],
    ],
    [
      "empty where a value is needed",
      "agents:\n  a:\n    model: ${MODEL:-}\n    prompt: p\n",
      ["mesh.yaml:3:12 agents.a.model: this reference came out empty, and a value is needed"],
    ],
    [
      "a number in quotes",
      `${agent}server:\n  port: "\${PORT:-18820}"\n`,
      ["mesh.yaml:3:9 server.port: must be a number, found a text; remove the quotes"],
    ],
    [
      "a number that is none",
      `${agent}server:\n  port: \${PORT:-many}\n`,
      ["mesh.yaml:3:9 server.port: must be a number, found a text"],
    ],
  ],
};

for (const [group, meshes] of Object.entries(groups)) {
  describe(group, () => {
    test.each(meshes)("%s", (_, mesh, said) => {
      const loaded = loadText(mesh);
      expect(loaded.ok).toBe(false);
      expect(headlines(loaded)).toEqual(said);
    });
  });
}
