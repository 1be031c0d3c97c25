/** Every promise of the pages is held by a test, and every test that cites one cites one that there is. */
import { globSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { type Citation, citationsIn } from "./citations.ts";
import { PROMISES } from "./cites.ts";

const root = resolve(import.meta.dirname, "../..");
const citations: readonly Citation[] = globSync("tests/**/*.test.ts", { cwd: root }).flatMap((file) =>
  citationsIn(file, readFileSync(join(root, file), "utf8")),
);
const cited = new Set(citations.flatMap(({ ids }) => ids));

describe("the manifests", () => {
  it("have every promise cited by a test", () => {
    expect(Object.keys(PROMISES).filter((id) => !cited.has(id))).toEqual([]);
  });

  it("know every promise that a test cites", () => {
    const wrong = citations.flatMap(({ file, line, ids }) =>
      ids.filter((id) => !Object.hasOwn(PROMISES, id)).map((id) => `${file}:${line} ${id}`),
    );
    expect(wrong).toEqual([]);
  });

  it("are cited in the names of tests that run, and nowhere else", () => {
    expect(
      citations.filter(({ problem }) => problem).map(({ file, line, problem }) => `${file}:${line} ${problem}`),
    ).toEqual([]);
  });

  it("say each promise once", () => {
    const said = Object.values(PROMISES).map(({ section, place, says }) => `${section}, ${place}: ${says}`);
    expect(said.filter((line, index) => said.indexOf(line) !== index)).toEqual([]);
  });
});

describe("finding citations", () => {
  const found = (source: string) =>
    citationsIn("a.test.ts", `import { cites } from "./cites.ts";\n${source}`).map(({ ids, problem }) => [
      ids,
      problem,
    ]);

  it("sees those in the names of tests and of tables of tests", () => {
    expect(found('it(cites("x", "a.1", "a.2"), () => {});')).toEqual([[["a.1", "a.2"], undefined]]);
    expect(found('describe("y", () => { it.each([1])(cites("x %i", "a.1"), () => {}); });')).toEqual([
      [["a.1"], undefined],
    ]);
  });

  it.each([
    ["a test that is skipped", 'it.skip(cites("x", "a.1"), () => {});'],
    ["a test without a body", 'it(cites("x", "a.1"));'],
    ["what is no test", 'const name = cites("x", "a.1");'],
    ["an id that is reckoned", 'it(cites("x", id), () => {});'],
    ["no id at all", 'it(cites("x"), () => {});'],
    ["a suite that is skipped", 'describe.skip("y", () => { it(cites("x", "a.1"), () => {}); });'],
  ])("does not count %s", (_, source) => {
    expect(found(source)).toEqual([[[], expect.any(String)]]);
  });
});
