// Runs a TypeScript entry of this repository on the right Node with the dependencies in place.
//
//   node scripts/with-node.mjs <entry.ts> [arguments]
//
// Works on whatever Node (18 or newer) started it: when that Node is too old, or the dependencies are
// missing or out of date, Node 24 and pnpm are fetched through npx once and remembered, so later starts
// cost nothing. Plain JavaScript, because it has to run before anything is installed.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const stampFile = join(root, "node_modules", ".leafmesh", "setup.json");
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const pnpmVersion = manifest.packageManager.split("@")[1];
const [leastMajor, leastMinor] = manifest.engines.node.replace(">=", "").split(".").map(Number);

function isRecentEnough(version) {
  const [major = 0, minor = 0] = version.replace(/^v/, "").split(".").map(Number);
  return major > leastMajor || (major === leastMajor && minor >= leastMinor);
}

function lockDigest() {
  const hash = createHash("sha256");
  for (const file of ["pnpm-lock.yaml", "pnpm-workspace.yaml", "package.json"]) {
    const path = join(root, file);
    if (existsSync(path)) hash.update(readFileSync(path));
  }
  return hash.digest("hex");
}

function readStamp() {
  try {
    return JSON.parse(readFileSync(stampFile, "utf8"));
  } catch {
    return undefined;
  }
}

/** Installs dependencies through npx and answers the path of a Node that is recent enough. */
function install() {
  process.stderr.write("leafmesh: setting up (Node 24, pnpm and dependencies), once per checkout…\n");
  const report = "console.log('node-path:' + process.execPath)";
  const command = `pnpm install --frozen-lockfile --reporter=append-only && node -e "${report}"`;
  const result = spawnSync("npx", ["-y", "-p", "node@24", "-p", `pnpm@${pnpmVersion}`, "-c", command], {
    cwd: root,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, CI: "true" },
  });
  if (result.status !== 0) {
    process.stderr.write(result.stdout ?? "");
    process.stderr.write(
      `leafmesh: setting up failed (exit ${result.status ?? result.signal}). ` +
        "npx must be on the PATH and the npm registry reachable.\n",
    );
    process.exit(result.status ?? 1);
  }
  const line = result.stdout.split("\n").find((candidate) => candidate.startsWith("node-path:"));
  const node = line ? line.slice("node-path:".length).trim() : process.execPath;
  mkdirSync(dirname(stampFile), { recursive: true });
  writeFileSync(stampFile, JSON.stringify({ lock: lockDigest(), node }));
  return node;
}

function findNode() {
  const stamp = readStamp();
  if (stamp?.lock !== lockDigest()) return install();
  if (isRecentEnough(process.version)) return process.execPath;
  return existsSync(stamp.node) ? stamp.node : install();
}

const [entry, ...rest] = process.argv.slice(2);
if (!entry) {
  process.stderr.write("usage: node scripts/with-node.mjs <entry.ts> [arguments]\n");
  process.exit(2);
}

const node = findNode();
const child = spawn(node, ["--conditions=leafmesh-source", join(root, entry), ...rest], {
  stdio: "inherit",
  env: { ...process.env, PATH: `${dirname(node)}${process.platform === "win32" ? ";" : ":"}${process.env.PATH}` },
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("exit", (code, signal) => {
  if (signal) process.kill(process.pid, signal);
  else process.exit(code ?? 1);
});
