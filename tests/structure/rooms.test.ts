/** The folder of room providers, the list that a mesh is given, the device kit and the documentation name the same ones. */
import { globSync, readFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { leafmeshConnector } from "@leafmesh/device";
import { mqttConnector } from "@leafmesh/device/mqtt";
import { leafmeshRooms, vendorRooms } from "@leafmesh/rooms";
import { lossProfiles } from "@leafmesh/testkit/ask";
import { providerRegistry } from "leafmesh";
import { describe, expect, it } from "vitest";
import { vendorConnectors } from "../../packages/cli/src/simulated-device/room-connectors.ts";

const root = resolve(import.meta.dirname, "../..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");
const registry = await providerRegistry();
const vendors = await Promise.all(Object.values(vendorRooms).map((load) => load()));
const definitions = [leafmeshRooms(() => expect.fail("no room is opened here")), ...vendors];
const names = definitions.map(({ provider }) => provider);

/** Files that define a provider; helpers such as `ably-link.ts` lie beside them. */
const filesWith = (folder: string, sign: RegExp): readonly string[] =>
  globSync(`${folder}/*.ts`, { cwd: root })
    .filter((file) => !file.endsWith(".test.ts") && sign.test(read(file)))
    .map((file) => basename(file, ".ts"));

const tests = globSync("packages/device/src/connectors/**/*.test.ts", { cwd: root }).map(read);

describe("room providers", () => {
  it("each have a file of their name, and each file is in the list", () => {
    const files = filesWith("packages/rooms/src/providers", /\bdefineRoom\(\{/);
    expect(files.length).toBeGreaterThan(3);
    expect([...files].sort()).toEqual([...names].sort());
  });

  it("are each named once, and known to the mesh", () => {
    expect(new Set(names).size).toBe(names.length);
    expect(Object.keys(vendorRooms)).toEqual(vendors.map(({ provider }) => provider));
    expect([...registry.rooms.keys()].sort()).toEqual([...names].sort());
  });

  it("are each served by a connector of the device kit, which `leafmesh device` brings along", () => {
    const served = [leafmeshConnector(), mqttConnector(), ...vendorConnectors()].flatMap(({ providers }) => providers);
    expect([...served].sort()).toEqual([...names].sort());
    const files = filesWith("packages/device/src/connectors", /export function \w+Connector\(/);
    const faces = Object.keys(JSON.parse(read("packages/device/package.json")).exports);
    for (const file of files.filter((name) => name !== "leafmesh")) expect(faces).toContain(`./${file}`);
    expect(files).toHaveLength(2 + vendorConnectors().length);
  });

  it.each(definitions)("$provider is held to the truth with the losses that it can see", ({ provider, traits }) => {
    const profile = lossProfiles[provider];
    expect(profile, "its entry in packages/testkit/src/ask/loss-profiles.ts").toBeDefined();
    expect(profile?.seenWithinMs).toBeLessThanOrEqual(traits.lossSeenWithinMs);
  });

  it.each(names)("%s is held to the suite, with the device's connector", (name) => {
    expect(tests.some((test) => new RegExp(`\\btestRoom\\(\\s*"${name}"`).test(test))).toBe(true);
  });

  it.each(names)("%s has its section in docs/rooms.md, and in docs/mesh-yaml.md", (name) => {
    expect(read("docs/rooms.md")).toContain(`\n## ${name}\n`);
    expect(read("docs/mesh-yaml.md")).toContain(`\n### ${name}\n`);
  });
});
