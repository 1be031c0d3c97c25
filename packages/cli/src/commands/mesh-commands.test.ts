import { createECDH } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { loadMeshFile, meshJsonSchema } from "@leafmesh/core/config";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type CliContext, EXIT } from "../context.ts";
import { CommandFailure } from "../failure.ts";
import { providerRegistry } from "../registry.ts";
import { graph } from "./graph.ts";
import { newMesh } from "./new.ts";
import { schema } from "./schema.ts";
import { validate } from "./validate.ts";
import { webpushKeys } from "./webpush-keys.ts";

const registry = await providerRegistry();

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "leafmesh-commands-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** A context in the test's folder, and what was written to its streams. */
function createContext(more: Partial<CliContext> = {}) {
  const written = { stdout: "", stderr: "" };
  const streamInto = (name: keyof typeof written): Writable =>
    new Writable({
      write(chunk, _encoding, done) {
        written[name] += chunk;
        done();
      },
    });
  const context: CliContext = {
    stdout: streamInto("stdout"),
    stderr: streamInto("stderr"),
    env: { OPENAI_API_KEY: "sk-of-the-test" },
    cwd: folder,
    isTerminal: false,
    colors: false,
    signal: new AbortController().signal,
    ...more,
  };
  return { context, written };
}

const write = (name: string, text: string): void => writeFileSync(join(folder, name), text);
const read = (name: string): string => readFileSync(join(folder, name), "utf8");

const good = `connections: { phones: { provider: direct } }
agents: { helper: { model: gpt-4o-mini, prompt: Help., device: { connection: phones } } }
`;
const bad = good.replace("connection: phones", "conection: phones");

test("a provider that is notifier and room has the same fields in both roles", () => {
  const both = [...registry.notifiers.values()].filter(({ provider }) => registry.rooms.has(provider));
  expect(both.map(({ provider }) => provider)).toContain("mqtt");
  for (const { provider, options } of both) expect(registry.rooms.get(provider)?.options).toBe(options);
});

describe("leafmesh validate", () => {
  test("says that a file is valid and what it holds", async () => {
    write("mesh.yaml", good);
    const { context, written } = createContext();
    expect(await validate({ file: "mesh.yaml" }, context, registry)).toBe(EXIT.ok);
    expect(written).toEqual({ stdout: "mesh.yaml is valid (1 agent, 1 connection)\n", stderr: "" });
  });

  test("prints every mistake with its line, and how many there are", async () => {
    write("mesh.yaml", bad);
    const { context, written } = createContext();
    expect(await validate({ file: "mesh.yaml" }, context, registry)).toBe(EXIT.invalid);
    expect(written.stdout).toBe(`mesh.yaml:2:56 agents.helper.device: the key "connection" is missing
    2 | agents: { helper: { model: gpt-4o-mini, prompt: Help., device: { conection: phones } } }
      |                                                        ^^^^^^
mesh.yaml:2:66 agents.helper.device.conection: unknown key; did you mean "connection"?
    2 | agents: { helper: { model: gpt-4o-mini, prompt: Help., device: { conection: phones } } }
      |                                                                  ^^^^^^^^^
mesh.yaml: 2 errors
`);
  });

  test("warnings do not make a file invalid", async () => {
    write("mesh.yaml", good);
    const { context, written } = createContext({ env: {} });
    expect(await validate({ file: "mesh.yaml" }, context, registry)).toBe(EXIT.ok);
    expect(written.stdout).toContain("warning: agents.helper.model: this is a model of OpenAI");
    expect(written.stdout).toContain("mesh.yaml is valid (1 agent, 1 connection, 1 warning)\n");
  });

  test("--json gives the same to a script", async () => {
    write("mesh.yaml", bad);
    const { context, written } = createContext();
    expect(await validate({ file: "mesh.yaml", json: true }, context, registry)).toBe(EXIT.invalid);
    expect(JSON.parse(written.stdout)).toEqual({
      ok: false,
      warnings: [],
      diagnostics: [
        expect.objectContaining({ code: "missing_key", line: 2, column: 56, path: "agents.helper.device" }),
        {
          severity: "error",
          code: "unknown_key",
          file: "mesh.yaml",
          line: 2,
          column: 66,
          endColumn: 75,
          path: "agents.helper.device.conection",
          message: "unknown key",
          hint: 'did you mean "connection"?',
          sourceLine: "agents: { helper: { model: gpt-4o-mini, prompt: Help., device: { conection: phones } } }",
          mark: [65, 74],
        },
      ],
    });
  });

  test("--json of a valid file", async () => {
    write("mesh.yaml", good);
    const { context, written } = createContext();
    await validate({ file: "mesh.yaml", json: true }, context, registry);
    expect(JSON.parse(written.stdout)).toEqual({ ok: true, diagnostics: [], warnings: [] });
  });

  test("a file that is not there", async () => {
    const { context, written } = createContext();
    expect(await validate({ file: "mesh.yaml" }, context, registry)).toBe(EXIT.invalid);
    expect(written.stdout).toContain("mesh.yaml:1:1 there is no such file");
  });

  test("--max-config-size raises and lowers the limit", async () => {
    write("mesh.yaml", `${good}# ${"x".repeat(300_000)}\n`);
    const { context } = createContext();
    expect(await validate({ file: "mesh.yaml" }, context, registry)).toBe(EXIT.invalid);
    expect(await validate({ file: "mesh.yaml", maxConfigSize: 400_000 }, context, registry)).toBe(EXIT.ok);
    expect(await validate({ file: "mesh.yaml", maxConfigSize: 100 }, context, registry)).toBe(EXIT.invalid);
  });

  test("colours only where they are wanted", async () => {
    write("mesh.yaml", bad);
    const { context, written } = createContext({ colors: true });
    await validate({ file: "mesh.yaml" }, context, registry);
    expect(written.stdout).toContain("\u001b[31munknown key\u001b[39m");
  });

  test("the package of a provider is looked for where the command runs", async () => {
    write(
      "mesh.yaml",
      `connections: { b: { provider: mqtt, url: "mqtt://127.0.0.1" } }\n${good.replace(/^.*\n/, "").replace("phones", "b")}`,
    );
    const { context, written } = createContext();
    expect(await validate({ file: "mesh.yaml" }, context, registry)).toBe(EXIT.ok);
    expect(written.stdout).not.toContain("is not installed");
  });
});

describe("leafmesh schema", () => {
  test("prints the schema of a mesh with all providers", async () => {
    const { context, written } = createContext();
    expect(await schema({}, context, registry)).toBe(EXIT.ok);
    expect(JSON.parse(written.stdout)).toEqual(meshJsonSchema(registry));
    for (const name of [...registry.notifiers.keys(), ...registry.rooms.keys()]) {
      expect(written.stdout).toContain(`"const": "${name}"`);
    }
  });

  test("--out writes the same to a file", async () => {
    const { context, written } = createContext();
    await schema({}, context, registry);
    const printed = written.stdout;
    expect(await schema({ out: "mesh.schema.json" }, context, registry)).toBe(EXIT.ok);
    expect(read("mesh.schema.json")).toBe(printed);
    expect(written.stdout).toBe(`${printed}wrote mesh.schema.json\n`);
  });

  test("says why it cannot write", async () => {
    const { context } = createContext();
    await expect(schema({ out: "no/such/folder.json" }, context, registry)).rejects.toThrow(
      /^cannot write no\/such\/folder\.json: ENOENT/,
    );
  });
});

describe("leafmesh new", () => {
  test("writes a mesh that is valid and devices can join", async () => {
    const { context, written } = createContext();
    expect(await newMesh({ folder: "support mesh" }, context, registry)).toBe(EXIT.ok);
    expect(readdirSync(join(folder, "support mesh")).sort()).toEqual([".gitignore", "mesh.schema.json", "mesh.yaml"]);
    expect(await validate({ file: "support mesh/mesh.yaml" }, context, registry)).toBe(EXIT.ok);
    expect(written.stdout).toContain("support mesh/mesh.yaml is valid (1 agent, 1 connection)\n");
    const loaded = loadMeshFile("support mesh/mesh.yaml", { registry, env: {}, cwd: folder });
    expect(loaded.ok && loaded.mesh.name).toBe("support-mesh");
    expect(loaded.ok && loaded.mesh.connections.get("my_phones")?.provider).toBe("direct");
    expect(loaded.ok && loaded.mesh.agents.get("phone_helper")?.device).toMatchObject({
      connection: "my_phones",
      room: undefined,
      approval: "ask",
    });
  });

  test("begins with the line that editors look for, and writes the schema it names", async () => {
    const { context } = createContext();
    await newMesh({ folder: "." }, context, registry);
    expect(read("mesh.yaml").split("\n")[0]).toBe("# yaml-language-server: $schema=./mesh.schema.json");
    expect(JSON.parse(read("mesh.schema.json"))).toEqual(meshJsonSchema(registry));
  });

  test.each([["mesh.yaml"], ["mesh.schema.json"]])("overwrites no %s and then writes nothing", async (name) => {
    write(name, "mine\n");
    const { context } = createContext();
    const failed = await newMesh({ folder: "." }, context, registry).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(CommandFailure);
    expect(failed).toMatchObject({ message: `${join(folder, name)} exists already`, hint: "--force overwrites it" });
    expect(readdirSync(folder)).toEqual([name]);
    expect(read(name)).toBe("mine\n");
  });

  test("--force overwrites", async () => {
    write("mesh.yaml", "mine\n");
    const { context } = createContext();
    expect(await newMesh({ folder: ".", force: true }, context, registry)).toBe(EXIT.ok);
    expect(read("mesh.yaml")).toContain("phone_helper");
  });

  test.each([
    ["node_modules", "node_modules\n.leafmesh/\n"],
    ["node_modules\n", "node_modules\n.leafmesh/\n"],
    ["/.leafmesh\n", "/.leafmesh\n"],
  ])("an ignore file of %j becomes %j", async (before, after) => {
    write(".gitignore", before);
    const { context } = createContext();
    await newMesh({ folder: "." }, context, registry);
    expect(read(".gitignore")).toBe(after);
  });

  test("says why it cannot write", async () => {
    write("taken", "");
    const { context } = createContext();
    await expect(newMesh({ folder: "taken/below" }, context, registry)).rejects.toThrow(/^cannot write to .*taken/);
  });
});

describe("leafmesh graph", () => {
  test("draws entry points, agents, what they ring through and where they meet", async () => {
    write(
      "mesh.yaml",
      `models: { local: { base_url: "http://127.0.0.1:11434/v1" } }
connections:
  phones: { provider: direct }
  broker: { provider: mqtt, url: "mqtt://127.0.0.1", room_topic_prefix: rooms }
agents:
  helper: { model: gpt-4o-mini, prompt: p, device: { connection: phones } }
  gardener: { model: 'local/a"b<c>#;[d]', prompt: p, device: { connection: broker, room: broker, approval: silent } }
entry_points:
  - { name: chat, target: helper }
  - { name: garden, target: gardener }
`,
    );
    const { context, written } = createContext();
    expect(await graph({ file: "mesh.yaml" }, context, registry)).toBe(EXIT.ok);
    expect(written.stdout).toBe(`flowchart LR
  agent0["helper<br/>gpt-4o-mini"]
  agent1["gardener<br/>local/a#34;b#60;c#62;#35;#59;#91;d#93;"]
  entry0(["chat"]) --> agent0
  entry1(["garden"]) --> agent1
  place0{{"phones<br/>direct"}}
  agent0 -->|"rings, ask"| place0
  place1{{"built-in rooms<br/>leafmesh"}}
  agent0 -.->|"meets in"| place1
  place2{{"broker<br/>mqtt"}}
  agent1 -->|"rings, silent"| place2
  agent1 -.->|"meets in"| place2
`);
  });

  test("a connection that is not in the file is drawn as such", async () => {
    write("mesh.yaml", "agents: { a: { model: m, prompt: p, device: { connection: elsewhere } } }\n");
    const { context, written } = createContext();
    expect(await graph({ file: "mesh.yaml" }, context, registry)).toBe(EXIT.ok);
    expect(written.stdout).toContain('place0{{"elsewhere<br/>not in this file"}}');
  });

  test("says what is wrong with an invalid file and draws nothing", async () => {
    write("mesh.yaml", bad);
    const { context, written } = createContext();
    expect(await graph({ file: "mesh.yaml" }, context, registry)).toBe(EXIT.invalid);
    expect(written.stdout).toBe("");
    expect(written.stderr).toContain("unknown key");
  });
});

describe("keys webpush", () => {
  test("makes a pair that belongs together and that the notifier takes, another one each time", async () => {
    const pairs = [0, 1].map(() => {
      const { context, written } = createContext();
      expect(webpushKeys({ json: true }, context)).toBe(EXIT.ok);
      return JSON.parse(written.stdout) as { public_key: string; private_key: string };
    });
    for (const { public_key, private_key } of pairs) {
      const key = createECDH("prime256v1");
      key.setPrivateKey(private_key, "base64url");
      expect(key.getPublicKey("base64url")).toBe(public_key);
      const mesh = `name: m
agents: { helper: { model: gpt-4o-mini, prompt: Help. } }
connections: { b: { provider: webpush, vapid_private_key: "${private_key}", contact: "mailto:a@example.com" } }
`;
      writeFileSync(join(folder, "mesh.yaml"), mesh);
      expect(loadMeshFile("mesh.yaml", { registry, env: {}, cwd: folder, knownConnections: new Map() }).ok).toBe(true);
    }
    expect(pairs[0]?.private_key).not.toBe(pairs[1]?.private_key);
  });

  test("says where each of the two goes", () => {
    const { context, written } = createContext();
    webpushKeys({}, context);
    expect(written.stdout).toMatch(/applicationServerKey.*\n {2}[\w-]{87}\n/);
    expect(written.stdout).toMatch(/VAPID_PRIVATE_KEY=[\w-]{43}\n/);
  });
});
