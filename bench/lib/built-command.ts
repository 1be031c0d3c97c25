/** The `leafmesh` command as it is published. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { resolve } from "node:path";

const root = resolve(import.meta.dirname, "../..");

/** Path of the command, built first unless the build that is there is to be taken. */
export function buildCommand(options: { readonly build: boolean }): string {
  const main = resolve(root, "packages/cli/dist/main.js");
  if (options.build) {
    const { status } = spawnSync(process.execPath, [resolve(root, "scripts/build.ts")], { stdio: "inherit" });
    if (status !== 0) throw new Error("the build failed");
  }
  if (!existsSync(main)) throw new Error("there is no build: leave --no-build out");
  return main;
}
