/**
 * Builds what is published: every package's `dist` (JavaScript and types), and the command line as one bundled file,
 * which starts in half the time of its sources.
 *
 *   npm run build
 */
import { spawnSync } from "node:child_process";
import { chmodSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { build } from "esbuild";

const root = resolve(import.meta.dirname, "..");
const packages = join(root, "packages");

/** Imported on first use and resolved from the operator's installation, never bundled. */
const external = ["mqtt", "undici", "openai"];

for (const name of readdirSync(packages)) {
  const folder = join(packages, name);
  rmSync(join(folder, "dist"), { recursive: true, force: true });
  const config = join(folder, "tsconfig.build.json");
  writeFileSync(
    config,
    JSON.stringify({
      extends: "../../tsconfig.json",
      compilerOptions: {
        noEmit: false,
        declaration: true,
        rewriteRelativeImportExtensions: true,
        allowImportingTsExtensions: false,
        rootDir: "src",
        outDir: "dist",
        skipLibCheck: true,
      },
      include: ["src/**/*.ts"],
      exclude: ["src/**/*.test.ts"],
    }),
  );
  const result = spawnSync(join(root, "node_modules", ".bin", "tsc"), ["-p", config], {
    cwd: folder,
    stdio: "inherit",
  });
  rmSync(config);
  if (result.status !== 0) {
    console.error(`build: ${name} does not compile`);
    process.exit(1);
  }
}

const main = join(packages, "cli", "dist", "main.js");
await build({
  entryPoints: [join(packages, "cli", "src", "main.ts")],
  outdir: join(packages, "cli", "dist"),
  bundle: true,
  splitting: true,
  format: "esm",
  platform: "node",
  target: "node22",
  minify: true,
  conditions: ["leafmesh-source"],
  external,
  chunkNames: "chunks/[name]-[hash]",
  banner: {
    js: 'import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);',
  },
  logLevel: "warning",
  allowOverwrite: true,
});
chmodSync(main, 0o755);
console.log(`built ${readdirSync(packages).length} packages; ${readFileSync(main).byteLength} bytes of main.js`);
