// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references are written into the meshes
import { describe, expect, test, vi } from "vitest";
import { headlines, loadText } from "./test-support.ts";

vi.setConfig({ testTimeout: 30_000 });

const SIZE = 256 * 1024;
/** Of processor time: an idle machine needs less than 200, and what else the machine does must not fail a test. */
const MOST_MS = 1_000;

const fill = (part: string, size = SIZE): string => part.repeat(Math.floor(size / part.length));
const numbered = (line: (index: number) => string, size = SIZE): string => {
  let text = "";
  for (let index = 0; text.length < size - 200; index++) text += line(index);
  return text;
};
const agent = "agents: { a: { model: m, prompt: p } }\n";

/** As large as the size limit lets them be. */
const atTheSizeLimit: Readonly<Record<string, string>> = {
  "keys, all different": numbered((index) => `k${index}: 1\n`),
  "keys, all the same": fill("a:\n"),
  "a list": fill("- a\n"),
  "an empty list item a line": fill("-\n"),
  "a flow list": `[${fill("a,")}]`,
  "a flow list of nothing": `[${fill(",")}]`,
  "a flow mapping": `{${fill("a,")}}`,
  "opening brackets": fill("["),
  "opening braces": fill("{a: "),
  "closing brackets": fill("]"),
  "lists in lists": fill("- "),
  "keys of keys": fill("? "),
  "mappings in mappings": Array.from({ length: 700 }, (_, depth) => `${" ".repeat(depth)}a:\n`).join(""),
  "lines of nothing": fill("\n"),
  "lines of tabs": fill("\t\n"),
  comments: fill("#\n"),
  documents: fill("---\n"),
  directives: fill("%\n"),
  anchors: fill("- &a b\n"),
  aliases: `- &a b\n${fill("- *a\n", SIZE - 7)}`,
  tags: fill("- !x b\n"),
  quotes: fill('"'),
  "exclamation marks": fill("! "),
  ampersands: fill("& "),
  asterisks: fill("* "),
  colons: fill(": "),
  dashes: `a: b: ${fill("-", SIZE - 10)}`,
  "a text of many lines": `a: ${fill("b\n  ", SIZE - 10)}`,
  "a folded text of many lines": `a: >\n${fill(" b\n", SIZE - 10)}`,
  "a quoted text that never ends": `a: "${fill("b\n ", SIZE - 10)}`,
  "one long key": `${fill("k", SIZE - 10)}: 1`,
  "keys in a text that is no mapping": fill("a: b: c\n"),
};

/** Within all limits, so that they reach the checks behind the parser. */
const withinAllLimits: Readonly<Record<string, string>> = {
  "the same key": fill("agents: 1\n", 100_000),
  "unknown keys": numbered((index) => `k${index}: 1\n`, 60_000),
  "unknown keys on one line": `agents: { a: { model: m, prompt: p, ${numbered((index) => `z${index}: 1, `, 70_000)} } }`,
  "agents without anything": `agents:\n${numbered((index) => `  a${index}: {}\n`, 90_000)}`,
  "agents of unknown models": `agents:\n${numbered((index) => `  a${index}: { model: q/x, prompt: p }\n`, 70_000)}`,
  "connections of nothing": `${agent}connections:\n${numbered((index) => `  c${index}: { provider: mqtt }\n`, 90_000)}`,
  "entry points to nowhere": `${agent}entry_points:\n${numbered((index) => `- { name: e${index}, target: b }\n`, 80_000)}`,
  "API keys, all the same": `${agent}server:\n  api_keys:\n${fill("  - key\n", 90_000)}`,
  "variables that are not set": `${agent}server:\n  cors_origins:\n${fill("    - ${NOPE}\n", 140_000)}`.replaceAll(
    "NOPE",
    "N",
  ),
  "a text of variables": `agents: { a: { model: m, prompt: "${fill(`\${NOPE}`, 250_000)}" } }\n`,
  "a text of unclosed references": `agents: { a: { model: m, prompt: "${fill("${", 250_000)}" } }\n`,
  "unquoted references": `a: [${fill(`\${A},`, 36_000)}]`,
  "patterns against patterns": `agents: { a: { model: m, prompt: p, device: { connection: c, allow: [${fill("a*b,", 40_000)}], deny: [${fill("qqq,", 40_000)}] } } }`,
  "a wide mapping merged often": `agents:\n  a: &a { ${Array.from({ length: 200 }, (_, index) => `k${index}: 1`).join(", ")} }\n${numbered((index) => `  b${index}: { <<: *a }\n`, 70_000)}`,
};

const load = (text: string) => {
  const before = process.cpuUsage();
  const loaded = loadText(text.slice(0, SIZE), { env: {} });
  const { user, system } = process.cpuUsage(before);
  return { loaded, usedMs: (user + system) / 1000 };
};

describe.each([
  ["at the size limit", atTheSizeLimit],
  ["within all limits", withinAllLimits],
])("a hostile file %s is refused at once", (_, files) => {
  test.each(Object.entries(files))("%s", (_name, text) => {
    const { loaded, usedMs } = load(text);
    expect(loaded.ok).toBe(false);
    expect(headlines(loaded)[0]).toMatch(/^mesh\.yaml:\d+:\d+ \S/);
    expect(usedMs).toBeLessThan(MOST_MS);
  });
});

describe("bounds", () => {
  test("aliases that unfold to billions of values", () => {
    const levels = "abcdefghi".split("");
    const bomb = levels
      .map(
        (level, index) =>
          `${level}: &${level} [${Array(9)
            .fill(index === 0 ? "lol" : `*${levels[index - 1]}`)
            .join(", ")}]`,
      )
      .join("\n");
    expect(headlines(loadText(bomb))).toEqual([
      "mesh.yaml:5:7 e: with its aliases unfolded the file holds more than 52429 values; use fewer aliases of aliases",
    ]);
  });

  test("nesting", () => {
    expect(headlines(loadText(`a: ${"[".repeat(40)}`))).toEqual([
      "mesh.yaml:1:36 the file is nested more than 32 levels deep; check that the right file was named",
    ]);
  });

  test("tokens", () => {
    expect(headlines(loadText(fill("a:\n")))).toEqual([
      "mesh.yaml:13108:1 the file has more than 52429 keys, values and marks; split the mesh, or raise the limit with --max-config-size",
    ]);
  });

  test("size, and a raised limit", () => {
    const mesh = `${agent}# ${"x".repeat(300_000)}\n`;
    expect(headlines(loadText(mesh))).toEqual([
      "mesh.yaml:1:1 the file is larger than the limit of 262144 bytes; keep large texts out of the mesh file, or raise the limit with --max-config-size (up to 10 MiB)",
    ]);
    expect(loadText(mesh, { maxBytes: 400_000 }).ok).toBe(true);
  });

  test("no option raises the limit above 10 MiB", () => {
    expect(headlines(loadText(`${agent}# ${"x".repeat(11 * 1024 * 1024)}\n`, { maxBytes: 2 ** 30 }))).toEqual([
      "mesh.yaml:1:1 the file is larger than the limit of 10485760 bytes; keep large texts out of the mesh file",
    ]);
  });

  test("findings", () => {
    const said = headlines(loadText(numbered((index) => `k${index}: 1\n`, 30_000)));
    expect(said).toHaveLength(201);
    expect(said.at(-1)).toMatch(
      /^mesh\.yaml:\d+:1 only 200 findings are shown, and there may be more; correct these first$/,
    );
  });

  test("the replaced texts together", () => {
    const mesh = `agents: { a: { model: m, prompt: "${"${BIG}".repeat(2000)}" } }\n`;
    expect(headlines(loadText(mesh, { env: { BIG: "x".repeat(10_000) } }))).toEqual([
      "mesh.yaml:1:34 agents.a.prompt: the replaced texts of this file have more than 16777216 characters together",
    ]);
  });

  test("200 agents are loaded in no time", () => {
    const agents = Array.from(
      { length: 200 },
      (_, index) =>
        `  agent_${index}:\n    model: gpt-4o-mini\n    prompt: |\n      Help the customer with their phone.\n    device: { connection: c }\n`,
    );
    const { loaded, usedMs } = load(`connections: { c: { provider: direct } }\nagents:\n${agents.join("")}`);
    expect(loaded.ok && loaded.mesh.agents.size).toBe(200);
    expect(usedMs).toBeLessThan(MOST_MS);
  });
});
