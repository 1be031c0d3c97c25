import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { runCommandLine } from "./command-line.ts";
import { readRunArguments } from "./start-run.ts";

const SAMPLES: Readonly<Record<string, readonly string[]>> = {
  "--host": ["127.0.0.1"],
  "--port": ["8080"],
  "--advertise-url": ["https://mesh-2.example.com/"],
  "--no-watch": [],
  "--grace": ["0"],
  "--log-level": ["debug"],
  "--log-format": ["json"],
  "--max-config-size": ["2048"],
  "--json": [],
};

async function help(): Promise<string> {
  const stdout = new PassThrough({ encoding: "utf8" });
  // Signals stay with the test runner.
  const processLike = Object.create(process, { stdout: { value: stdout }, on: { value: () => process } });
  await runCommandLine(["node", "leafmesh", "run", "--help"], processLike);
  return String(stdout.read());
}

describe("readRunArguments", () => {
  it("takes every option that the command declares", async () => {
    const declared = [...(await help()).matchAll(/^ {2}(?:-\w, )?(--[a-z-]+)/gm)].map((match) => String(match[1]));
    expect(declared.filter((name) => name !== "--help").sort()).toEqual(Object.keys(SAMPLES).sort());
    const all = Object.entries(SAMPLES).flatMap(([name, value]) => [name, ...value]);
    expect(readRunArguments(["meshes/support.yaml", ...all])).toEqual({
      file: "meshes/support.yaml",
      host: "127.0.0.1",
      port: 8080,
      advertiseUrl: "https://mesh-2.example.com",
      watch: false,
      grace: 0,
      logLevel: "debug",
      logFormat: "json",
      maxConfigSize: 2048,
      json: true,
    });
  });

  it("has the defaults of the command", async () => {
    expect(readRunArguments([])).toEqual({ file: "mesh.yaml", watch: true, grace: 10 });
    expect(await help()).toMatch(/\(default: "mesh\.yaml"\)[\s\S]*\(default: 10\)/);
  });

  it("takes a value after an equals sign and a file after two dashes", () => {
    expect(readRunArguments(["--port=0", "--", "-odd.yaml"])).toMatchObject({ file: "-odd.yaml", port: 0 });
  });

  it.each([
    ["--help"],
    ["-h"],
    ["--nope"],
    ["a.yaml", "b.yaml"],
    ["--port"],
    ["--port", "65536"],
    ["--port", "--json"],
    ["--json=yes"],
    ["--grace", "soon"],
    ["--log-level", "loud"],
    ["--advertise-url", "mesh-2.example.com"],
    ["--max-config-size", "0"],
  ])("leaves %s %s to the command line", (...args) => {
    expect(readRunArguments(args)).toBeUndefined();
  });
});
