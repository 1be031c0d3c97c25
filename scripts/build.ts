/**
 * Builds what is published: every package's `dist` (JavaScript and types of its public faces and what they reach), and
 * the `leafmesh` command as a bundle that loads a command's code when it is called.
 *
 *   npm run build
 *   npm run build -- --out <folder>     into <folder>/<package>/dist instead of packages/<package>/dist
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import { bundleCommand } from "./build/bundle-command.ts";
import { bundleJoinPage } from "./build/bundle-join-page.ts";
import { neededBy, withEmittedNames } from "./build/emitted.ts";
import { readPackages } from "./build/packages.ts";

const root = resolve(import.meta.dirname, "..");

const { values } = parseArgs({ options: { out: { type: "string", default: join(root, "packages") } } });
const started = performance.now();
const packages = readPackages(join(root, "packages"));
const staging = mkdtempSync(join(tmpdir(), "leafmesh-build-"));
process.on("exit", () => rmSync(staging, { recursive: true, force: true }));

compile(staging);
for (const { folderName, faces } of packages) {
  const dist = join(resolve(values.out), folderName, "dist");
  rmSync(dist, { recursive: true, force: true });
  const emitted = join(staging, folderName, "src");
  for (const file of neededBy(faces.map((face) => join(emitted, face.replace(/\.ts$/, ""))))) {
    const target = join(dist, relative(emitted, file));
    const text = readFileSync(file, "utf8");
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, file.endsWith(".d.ts") ? withEmittedNames(text) : text);
  }
}
const bundle = await bundleCommand(join(root, "packages/cli"), join(resolve(values.out), "cli/dist"));
writeFileSync(join(resolve(values.out), "cli/dist/join-page.js"), await bundleJoinPage());
const seconds = ((performance.now() - started) / 1000).toFixed(1);
console.log(
  `built ${packages.length} packages in ${seconds} s; the command is ${kilobytes(bundle.totalBytes)} KB, ` +
    `of which run loads ${kilobytes(bundle.startBytes)} KB before it is ready`,
);

/**
 * One program for all packages, which takes a third of the time of one for each. Every source is named, because one that
 * is only reached through another package's node_modules counts as foreign and is not emitted:
 * https://github.com/microsoft/TypeScript/issues/37270
 */
function compile(outDir: string): void {
  const project = join(outDir, "tsconfig.json");
  writeFileSync(
    project,
    JSON.stringify({
      extends: join(root, "tsconfig.json"),
      compilerOptions: {
        noEmit: false,
        declaration: true,
        rewriteRelativeImportExtensions: true,
        allowImportingTsExtensions: false,
        rootDir: join(root, "packages"),
        outDir,
        typeRoots: [join(root, "node_modules/@types")],
      },
      include: [join(root, "packages/*/src/**/*.ts")],
      exclude: [join(root, "**/*.test.ts")],
    }),
  );
  const { status } = spawnSync(join(root, "node_modules/.bin/tsc"), ["-p", project], { stdio: "inherit" });
  if (status !== 0) process.exit(1);
}

function kilobytes(bytes: number): string {
  return (bytes / 1024).toFixed(0);
}
