/**
 * Writes the parts of docs/ that are generated.
 *
 *   npm run docs                write them
 *   npm run docs -- --check     fail if what is committed differs
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { renderMeshReference } from "@leafmesh/core/config";
import { providerDefinitions, providerRegistry } from "../packages/cli/src/registry.ts";
import { renderNotifierPage, renderNotifiersPage } from "./docs/notifiers-page.ts";
import { renderRoomsPage } from "./docs/rooms-page.ts";

const root = resolve(import.meta.dirname, "..");

/** Nothing runs while pages are written. */
const idle = (): never => {
  throw new Error("no mesh is running");
};

const registry = await providerRegistry();
const definitions = providerDefinitions({ ringer: idle, rooms: idle });

const generated: Readonly<Record<string, () => string>> = {
  "docs/mesh-yaml.md": () => renderMeshReference(registry),
  "docs/notifiers.md": () => renderNotifiersPage([...definitions.notifiers.values()]),
  ...Object.fromEntries(
    [...definitions.notifiers.values()].map((notifier) => [
      `docs/notifiers/${notifier.provider}.md`,
      () => renderNotifierPage(notifier),
    ]),
  ),
  "docs/rooms.md": () => renderRoomsPage([...definitions.rooms.values()]),
};

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

const isCheck = process.argv.includes("--check");
let stale = 0;
for (const [name, render] of Object.entries(generated)) {
  const path = join(root, name);
  const text = render();
  if (readIfThere(path) === text) continue;
  if (isCheck) {
    console.error(`${name} differs from what the code generates; run: npm run docs`);
    stale++;
  } else {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    console.log(`wrote ${name}`);
  }
}
process.exitCode = stale > 0 ? 1 : 0;
