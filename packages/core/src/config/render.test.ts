import { describe, expect, test } from "vitest";
import { formatPath, quoted } from "./diagnostic.ts";
import { renderDiagnostics } from "./render.ts";
import { closest, listNames } from "./suggest.ts";
import { loadText } from "./test-support.ts";

const rendered = (mesh: string): string => {
  const loaded = loadText(mesh);
  return renderDiagnostics([...(loaded.ok ? [] : loaded.diagnostics), ...loaded.warnings]);
};

describe("a finding as it is printed", () => {
  test("names the place, the cure and the line, and points at it", () => {
    const mesh = `agents:
  phone_helper:
    model: m
    prompt: p
    device:
      connection: c
      aproval: ask
connections: { c: { provider: direct } }
`;
    expect(rendered(mesh)).toBe(`mesh.yaml:7:7 agents.phone_helper.device.aproval: unknown key; did you mean "approval"?
    7 |       aproval: ask
      |       ^^^^^^^
`);
  });

  test("says that it is a warning", () => {
    expect(rendered("connections: { c: { provider: direct } }\nagents: { a: { model: m, prompt: p } }\n")).toBe(
      `mesh.yaml:1:16 warning: connections.c: no agent uses this connection
    1 | connections: { c: { provider: direct } }
      |                ^
`,
    );
  });

  test("points at a masked value", () => {
    expect(rendered("agents: { a: { model: m, prompt: p } }\nserver: { api_keys: [one-key, one-key] }\n")).toBe(
      `mesh.yaml:2:31 server.api_keys[1]: there is another entry with this key above; each must be unique
    2 | server: { api_keys: [***, ***] }
      |                           ^^^
`,
    );
  });

  test("shows the part of a long line around the place", () => {
    const [, line = "", pointer = ""] = rendered(
      `agents: { a: { model: m, prompt: "${"x".repeat(500)}", zebra: 1, description: "${"y".repeat(500)}" } }`,
    ).split("\n");
    expect(line).toMatch(/^ {4}1 \| …x+", zebra: \*\*\*, description: "y+…$/);
    expect(line.length).toBeLessThan(180);
    expect(line.slice(pointer.indexOf("^"), pointer.lastIndexOf("^") + 1)).toBe("zebra");
  });

  test("lines up under tabs and shows no character that could trick a terminal", () => {
    expect(rendered('agents: { a: { model: m, prompt: "\u202eevil\u009b",\tzebra: 1 } }\n')).toBe(
      `mesh.yaml:1:44 agents.a.zebra: unknown key; known keys: name, description, agent_type, model, prompt, temperature, max_tokens, tool_choice, max_tool_calls_per_message, tool_call_timeout, allow_parallel_tool_calls, history_limit, tools, device
    1 | agents: { a: { model: m, prompt: "\ufffdevil\ufffd", zebra: *** } }
      |                                            ^^^^^
`,
    );
  });

  test("is emphasised where colours are wanted", () => {
    const loaded = loadText("");
    const mark = (name: string) => (text: string) => `<${name}>${text}</${name}>`;
    const style = { error: mark("e"), warning: mark("w"), dim: mark("d") };
    expect(renderDiagnostics(loaded.ok ? [] : loaded.diagnostics, style)).toContain("<e>the file is empty</e>");
  });

  test("once, where a mistake is seen through several aliases", () => {
    expect(
      rendered("agents:\n  a: &a { model: m, prompt: p, zebra: 1 }\n  b: *a\n  c: { <<: *a }\n").match(
        /zebra: unknown key/g,
      ),
    ).toHaveLength(1);
  });
});

test.each([
  [["agents", "phone_helper", "device", "allow", 0], "agents.phone_helper.device.allow[0]"],
  [["agents", "a b", "model"], 'agents["a b"].model'],
  [[], ""],
])("%j is shown as %s", (path, shown) => {
  expect(formatPath(path)).toBe(shown);
});

test("a name from the file is quoted, escaped and cut", () => {
  expect(quoted('a"b\n\u202e')).toBe('"a\\"b\\n\\u202e"');
  expect(quoted("x".repeat(100))).toBe(`"${"x".repeat(80)}…"`);
});

describe("did you mean", () => {
  const names = ["approval", "connection", "room", "fcm", "api_key"];

  test.each([
    ["aproval", "approval"],
    ["Approval", "approval"],
    ["api-key", "api_key"],
    ["conection", "connection"],
    ["fmc", "fcm"],
    ["rooms", "room"],
    ["zebra", undefined],
    ["x", undefined],
    ["x".repeat(10_000), undefined],
  ])("%s: %s", (typed, meant) => {
    expect(closest(typed, names)).toBe(meant);
  });

  test("a long list of names is cut", () => {
    expect(listNames(Array.from({ length: 23 }, (_, index) => `n${index}`))).toMatch(/n19 and 3 more$/);
    expect(listNames([])).toBe("none");
  });
});
