/** The folder of push providers, the list that a mesh is given, and the documentation name the same ones. */
import { globSync, readFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { directNotifier, vendorNotifiers } from "@leafmesh/notifiers";
import { providerRegistry } from "leafmesh";
import { describe, expect, it } from "vitest";

const root = resolve(import.meta.dirname, "../..");
const folder = join(root, "packages/notifiers/src/providers");
const registry = await providerRegistry();
const vendors = await Promise.all(Object.values(vendorNotifiers).map((load) => load()));
const definitions = [directNotifier(() => expect.fail("nobody is rung here")), ...vendors];
const names = definitions.map(({ provider }) => provider);

/** Files that define a provider; helpers such as `fcm-answers.ts` lie beside them. */
const inFolder = globSync("*.ts", { cwd: folder })
  .filter((file) => !file.endsWith(".test.ts"))
  .filter((file) => /\bdefineNotifier\(\{/.test(readFileSync(join(folder, file), "utf8")))
  .map((file) => basename(file, ".ts").replaceAll("-", "_"));

describe("push providers", () => {
  it("each have a file of their name, and each file is in the list", () => {
    expect(inFolder.length).toBeGreaterThan(1);
    expect([...inFolder].sort()).toEqual([...names].sort());
  });

  it("are each named once, and known to the mesh", () => {
    expect(new Set(names).size).toBe(names.length);
    expect(Object.keys(vendorNotifiers)).toEqual(vendors.map(({ provider }) => provider));
    expect([...registry.notifiers.keys()].sort()).toEqual([...names].sort());
  });

  it.each(names)("%s has its page in docs/notifiers and its section in docs/mesh-yaml.md", (name) => {
    expect(readFileSync(join(root, `docs/notifiers/${name}.md`), "utf8")).toContain(`(\`${name}\`)\n`);
    expect(readFileSync(join(root, "docs/mesh-yaml.md"), "utf8")).toContain(`\n### ${name}\n`);
  });

  it.each(names.filter((name) => name !== "direct" && name !== "mqtt"))("%s is held to the suite", (name) => {
    const test = readFileSync(join(folder, `${name.replaceAll("_", "-")}.test.ts`), "utf8");
    expect(test).toMatch(/\btestNotifier\b/);
  });
});
