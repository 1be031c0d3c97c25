/**
 * Packages in CommonJS that are imported on first use. A file of their own would export nothing but a default, where the
 * sources (and Node) find names; a module that names them stands between.
 */
import { createRequire } from "node:module";
import { join } from "node:path";
import type { Metafile, Plugin } from "esbuild";

export function lazyCommonJs(packages: readonly string[]): Plugin {
  const namespace = "lazy-common-js";
  return {
    name: namespace,
    setup({ onResolve, onLoad }) {
      onResolve({ filter: /^[^.]/ }, ({ path, kind, resolveDir }) =>
        kind === "dynamic-import" && packages.includes(path) ? { path, namespace, pluginData: resolveDir } : undefined,
      );
      onLoad({ filter: /.*/, namespace }, ({ path, pluginData: resolveDir }) => {
        const whole: object = createRequire(join(resolveDir, "importer.js"))(path);
        const names = Object.keys(whole).filter((name) => name !== "default");
        const contents = `import whole from "${path}";\nexport default whole;\nexport const { ${names.join(", ")} } = whole;`;
        return { contents, resolveDir };
      });
    },
  };
}

/** Throws when a lazily imported package is in CommonJS and was not listed: its names would be missing at run time. */
export function refuseNamelessFiles({ inputs, outputs }: Metafile): void {
  for (const { entryPoint } of Object.values(outputs)) {
    if (entryPoint?.includes("node_modules") && inputs[entryPoint]?.format === "cjs") {
      throw new Error(
        `build: ${entryPoint} is in CommonJS and imported on first use; list its package for lazyCommonJs`,
      );
    }
  }
}
