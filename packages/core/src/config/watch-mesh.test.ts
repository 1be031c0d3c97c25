// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references are written into the meshes
import { EventEmitter, once } from "node:events";
import { appendFile, mkdir, mkdtemp, rename, rm, symlink, unlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger } from "@leafmesh/protocol";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { LoadedMesh } from "./load-mesh.ts";
import type { Mesh } from "./mesh.ts";
import { headlines, meshOf, testRegistry } from "./test-support.ts";
import { type MeshWatch, watchMesh } from "./watch-mesh.ts";

const meshOfVersion = (version: string): string => `version: "${version}"\nagents: { a: { model: m, prompt: p } }\n`;

vi.setConfig({ testTimeout: 30_000 });

let folder: string;
let watch: MeshWatch | undefined;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "leafmesh-watch-"));
});

afterEach(async () => {
  await watch?.close();
  watch = undefined;
  await rm(folder, { recursive: true, force: true });
});

/**
 * Watches mesh.yaml of the folder. `next` resolves with the next load that `onChange` is told of; `nextMesh` with the
 * next valid one, because a machine that is slow enough may see a file that is half written.
 */
async function start() {
  const events = new EventEmitter();
  const seen: LoadedMesh[] = [];
  watch = await watchMesh("mesh.yaml", {
    registry: testRegistry,
    env: { OPENAI_API_KEY: "k" },
    cwd: folder,
    knownConnections: new Map(),
    logger: silentLogger,
    quietMs: 30,
    onChange(loaded) {
      seen.push(loaded);
      events.emit("change", loaded);
    },
  });
  const next = async (): Promise<LoadedMesh> => {
    const [loaded] = await once(events, "change", { signal: AbortSignal.timeout(30_000) });
    return loaded;
  };
  const nextMesh = async (): Promise<Mesh> => {
    for (;;) {
      const loaded = await next();
      if (loaded.ok) return loaded.mesh;
    }
  };
  return { first: watch.first, seen, next, nextMesh };
}

const write = (name: string, text: string): Promise<void> => writeFile(join(folder, name), text);
/** As editors write: a new file, renamed over the old one. */
const replace = async (name: string, text: string): Promise<void> => {
  await write(`${name}.tmp`, text);
  await rename(join(folder, `${name}.tmp`), join(folder, name));
};
const versionOf = (loaded: LoadedMesh): string => meshOf(loaded).version;

describe("a change of the mesh file is seen", () => {
  beforeEach(() => write("mesh.yaml", meshOfVersion("1")));

  test("when it is written in place", async () => {
    const { first, nextMesh } = await start();
    expect(versionOf(first)).toBe("1");
    const change = nextMesh();
    await write("mesh.yaml", meshOfVersion("2"));
    expect((await change).version).toBe("2");
  });

  test("when another file is renamed over it, as editors do", async () => {
    const { nextMesh } = await start();
    for (const version of ["2", "3"]) {
      const change = nextMesh();
      await replace("mesh.yaml", meshOfVersion(version));
      expect((await change).version).toBe(version);
    }
  });

  test("when it is moved away and written anew", async () => {
    const { nextMesh } = await start();
    const change = nextMesh();
    await rename(join(folder, "mesh.yaml"), join(folder, "mesh.yaml~"));
    await write("mesh.yaml", meshOfVersion("2"));
    expect((await change).version).toBe("2");
  });

  test("when it is deleted, and when it is there again", async () => {
    const { next, nextMesh } = await start();
    const deleted = next();
    await unlink(join(folder, "mesh.yaml"));
    expect(headlines(await deleted)).toEqual([
      "mesh.yaml:1:1 there is no such file; name the mesh file, or make one with leafmesh new",
    ]);
    const again = nextMesh();
    await write("mesh.yaml", meshOfVersion("3"));
    expect((await again).version).toBe("3");
  });

  test("when it becomes invalid, and when it is corrected", async () => {
    const { next, nextMesh } = await start();
    const broken = next();
    await write("mesh.yaml", "agnts: {}\n");
    expect((await broken).ok).toBe(false);
    const corrected = nextMesh();
    await write("mesh.yaml", meshOfVersion("2"));
    expect((await corrected).version).toBe("2");
  });
});

test("a file written in several steps gives one new mesh, when it is whole", async () => {
  await write("mesh.yaml", meshOfVersion("1"));
  const { nextMesh, seen } = await start();
  const change = nextMesh();
  const [head = "", ...rest] = meshOfVersion("2").match(/.{1,20}/gs) ?? [];
  await write("mesh.yaml", head);
  for (const part of rest) await appendFile(join(folder, "mesh.yaml"), part);
  expect((await change).version).toBe("2");
  expect(seen.filter(({ ok }) => ok).map(versionOf)).toEqual(["2"]);
});

test("what is written again unchanged is not told", async () => {
  await write("mesh.yaml", meshOfVersion("1"));
  const { nextMesh, seen } = await start();
  await replace("mesh.yaml", meshOfVersion("1"));
  const change = nextMesh();
  await replace("mesh.yaml", meshOfVersion("2"));
  await change;
  expect(seen.map(versionOf)).toEqual(["2"]);
});

test("a mesh that does not exist yet is watched", async () => {
  const { first, nextMesh } = await start();
  expect(first.ok).toBe(false);
  const change = nextMesh();
  await write("mesh.yaml", meshOfVersion("1"));
  expect((await change).version).toBe("1");
});

describe("a file that the mesh reads a value from", () => {
  const withFile = (path: string): string => `version: "\${file:${path}}"\nagents: { a: { model: m, prompt: p } }\n`;

  test("is watched", async () => {
    await write("version.txt", "1\n");
    await write("mesh.yaml", withFile("./version.txt"));
    const { first, nextMesh } = await start();
    expect(versionOf(first)).toBe("1");
    const change = nextMesh();
    await replace("version.txt", "2\n");
    expect((await change).version).toBe("2");
  });

  test("is watched before it exists", async () => {
    await write("mesh.yaml", withFile("./secrets/version.txt"));
    const { first, nextMesh } = await start();
    expect(headlines(first)[0]).toContain("does not exist");
    const change = nextMesh();
    await mkdir(join(folder, "secrets"));
    await write("secrets/version.txt", "1");
    expect((await change).version).toBe("1");
  });

  test("is watched from the load on that names it", async () => {
    await write("mesh.yaml", meshOfVersion("0"));
    await write("version.txt", "1");
    const { nextMesh } = await start();
    const named = nextMesh();
    await write("mesh.yaml", withFile("version.txt"));
    expect((await named).version).toBe("1");
    const change = nextMesh();
    await replace("version.txt", "2");
    expect((await change).version).toBe("2");
  });

  test("is watched through the links of a mounted secret", async () => {
    await mkdir(join(folder, "v1"));
    await mkdir(join(folder, "v2"));
    await write("v1/version", "1");
    await write("v2/version", "2");
    await symlink("v1", join(folder, "..data"));
    await symlink("..data/version", join(folder, "version"));
    await write("mesh.yaml", withFile("version"));
    const { first, nextMesh } = await start();
    expect(versionOf(first)).toBe("1");
    const change = nextMesh();
    await symlink("v2", join(folder, "..data_tmp"));
    await rename(join(folder, "..data_tmp"), join(folder, "..data"));
    await rm(join(folder, "v1"), { recursive: true });
    expect((await change).version).toBe("2");
  });
});

test("after it is closed nothing is told", async () => {
  await write("mesh.yaml", meshOfVersion("1"));
  const closed = await start();
  await watch?.close();
  await watch?.close();
  const open = await start();
  const change = open.nextMesh();
  await replace("mesh.yaml", meshOfVersion("2"));
  await change;
  expect(closed.seen).toEqual([]);
});
