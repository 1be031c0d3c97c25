/**
 * An installation of what the workspace publishes, as a package manager makes it: built, packed and unpacked, with each
 * package finding what its manifest declares and nothing else. Works without a registry.
 */
import { spawnSync } from "node:child_process";
import {
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { root } from "./process.ts";

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly exports: Readonly<Record<string, unknown>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

export interface InstalledPackage {
  readonly manifest: Manifest;
  readonly folder: string;
  /** Paths inside the package, as packed. */
  readonly files: readonly string[];
}

export interface Installation {
  /** Holds node_modules. */
  readonly folder: string;
  /** What the build said. */
  readonly buildOutput: string;
  /** By name. */
  readonly packages: ReadonlyMap<string, InstalledPackage>;
}

export function install(folder: string): Installation {
  const built = join(folder, "built");
  const buildOutput = run(process.execPath, [join(root, "scripts/build.ts"), "--out", built]);
  const names = readdirSync(built);
  const versions = new Map(
    names.map((name) => readManifest(join(root, "packages", name))).map((each) => [each.name, each.version]),
  );
  for (const name of names) {
    const manifest = readManifest(join(root, "packages", name));
    writeFileSync(join(built, name, "package.json"), JSON.stringify(published(manifest, versions)));
  }
  const tarballs = join(folder, "tarballs");
  mkdirSync(tarballs);
  run("npm", ["pack", "--silent", "--pack-destination", tarballs, ...names.map((name) => join(built, name))]);

  const packages = new Map<string, InstalledPackage>();
  for (const name of names) {
    const manifest = readManifest(join(built, name));
    const target = join(folder, "node_modules", manifest.name);
    mkdirSync(target, { recursive: true });
    const tarball = `${manifest.name.replace("@", "").replace("/", "-")}-${manifest.version}.tgz`;
    run("tar", ["-xzf", join(tarballs, tarball), "-C", target, "--strip-components=1"]);
    const files = globSync("**/*", { cwd: target, withFileTypes: false });
    for (const dependency of Object.keys(manifest.dependencies ?? {})) {
      if (!versions.has(dependency)) link(join("packages", name), dependency, target);
    }
    packages.set(manifest.name, { manifest, folder: target, files });
  }
  // What a peer asks for comes from whoever installs it: here the command, which depends on it.
  for (const { manifest } of packages.values()) {
    for (const peer of Object.keys(manifest.peerDependencies ?? {})) {
      const isInstalled = packages.get("leafmesh")?.manifest.dependencies?.[peer] !== undefined;
      if (isInstalled) link("packages/cli", peer, folder);
    }
  }
  return { folder, buildOutput, packages };
}

/** What the package manager makes of a manifest when it publishes it. */
function published(manifest: Manifest, versions: ReadonlyMap<string, string>): object {
  const catalog = readCatalog();
  const resolved = Object.entries(manifest.dependencies ?? {}).map(([name, range]) => {
    const version = range.startsWith("workspace:")
      ? versions.get(name)
      : range === "catalog:"
        ? catalog.get(name)
        : range;
    if (version === undefined) throw new Error(`${manifest.name} depends on ${name}, which is nowhere`);
    return [name, version];
  });
  return { ...manifest, dependencies: Object.fromEntries(resolved), devDependencies: undefined };
}

function readCatalog(): ReadonlyMap<string, string> {
  const text = readFileSync(join(root, "pnpm-workspace.yaml"), "utf8");
  const section = /^catalog:\n((?: {2}.*\n)+)/m.exec(text)?.[1] ?? "";
  return new Map(
    [...section.matchAll(/^ {2}"?([^":]+)"?: (\S+)$/gm)].map(([, name = "", version = ""]) => [name, version]),
  );
}

function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
}

function link(from: string, dependency: string, into: string): void {
  const place = join(into, "node_modules", dependency);
  if (existsSync(place)) return;
  mkdirSync(dirname(place), { recursive: true });
  symlinkSync(realpathSync(join(root, from, "node_modules", dependency)), place);
}

function run(command: string, args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${command} ${args.join(" ")} failed (${status})\n${stdout}${stderr}`);
  return stdout;
}
