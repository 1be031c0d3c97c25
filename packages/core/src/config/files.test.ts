import { spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { readFileBytes, readTextFile } from "./files.ts";
import { loadMeshFile } from "./load-mesh-file.ts";
import { headlines, testRegistry } from "./test-support.ts";

const folder = mkdtempSync(join(tmpdir(), "leafmesh-files-"));
afterAll(() => rmSync(folder, { recursive: true }));

const write = (name: string, content: string | Uint8Array): string => {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
};

describe("readTextFile", () => {
  test("reads text without its byte order mark", () => {
    expect(readTextFile(write("bom.txt", "\ufeffhällo\n"), 100)).toEqual({ ok: true, text: "hällo\n" });
  });

  test("takes a file of exactly the limit and refuses one byte more", () => {
    const path = write("large.txt", "x".repeat(200_000));
    expect(readTextFile(path, 200_000)).toMatchObject({ ok: true });
    expect(readTextFile(path, 199_999)).toEqual({ ok: false, why: "too_large" });
  });

  test("follows links", () => {
    symlinkSync(write("target.txt", "there"), join(folder, "link.txt"));
    expect(readTextFile(join(folder, "link.txt"), 100)).toEqual({ ok: true, text: "there" });
  });

  test.each([
    ["a file that is not there", () => join(folder, "nothing"), "missing"],
    ["a file under a file", () => join(write("plain.txt", ""), "below"), "missing"],
    ["a folder", () => folder, "not_a_file"],
    ["an endless device", () => "/dev/zero", "not_a_file"],
    ["bytes that are no text", () => write("binary", new Uint8Array([0xff, 0x00])), "not_text"],
  ])("%s", (_, path, why) => {
    expect(readTextFile(path(), 100)).toEqual({ ok: false, why });
  });

  test.skipIf(process.platform === "win32")("does not wait for the other end of a pipe", () => {
    const pipe = join(folder, "pipe");
    expect(spawnSync("sh", ["-c", 'mkfifo "$0"', pipe]).status).toBe(0);
    expect(readTextFile(pipe, 100)).toEqual({ ok: false, why: "not_a_file" });
  });

  test.skipIf(process.platform === "win32" || process.getuid?.() === 0)("a file of another user", () => {
    const path = write("locked.txt", "x");
    chmodSync(path, 0o000);
    expect(readFileBytes(path, 100)).toEqual({ ok: false, why: "not_permitted" });
  });
});

describe("loadMeshFile", () => {
  const options = { registry: testRegistry, env: { OPENAI_API_KEY: "k" }, cwd: folder };

  test("finds files next to the mesh, wherever it was called from", () => {
    write("prompt.txt", "Help.\n");
    write("mesh.yaml", `agents: { a: { model: m, prompt: "\${file:prompt.txt}" } }\n`);
    const loaded = loadMeshFile(join(folder, "mesh.yaml"), { ...options, cwd: "/" });
    expect(loaded.ok && loaded.mesh.agents.get("a")?.prompt).toBe("Help.");
    expect(loaded.ok && loaded.mesh.folder).toBe(folder);
    expect(loaded.files).toEqual([join(folder, "prompt.txt")]);
  });

  test.each([
    ["missing.yaml", "missing.yaml:1:1 there is no such file; name the mesh file, or make one with leafmesh new"],
    [".", ".:1:1 this is not a regular file; name the mesh file itself"],
  ])("%s", (file, said) => {
    expect(headlines(loadMeshFile(file, options))).toEqual([said]);
  });

  test("refuses a file over the limit without reading it whole", () => {
    write("large.yaml", `# ${"x".repeat(300_000)}\n`);
    expect(headlines(loadMeshFile("large.yaml", options))[0]).toBe(
      "large.yaml:1:1 the file is larger than the limit of 262144 bytes; keep large texts out of the mesh file, or raise the limit with --max-config-size (up to 10 MiB)",
    );
  });
});
