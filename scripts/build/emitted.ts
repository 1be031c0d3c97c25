/** What the compiler emitted: made right, and reduced to what a package needs. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

const RELATIVE_IMPORT = /(\bfrom |\bimport |\bimport\()"(\.{1,2}\/[^"]+)"/g;

/** TypeScript leaves the names of sources in the types that it emits, where a package may not refer to them. */
export function withEmittedNames(types: string): string {
  return types.replace(
    RELATIVE_IMPORT,
    (_, before: string, path: string) => `${before}"${path.replace(/\.ts$/, ".js")}"`,
  );
}

/**
 * Paths of all files that `modules` (paths without extension) need, code and types, themselves among them. Tests and
 * their helpers are needed by nobody.
 */
export function neededBy(modules: readonly string[]): readonly string[] {
  const found = new Set<string>();
  const waiting = [...modules];
  for (let module = waiting.pop(); module !== undefined; module = waiting.pop()) {
    if (found.has(module)) continue;
    found.add(module);
    for (const path of filesOf(module)) {
      for (const [, , target = ""] of readFileSync(path, "utf8").matchAll(RELATIVE_IMPORT)) {
        if (/\.[jt]s$/.test(target)) waiting.push(join(dirname(module), target.slice(0, -".js".length)));
      }
    }
  }
  return [...found].flatMap(filesOf);
}

function filesOf(module: string): readonly string[] {
  return [`${module}.js`, `${module}.d.ts`].filter((path) => existsSync(path));
}
