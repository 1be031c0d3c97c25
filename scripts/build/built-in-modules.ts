/**
 * Node's own modules without an `import`: importing one evaluates every getter it has, and those of `node:http` alone
 * load a whole HTTP client. `process.getBuiltinModule` does not.
 */
import { isBuiltin } from "node:module";
import type { Plugin } from "esbuild";

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
      contents: `module.exports = ${load(name)};`,
    }));
    onLoad({ filter: /.*/, namespace: "imported" }, ({ pluginData: name }) => ({ contents: facadeOf(name) }));
  },
};

function load(name: string): string {
  return `process.getBuiltinModule("${name}")`;
}

/** An ES module with the names of a built-in one. Only a name that is imported reads its property. */
function facadeOf(name: string): string {
  const whole: unknown = process.getBuiltinModule(name);
  if (whole === undefined || whole === null) throw new Error(`this Node has no module ${name}`);
  const names = Object.keys(whole).filter((key) => key !== "default");
  const getters = names.map((key) => `get ${key}() { return ${load(name)}.${key}; }`);
  return [
    ...names.map((key) => `export const ${key} = /* @__PURE__ */ (() => ${load(name)}.${key})();`),
    // Who imports an object as a whole may never come to use it.
    `export default ${typeof whole === "function" ? load(name) : `{ ${getters.join(", ")} }`};`,
  ].join("\n");
}
