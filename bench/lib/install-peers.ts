/** The peers are no dependency of anything: they are installed when something is measured beside them, and only then. */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";

const folder = resolve(import.meta.dirname, "../peers");

export function installPeers(): void {
  const lock = join(folder, "pnpm-lock.yaml");
  const installed = join(folder, "node_modules/.modules.yaml");
  if (existsSync(installed) && statSync(installed).mtimeMs >= statSync(lock).mtimeMs) return;
  console.error("bench: installing the peers (about 340 MB)…");
  const { packageManager } = JSON.parse(readFileSync(resolve(folder, "../../package.json"), "utf8"));
  const args = ["-y", "-p", packageManager, "pnpm", "install", "--frozen-lockfile", "--reporter=append-only"];
  const result = spawnSync("npx", args, {
    cwd: folder,
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, CI: "true" },
  });
  if (result.status !== 0) throw new Error(`installing the peers failed (exit ${result.status ?? result.signal})`);
}
