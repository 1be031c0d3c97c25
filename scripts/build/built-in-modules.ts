/**
 * Node's own modules without an `import`: importing one evaluates every getter it has, and those of `node:http` alone
 * load a whole HTTP client. `process.getBuiltinModule` does not.
 */
import { isBuiltin } from "node:module";
import type { Plugin } from "esbuild";

/** What packages in CommonJS name at their top and a mesh may never use: `ws` does so for its client. */
const loadedLate: ReadonlySet<string> = new Set(["node:https", "node:tls", "node:zlib"]);

/** Every importer gets a copy of these few lines: shared, they would be one more file to load. */
export const builtInModules: Plugin = {
  name: "built-in-modules",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^(node:)?[a-z0-9_/]+$/ }, ({ path, kind, importer }) => {
      const name = `node:${path.replace(/^node:/, "")}`;
      if (!isBuiltin(name)) return undefined;
      const namespace = kind === "require-call" ? "required" : "imported";
      return { path: importer, namespace, pluginData: name, suffix: `?${name}`, sideEffects: false };
    });
    onLoad({ filter: /.*/, namespace: "required" }, ({ pluginData: name }) => ({
      contents: `module.exports = ${loadedLate.has(name) ? wholeOf(name) : load(name)};`,
    }));
    onLoad({ filter: /.*/, namespace: "imported" }, ({ pluginData: name }) => ({ contents: facadeOf(name) }));
  },
};

function load(name: string): string {
  return `process.getBuiltinModule("${name}")`;
}

/** An ES module with the names of a built-in one. Only a name that is imported reads its property. */
function facadeOf(name: string): string {
  const exported = namesOf(name).map((key) => `export const ${key} = /* @__PURE__ */ (() => ${load(name)}.${key})();`);
  return [...exported, `export default ${wholeOf(name)};`].join("\n");
}

/**
 * A module as one value. Who asks for an object may never come to use it, so it is loaded with the first property that
 * is read. A function, or an object with a class of its own, is what it is.
 */
function wholeOf(name: string): string {
  const whole = builtIn(name);
  if (typeof whole === "function" || Object.getPrototypeOf(whole) !== Object.prototype) return load(name);
  const getters = namesOf(name).map((key) => `get ${key}() { return ${load(name)}.${key}; }`);
  return `{ ${getters.join(", ")} }`;
}

function namesOf(name: string): readonly string[] {
  return Object.keys(builtIn(name)).filter((key) => key !== "default");
}

function builtIn(name: string): object {
  const whole: unknown = process.getBuiltinModule(name);
  if (whole === undefined || whole === null) throw new Error(`this Node has no module ${name}`);
  return whole;
}
