/** The guide's programs compile, and its tables say what the code says. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, expect, it } from "vitest";

const root = resolve(import.meta.dirname, "../../..");
const page = readFileSync(join(root, "docs/tools-on-the-client.md"), "utf8");
const programs = [...page.matchAll(/^```ts\n(.*?)^```/gms)].map((match) => match[1] ?? "");
// Inside the package, so that it can import itself by its name as an installed one would.
const folder = mkdtempSync(join(import.meta.dirname, "../.docs-"));
afterAll(() => rmSync(folder, { recursive: true }));

const source = (file: string): string => readFileSync(join(import.meta.dirname, "executor", file), "utf8");

it("compiles", { timeout: 60_000 }, () => {
  expect(programs.length).toBeGreaterThanOrEqual(4);
  for (const [index, program] of programs.entries()) writeFileSync(join(folder, `program-${index}.ts`), program);
  const config = { extends: join(root, "tsconfig.json"), include: ["*.ts"], exclude: [] };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
  execFileSync(join(root, "node_modules/.bin/tsc"), ["--noEmit", "-p", folder], { stdio: "pipe", encoding: "utf8" });
});

it("names every code that the executor answers with by itself, and no other", () => {
  const text = ["answer.ts", "perform.ts"].map(source).join("");
  const codes = [...text.matchAll(/(?:failed|error)\(\s*"(\w+)"/g)].map((match) => match[1]);
  const listed = [...(page.split("## What the agent reads")[1] ?? "").matchAll(/^\| `(\w+)` \|/gm)].map(
    (match) => match[1],
  );
  expect([...new Set(listed)].sort()).toEqual([...new Set(codes)].sort());
});

it("names everything that is told of a call, and each reason to stop one", () => {
  const events = [...source("events.ts").matchAll(/readonly type: "(\w+)"/g)].map((match) => match[1]);
  const causes = /type StopCause =([^;]*);/.exec(source("tool.ts"))?.[1]?.match(/\w+/g) ?? [];
  const words = [...events, ...causes].filter((word) => word !== "connection");
  expect(words.length).toBeGreaterThan(12);
  expect(words.filter((word) => !page.includes(`\`${word}\``))).toEqual([]);
});
