/** The documentation says what the code does. */
import { globSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { OUTCOMES, REASONS, sessionEventPayloads, transientPayloads } from "@leafmesh/protocol";
import { describe, expect, it } from "vitest";
import { EXIT } from "../../packages/cli/src/context.ts";

const root = resolve(import.meta.dirname, "../..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");

describe("docs/outcomes.md", () => {
  const page = read("docs/outcomes.md");
  const sectionOf = (outcome: string): string => page.split(`### \`${outcome}\``)[1]?.split("\n###")[0] ?? "";

  it.each(OUTCOMES)("names the outcome %s", (outcome) => {
    expect(page).toMatch(new RegExp(`^\\| \`${outcome}\` \\|`, "m"));
  });

  it.each(OUTCOMES.filter((outcome) => REASONS[outcome].length > 0))("lists exactly the reasons of %s", (outcome) => {
    const listed = [...sectionOf(outcome).matchAll(/^\| `(\w+)` \|/gm)].map((match) => match[1]);
    expect(listed.sort()).toEqual([...REASONS[outcome]].sort());
  });
});

describe("docs/http-api.md", () => {
  const page = read("docs/http-api.md");

  it("names every event of a session", () => {
    const missing = [...Object.keys(sessionEventPayloads), ...Object.keys(transientPayloads)].filter(
      (type) => !page.includes(`\`${type}\``),
    );
    expect(missing).toEqual([]);
  });
});

describe("the routes of the server", () => {
  const declared = globSync("packages/server/src/routes/*.ts", { cwd: root }).flatMap((file) =>
    [...read(file).matchAll(/^\s+path: "(\/[^"]*)"/gm)].map((match) => match[1] ?? ""),
  );

  it("are all in docs/http-api.md", () => {
    expect(declared.length).toBeGreaterThan(20);
    const page = read("docs/http-api.md");
    expect(declared.filter((path) => !page.includes(path))).toEqual([]);
  });
});

describe("docs/command-line.md", () => {
  it("gives the exit codes that commands use", () => {
    const listed = [...read("docs/command-line.md").matchAll(/^\| (\d) \|/gm)].map((match) => Number(match[1]));
    expect(listed).toEqual(Object.values(EXIT));
  });
});
