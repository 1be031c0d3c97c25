import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { neededBy, withEmittedNames } from "./emitted.ts";

describe("withEmittedNames", () => {
  it.each([
    ['export { a } from "./a.ts";', 'export { a } from "./a.js";'],
    ['import "../b/c.ts";', 'import "../b/c.js";'],
    ['type T = typeof import("./d.ts").d;', 'type T = typeof import("./d.js").d;'],
    ['export { a } from "@leafmesh/core";', 'export { a } from "@leafmesh/core";'],
    ['export { a } from "./already.js";', 'export { a } from "./already.js";'],
  ])("%s", (emitted, right) => {
    expect(withEmittedNames(emitted)).toBe(right);
  });
});

describe("neededBy", () => {
  let folder: string;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "leafmesh-emitted-"));
    mkdirSync(join(folder, "inner"));
    const files = {
      "index.js": 'import { a } from "./a.js";\nexport const load = () => import("./inner/lazy.js");\nimport "zod";',
      "index.d.ts": 'import type { T } from "./types.ts";\nexport declare const a: T;',
      "a.js": 'import "./index.js";\nimport manifest from "../package.json" with { type: "json" };',
      "a.d.ts": "",
      "types.d.ts": "export type T = string;",
      "inner/lazy.js": 'export * from "../a.js";',
      "helper.js": "",
      "a.test.js": 'import "./a.js";',
    };
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it("follows code and types, lazy imports and circles, and nothing else", () => {
    const needed = neededBy([join(folder, "index")]).map((path) => relative(folder, path));
    expect(needed.sort()).toEqual(["a.d.ts", "a.js", "index.d.ts", "index.js", "inner/lazy.js", "types.d.ts"]);
  });
});
