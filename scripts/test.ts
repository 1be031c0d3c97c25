/**
 * Everything that must hold before a change lands: format, lint, types, unused code, generated docs, tests.
 *
 *   npm test                    what this machine can run; what it cannot is named
 *   npm test -- --strict        nothing may be left out (the default when CI is set)
 *   npm test -- --judges        with the vendors' own servers as judges too, where they can be built (so does --strict)
 *   npm test -- --only unit     one vitest project (unit, journeys), without the checks
 */
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, existsSync, globSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { livekitJudge } from "./judges.ts";

const root = resolve(import.meta.dirname, "..");
const args = process.argv.slice(2);
const strict = args.includes("--strict") || Boolean(process.env.CI);
const onlyAt = args.indexOf("--only");
const only = onlyAt >= 0 ? args[onlyAt + 1] : undefined;
const withJudges = only === undefined && (strict || args.includes("--judges"));
const passedOn = args.filter(
  (arg, index) =>
    arg !== "--strict" && arg !== "--judges" && (onlyAt < 0 || (index !== onlyAt && index !== onlyAt + 1)),
);

interface Service {
  readonly name: string;
  readonly usedFor: string;
  readonly commands: readonly string[];
  readonly debianPackages: readonly string[];
}

const services: readonly Service[] = [
  {
    name: "Mosquitto",
    usedFor: "everything over MQTT",
    commands: ["mosquitto", "mosquitto_passwd"],
    debianPackages: ["mosquitto", "mosquitto-clients"],
  },
  {
    name: "Chromium",
    usedFor: "the device kit in a browser",
    commands: ["chromium"],
    debianPackages: ["chromium"],
  },
  {
    name: "Firefox",
    usedFor: "web push in a browser",
    commands: ["firefox-esr"],
    debianPackages: ["firefox-esr"],
  },
  {
    name: "PostgreSQL",
    usedFor: "the shared store and several mesh processes",
    commands: ["initdb", "postgres"],
    debianPackages: ["postgresql"],
  },
  { name: "OpenSSL", usedFor: "certificates of the TLS tests", commands: ["openssl"], debianPackages: ["openssl"] },
  { name: "faketime", usedFor: "wall clocks that jump", commands: ["faketime"], debianPackages: ["faketime"] },
];

/** Debian keeps daemons outside an ordinary user's PATH, and each PostgreSQL in a folder of its own. */
const searchPath = (): readonly string[] => [
  ...(process.env.PATH ?? "").split(delimiter),
  ...["/usr/local/sbin", "/usr/sbin", "/sbin"],
  ...globSync("/usr/lib/postgresql/*/bin"),
];

function isOnPath(command: string): boolean {
  return searchPath().some((folder) => existsSync(join(folder, command)));
}

function missing(): readonly Service[] {
  return services.filter((service) => !service.commands.every(isOnPath));
}

function installFromDebian(absent: readonly Service[]): void {
  if (process.getuid?.() !== 0 || !isOnPath("apt-get")) return;
  const packages = absent.flatMap((service) => service.debianPackages);
  console.log(`Installing from Debian: ${packages.join(" ")}`);
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  spawnSync("apt-get", ["update", "-qq"], { stdio: ["ignore", "ignore", "inherit"], env });
  spawnSync("apt-get", ["install", "-y", "-qq", "--no-install-recommends", ...packages], {
    stdio: ["ignore", "ignore", "inherit"],
    env,
  });
}

function run(
  title: string,
  command: string,
  commandArgs: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<void> {
  console.log(`\n── ${title}`);
  const env = {
    ...process.env,
    ...environment,
    PATH: [join(root, "node_modules", ".bin"), ...searchPath()].join(delimiter),
    ...(strict ? { LEAFMESH_STRICT: "1" } : {}),
  };
  return new Promise((resolveRun) => {
    const child = spawn(command, commandArgs, { cwd: root, stdio: "inherit", env });
    child.on("error", (error) => {
      console.error(`${title}: ${error.message}`);
      process.exit(1);
    });
    child.on("exit", (code) => {
      if (code === 0) return resolveRun();
      console.error(`\n${title}: failed (exit ${code})`);
      process.exit(code ?? 1);
    });
  });
}

const source = (script: string): readonly string[] => ["--conditions=leafmesh-source", script];

const absent = missing();
if (absent.length > 0) installFromDebian(absent);
const leftOut = missing();
for (const service of leftOut) {
  console.log(`Left out: ${service.usedFor}; ${service.name} is not on the PATH (${service.commands.join(", ")}).`);
}
if (strict && leftOut.length > 0) {
  console.error("Nothing may be left out here. Install what is missing, or run without --strict.");
  process.exit(1);
}

if (only === undefined) {
  await run("Format and lint", "biome", ["check", "--error-on-warnings", "."]);
  await run("Types", "tsc", ["--noEmit"]);
  await run("Unused code", "knip", ["--no-config-hints"]);
  await run("Generated docs are up to date", process.execPath, [...source("scripts/docs.ts"), "--check"]);
}

const counts = { passed: 0, failed: 0 };
/** Everything that tests leave lies in here, and goes with it. Services that run as another user have to reach it. */
const temporary = mkdtempSync(join(tmpdir(), "leafmesh-test-"));
chmodSync(temporary, 0o1777);
process.on("exit", () => rmSync(temporary, { recursive: true, force: true, maxRetries: 3 }));

/** Runs vitest and adds to the counts. */
async function runTests(
  title: string,
  vitestArgs: readonly string[],
  environment?: Readonly<Record<string, string>>,
): Promise<void> {
  const results = join(temporary, "results.json");
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${results}`];
  await run(title, "vitest", ["run", ...reporters, ...vitestArgs], { ...environment, TMPDIR: temporary });
  const { numPassedTests, numFailedTests } = JSON.parse(readFileSync(results, "utf8")) as Record<string, number>;
  counts.passed += numPassedTests ?? 0;
  counts.failed += numFailedTests ?? 0;
}

const judge = withJudges ? livekitJudge(root, isOnPath) : undefined;
await runTests("Tests", [...(only ? ["--project", only] : []), ...passedOn]);
if (judge) {
  const found = await judge;
  if ("leftOut" in found) console.log(`\nLeft out: ${found.name} as a judge; ${found.leftOut}.`);
  else await runTests(`Tests against ${found.name}`, found.tests, found.environment);
}
console.log(`\n${counts.passed} passed, ${counts.failed} failed`);
