import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { loadMesh, renderDiagnostics, renderMeshReference } from "@leafmesh/core/config";
import { describe, expect, test } from "vitest";
import { providerRegistry } from "../packages/cli/src/registry.ts";

const registry = await providerRegistry();
const docs = resolve(import.meta.dirname, "../docs");
const pages = readdirSync(docs, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".md"));

test("docs/mesh-yaml.md is what the code generates", () => {
  expect(readFileSync(join(docs, "mesh-yaml.md"), "utf8")).toBe(renderMeshReference(registry));
});

describe("every mesh on a page is valid", () => {
  /** The variables that a mesh needs, set to anything of their kind; those with a default are left to it. */
  const envFor = (text: string): Record<string, string> =>
    Object.fromEntries(
      [...text.matchAll(/\$\{([A-Z_][A-Z0-9_]*)\}/g)].map(([, name]) => [
        name,
        name === "DATABASE_URL" ? "postgres://mesh:secret@db.example.com/mesh" : "a-value-of-some-length",
      ]),
    );
  const isMesh = (text: string): boolean =>
    /^(agents|connections|models|server|storage|limits|entry_points):/m.test(text);

  const meshes = pages.flatMap((page) =>
    [...readFileSync(join(docs, page), "utf8").matchAll(/^```ya?ml\n([\s\S]*?)^```/gm)]
      .map((block) => block[1] ?? "")
      .filter(isMesh)
      .map((text, index) => ({ name: `${page}, ${index + 1}`, text })),
  );

  test.each(meshes)("$name", ({ text }) => {
    // A page may show a part of a mesh; what it leaves out is added.
    const whole = /^agents:/m.test(text) ? text : `${text}\nagents: { a: { model: gpt-4o-mini, prompt: Help. } }\n`;
    const loaded = loadMesh(whole, {
      registry,
      env: envFor(text),
      folder: docs,
      readFile: () => ({ ok: true, text: "a-value-of-some-length" }),
    });
    expect(loaded.ok ? "" : renderDiagnostics(loaded.diagnostics)).toBe("");
  });

  test("and there are some", () => {
    expect(meshes.length).toBeGreaterThanOrEqual(3);
  });
});
