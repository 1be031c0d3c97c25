/** Which package may import which. A new package has to be entered here, with a reason to exist. */
import { globSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { parseSync } from "oxc-parser";
import { describe, expect, it } from "vitest";

const root = resolve(import.meta.dirname, "../..");

/** For each package: what of ours it may import. `*` stands for everything. */
const allowed: Record<string, readonly string[]> = {
  protocol: [],
  "guarded-fetch": ["protocol"],
  core: ["protocol", "guarded-fetch"],
  mqtt: ["protocol", "guarded-fetch"],
  notifiers: ["protocol", "guarded-fetch", "mqtt"],
  rooms: ["protocol", "guarded-fetch", "mqtt", "room-service"],
  ledger: ["protocol"],
  device: ["protocol", "mqtt", "ledger"],
  client: ["protocol", "ledger"],
  "room-service": ["protocol"],
  "device-action": ["protocol", "core", "notifiers/contract", "rooms/contract"],
  server: ["protocol", "core"],
  testkit: ["protocol", "core", "notifiers/contract", "rooms/contract"],
  cli: ["*"],
};

/** Packages that must run in a browser: outside `src/node`, nothing of Node. */
const runtimeNeutral = ["protocol", "ledger", "device", "client"];

interface Import {
  readonly file: string;
  readonly packageName: string;
  readonly specifier: string;
}

function importsOf(file: string): readonly string[] {
  const { module } = parseSync(file, readFileSync(join(root, file), "utf8"));
  const fixed = [...module.staticImports.map((each) => each.moduleRequest.value)];
  const reexported = module.staticExports.flatMap((each) =>
    each.entries.flatMap((entry) => (entry.moduleRequest ? [entry.moduleRequest.value] : [])),
  );
  const source = readFileSync(join(root, file), "utf8");
  const dynamic = module.dynamicImports.flatMap((each) => {
    const text = source.slice(each.moduleRequest.start, each.moduleRequest.end);
    return /^["'].*["']$/.test(text) ? [text.slice(1, -1)] : [];
  });
  return [...fixed, ...reexported, ...dynamic];
}

/** Tests, and what only tests stand on, may reach further: they are not published. */
function isTestCode(file: string): boolean {
  return file.endsWith(".test.ts") || file.includes("/testing/") || /\/test-[a-z-]+\.ts$/.test(file);
}

const imports: readonly Import[] = globSync("packages/*/src/**/*.ts", { cwd: root })
  .filter((file) => !isTestCode(file))
  .flatMap((file) => {
    const packageName = file.split("/")[1] ?? "";
    return importsOf(file).map((specifier) => ({ file, packageName, specifier }));
  });

function oursIn(specifier: string): string | undefined {
  return /^@leafmesh\/(.+)$/.exec(specifier)?.[1];
}

describe("the dependency rule", () => {
  it("sees the imports it judges", () => {
    expect(imports.length).toBeGreaterThan(100);
    expect(imports.some(({ specifier }) => specifier === "@leafmesh/protocol")).toBe(true);
  });

  it("knows every package", () => {
    const packages = new Set(imports.map(({ packageName }) => packageName));
    expect([...packages].filter((name) => !(name in allowed))).toEqual([]);
  });

  it("lets a package import only what its place allows", () => {
    const broken = imports.filter(({ packageName, specifier }) => {
      const target = oursIn(specifier);
      const permitted = allowed[packageName] ?? [];
      if (target === undefined || permitted.includes("*")) return false;
      const [name = ""] = target.split("/");
      return name !== packageName && !permitted.includes(name) && !permitted.includes(target);
    });
    expect(broken.map(({ file, specifier }) => `${file} imports ${specifier}`)).toEqual([]);
  });

  it("keeps relative imports inside their package", () => {
    const leaving = imports.filter(({ specifier, file, packageName }) => {
      if (!specifier.startsWith(".") || specifier.endsWith(".json")) return false;
      return !join(dirname(file), specifier).startsWith(join("packages", packageName, "src"));
    });
    expect(leaving.map(({ file, specifier }) => `${file} imports ${specifier}`)).toEqual([]);
  });

  it("keeps Node out of what runs in a browser", () => {
    const broken = imports.filter(
      ({ packageName, specifier, file }) =>
        runtimeNeutral.includes(packageName) && specifier.startsWith("node:") && !file.includes("/src/node/"),
    );
    expect(broken.map(({ file, specifier }) => `${file} imports ${specifier}`)).toEqual([]);
  });

  it("lets no one import the command line, the server or the console", () => {
    const broken = imports.filter(({ packageName, specifier }) => {
      const name = oursIn(specifier)?.split("/")[0];
      return packageName !== "cli" && (specifier === "leafmesh" || name === "server" || name === "console");
    });
    expect(broken.map(({ file, specifier }) => `${file} imports ${specifier}`)).toEqual([]);
  });
});
