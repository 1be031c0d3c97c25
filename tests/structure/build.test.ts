/** What is published works where it is installed: by plain Node, without the sources. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { MeshReply } from "@leafmesh/protocol";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type Installation, install } from "../support/installed.ts";
import { callFor, type ObedientModel, resultsIn, startObedientModel } from "../support/model.ts";
import { killAll, type RunningProcess, root, startNode } from "../support/process.ts";

/** Whoever changes what a mesh loads before it is ready sees it here first. Vendors are no part of it. */
const LARGEST_START_KB = 1330;

let folder: string;
let installation: Installation;
let output: string;
let main: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "leafmesh-build-test-"));
  installation = install(folder);
  output = installation.buildOutput;
  main = join(folder, "node_modules/leafmesh/dist/main.js");
}, 180_000);

afterEach(killAll);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function node(...args: readonly string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: folder, encoding: "utf8" });
  return { status, stdout, stderr };
}

describe("the packages", () => {
  it("hold what they name and no sources or tests", () => {
    for (const { manifest, files } of installation.packages.values()) {
      expect(
        files
          .filter((file) => /(?<!\.d)\.ts$|\.test\.|\/testing\//.test(file))
          .map((file) => `${manifest.name}/${file}`),
      ).toEqual([]);
      for (const face of Object.values(manifest.exports as Record<string, Record<string, string>>)) {
        expect(files).toContain(face.types?.slice(2));
        expect(files).toContain(face.default?.slice(2));
      }
    }
  });

  it("find what they import in what they declare", () => {
    const faces = [...installation.packages.values()].flatMap(({ manifest }) =>
      // The suites are for a test runner, which whoever runs them has installed.
      Object.keys(manifest.exports)
        .filter((face) => !/suites|ask/.test(face))
        .map((face) => manifest.name + face.slice(1)),
    );
    expect(faces.length).toBeGreaterThan(15);
    const script = join(folder, "faces.mjs");
    writeFileSync(
      script,
      faces
        .map((face) => `await import("${face}").catch((error) => console.log("${face}", String(error)));\n`)
        .join(""),
    );
    expect(node(script)).toEqual({ status: 0, stdout: "", stderr: "" });
  });

  it("carry types that a project compiles against", () => {
    writeFileSync(
      join(folder, "consumer.ts"),
      `import { startMesh, version } from "leafmesh";
       import { startOpenAIServer } from "leafmesh/testing";
       import { loadMeshFile } from "@leafmesh/core/config";
       import type { Ring } from "@leafmesh/protocol";
       export const text: string = version;
       export const ring = (value: Ring): string => value.ask;
       export const parts = [startMesh, startOpenAIServer, loadMeshFile] as const;
       // @ts-expect-error a version is a text, so these types are really read
       export const wrong: number = version;`,
    );
    const options = {
      strict: true,
      module: "nodenext",
      target: "es2024",
      noEmit: true,
      types: ["node"],
      typeRoots: [join(root, "node_modules/@types")],
      skipLibCheck: false,
    };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: options, files: ["consumer.ts"] }));
    const { status, stdout } = spawnSync(join(root, "node_modules/.bin/tsc"), ["-p", folder], { encoding: "utf8" });
    expect([status, stdout]).toEqual([0, ""]);
  });
});

describe("the command", () => {
  it("is executable, carries licenses and stays small before a mesh is ready", () => {
    expect(statSync(main).mode & 0o111).toBe(0o111);
    expect(readFileSync(main, "utf8")).toMatch(/^#!\/usr\/bin\/env node\n/);
    expect(readFileSync(join(main, "../third-party-licenses.txt"), "utf8")).toMatch(/^zod \d/m);
    const kilobytes = Number(/of which run loads (\d+) KB/.exec(output)?.[1]);
    expect(kilobytes).toBeGreaterThan(100);
    expect(kilobytes).toBeLessThan(LARGEST_START_KB);
  });

  it("knows its version", () => {
    const { version } = JSON.parse(readFileSync(join(root, "packages/cli/package.json"), "utf8"));
    expect(node(main, "--version")).toEqual({ status: 0, stdout: `${version}\n`, stderr: "" });
  });

  it("validates a mesh file and says what is wrong with one", () => {
    const mesh = join(folder, "valid.yaml");
    writeFileSync(mesh, "name: a\nagents: { helper: { model: gpt-4o-mini, prompt: Help. } }\n");
    expect(node(main, "validate", mesh)).toMatchObject({ status: 0 });
    writeFileSync(mesh, "name: a\nagents: { helper: { modle: gpt-4o-mini, prompt: Help. } }\n");
    const wrong = node(main, "validate", mesh);
    expect(wrong.status).toBe(3);
    expect(wrong.stdout + wrong.stderr).toMatch(
      /valid\.yaml:2:21 .*agents\.helper\.modle: unknown key; did you mean "model"\?/,
    );
  });

  it("says what keeps a mesh from starting", () => {
    const mesh = join(folder, "open.yaml");
    writeFileSync(
      mesh,
      "name: a\nagents: { helper: { model: gpt-4o-mini, prompt: Help. } }\nserver: { host: 0.0.0.0 }\n",
    );
    const { status, stderr } = node(main, "run", mesh, "--port", "0");
    expect([status === 1 || status === 3, stderr]).toEqual([true, expect.stringMatching(/api_keys/)]);
  });

  it("runs a mesh whose agent asks a device", async () => {
    const model: ObedientModel = await startObedientModel();
    try {
      const mesh = join(folder, "mesh.yaml");
      writeFileSync(
        mesh,
        `name: built
${model.yaml}
connections: { phones: { provider: direct } }
agents:
  helper: { model: test/any, prompt: Help., device: { connection: phones } }
storage: { url: "sqlite:${join(folder, "mesh.db")}" }
`,
      );
      const running = startNode([main, "run", mesh, "--port", "0", "--json", "--log-level", "error"]);
      const url = String((await running.waitFor("ready")).url);
      expect((await fetch(`${url}/readyz`)).status).toBe(200);
      expect((await fetch(`${url}/openapi.json`).then((answer) => answer.json())).info.version).toMatch(/^\d/);

      const page = await fetch(`${url}/j/assets/page.js`);
      expect([page.status, page.headers.get("content-type")]).toEqual([200, "text/javascript; charset=utf-8"]);
      expect(await page.text()).toContain("Show the request");

      const device: RunningProcess = startNode([
        main,
        "device",
        "--mesh-url",
        url,
        "--token",
        "token-of-phone-7",
        "--json",
      ]);
      await device.waitFor("ready");
      const answer = await fetch(`${url}/api/mesh/request`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({
          message: callFor({ action: "battery.read" }),
          device: { id: "phone-7", push_token: "token-of-phone-7" },
        }),
      });
      const reply: MeshReply = await answer.json();
      expect(reply, running.output()).toMatchObject({ status: "succeeded" });
      expect(resultsIn(reply.reply)).toMatchObject([{ outcome: "done", success: true }]);
      expect(device.lines.some(({ event }) => event === "acted")).toBe(true);
      expect(await running.stop()).toBe(0);
    } finally {
      await model.close();
    }
  });
});
