import { describe, expect, it } from "vitest";
import { ModelError } from "./contract.ts";
import { parseScript } from "./script-file.ts";

function problemsOf(text: string): string {
  try {
    parseScript(text, "demo/script.yaml");
  } catch (error) {
    if (error instanceof ModelError && error.kind === "unscripted") return error.message;
    throw error;
  }
  throw new Error("the script was taken");
}

const rules = `# What the demo's model says.
- when: { last_user: battery }
  call:
    - tool: device_action
      arguments: { action: read_battery, inputs: { deep: [1, true, null, "$x \${HOME}"] } }

- when:
    tool_result: { tool: device_action, outcome: done }
  reply: "Your battery is at {{tool.data.level}} percent."
  delay_ms: 20
  stream_words: true
`;

describe("parseScript", () => {
  it("reads YAML", () => {
    expect(parseScript(Buffer.from(rules), "demo/script.yaml")).toEqual({
      places: ["script.yaml:2", "script.yaml:7"],
      script: [
        {
          when: { last_user: "battery" },
          call: [
            {
              tool: "device_action",
              arguments: { action: "read_battery", inputs: { deep: [1, true, null, `$x \${HOME}`] } },
            },
          ],
        },
        {
          when: { tool_result: { tool: "device_action", outcome: "done" } },
          reply: "Your battery is at {{tool.data.level}} percent.",
          delay_ms: 20,
          stream_words: true,
        },
      ],
    });
  });

  it("reads JSON", () => {
    expect(parseScript('[\n  { "reply": "Hello." },\n  { "call": [{ "tool": "x" }] }\n]\n', "script.json")).toEqual({
      places: ["script.json:2", "script.json:3"],
      script: [{ reply: "Hello." }, { call: [{ tool: "x", arguments: {} }] }],
    });
  });
});

describe("what is wrong with a script", () => {
  it("is told all at once, with its place and its line", () => {
    const text = `- when: { last_usr: battery }
  reply: Fine.
- when: { tool_result: { outcome: done } }
  reply: "{{tool}}"
  stream_words: 7
`;
    expect(problemsOf(text)).toBe(
      [
        'demo/script.yaml:1:11 [0].when.last_usr: unknown key; did you mean "last_user"?',
        "    1 | - when: { last_usr: battery }",
        "      |           ^^^^^^^^",
        "demo/script.yaml:5:17 [1].stream_words: must be true or false, found a whole number",
        "    5 |   stream_words: 7",
        "      |                 ^",
      ].join("\n"),
    );
  });

  it.each<[string, string, string]>([
    ["- reply: a\n- when: { turn: 1 }\n  reply: b\n", "2:3 [1]", "all steps or all rules"],
    ["- when: { last_user: a }\n  reply: '{{tool.x}}'\n", "2:10 [0].reply", "does not ask for a tool_result"],
    ["- reply: '{{device}}'\n", "1:10 [0].reply", "neither {{tool}}"],
    ["- reply: {{tool.x}}\n", "1:", "must be a text"],
    ["- call: [{ arguments: {} }]\n", "1:10 [0].call[0]", 'the key "tool" is missing'],
    ["- {}\n", "1:3 [0]", "must have a reply or a call"],
    ["steps: []\n", "1:1", "must be a list, found a mapping"],
    ["- reply: a\n  reply: b\n", "2:3 [0].reply", "stands twice"],
    ["- reply: 'a\n", "1:10", "never closed"],
  ])("is pointed at: %j", (text, place, says) => {
    expect(problemsOf(text)).toContain(`demo/script.yaml:${place}`);
    expect(problemsOf(text)).toContain(says);
  });

  it.each([
    ["an empty file", ""],
    ["a comment alone", "# nothing\n"],
    ["nothing but bytes", "\u0000"],
  ])("may be that it is %s", (_what, text) => {
    expect(problemsOf(text)).toMatch(/^demo\/script\.yaml:1:1 /);
  });

  it("is found without trouble in a hostile file", () => {
    const bomb = `- &a [x]\n${Array.from({ length: 30 }, (_, level) => `- &b${level} [${level === 0 ? "*a" : `*b${level - 1}, *b${level - 1}`}]`).join("\n")}\n`;
    expect(problemsOf(bomb)).toContain("more than");
    expect(problemsOf(`- ${"[".repeat(50_000)}`)).toContain("levels deep");
    expect(problemsOf("x".repeat(300_000))).toContain("larger than the limit");
  });
});
