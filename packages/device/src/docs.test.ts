/** The guide's code compiles, its first program runs, and its tables say what the code says. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join, resolve } from "node:path";
import { createDirectHub, hashDirectToken } from "@leafmesh/notifiers";
import { DIRECT_CLOSE, Secret, silentLogger, systemClock } from "@leafmesh/protocol";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startMesh } from "../testing/mesh.ts";
import { newSigner } from "../testing/rings.ts";

const root = resolve(import.meta.dirname, "../../..");
const packageRoot = resolve(import.meta.dirname, "..");
let page: string;
let programs: readonly string[];
let folder: string;

beforeAll(async () => {
  page = await readFile(join(root, "docs/device-kit.md"), "utf8");
  programs = [...page.matchAll(/^```ts\n(.*?)^```/gms)].map((match) => match[1] ?? "");
  // Inside the package, so that it can import itself by its name as an installed one would.
  folder = await mkdtemp(join(packageRoot, ".docs-"));
});
afterAll(() => rm(folder, { recursive: true }));

it("compiles", { timeout: 60_000 }, async () => {
  expect(programs.length).toBeGreaterThanOrEqual(5);
  for (const [index, program] of programs.entries()) await writeFile(join(folder, `program-${index}.ts`), program);
  const config = { extends: join(root, "tsconfig.json"), include: ["*.ts"], exclude: [] };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
  execFileSync(join(root, "node_modules/.bin/tsc"), ["--noEmit", "-p", folder], { stdio: "pipe", encoding: "utf8" });
});

it("runs: the first program is rung and answers", { timeout: 30_000 }, async () => {
  const signer = await newSigner();
  const hub = createDirectHub({ clock: systemClock, logger: silentLogger });
  const server = createServer((_request, response) => response.end(JSON.stringify({ keys: [signer.key] })));
  server.on("upgrade", (request, socket, head) => hub.handleUpgrade(request, socket, head));
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const mesh = await startMesh(() => Date.now());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const program = programs[0]?.replace("http://127.0.0.1:18820", url) ?? "";
  expect(program).toContain(url);
  const path = join(folder, "device.ts");
  await writeFile(path, program);
  const child = spawn(process.execPath, ["--conditions=leafmesh-source", path], {
    cwd: folder,
    stdio: ["ignore", "ignore", "inherit"],
  });
  while (hub.connected() === 0) await new Promise((tick) => setImmediate(tick));

  const room = await mesh.open({ approval: "ask" });
  const { kid: _kid, sig: _sig, ...unsigned } = room.ring;
  const ring = await signer.sign(unsigned);
  const tokenHash = hashDirectToken(new Secret("a-secret-that-this-app-chose"));
  const rung = { deviceId: "phone-7", tokenHash, askId: ring.ask, body: JSON.stringify(ring) };
  expect(await hub.ring(rung, new AbortController().signal)).toBe("received");
  room.task();
  expect(await room.frame("reply")).toMatchObject({ outcome: "done", data: { level: 71, charging: false } });

  child.kill();
  await once(child, "exit");
  await Promise.all([hub.close(), mesh.close()]);
  server.closeAllConnections();
  await new Promise((closed) => server.close(closed));
});

describe("the tables", () => {
  const sources = ["events.ts", "ring-gate.ts", "room-session.ts", "handlers.ts", "uploads.ts", "connector.ts"];

  it("name every reason for which a ring is left alone, and every way to end", async () => {
    const text = (await Promise.all(sources.map((file) => readFile(join(import.meta.dirname, file), "utf8")))).join("");
    const typeOf = (name: string) => new RegExp(`export type ${name} =([^;]*);`, "s").exec(text)?.[1] ?? "";
    const words = ["IgnoreReason", "RingFault", "JoinErrorKind", "StopCause"].flatMap((name) =>
      [...typeOf(name).matchAll(/"(\w+)"/g)].map((match) => match[1] ?? ""),
    );
    expect(words.length).toBeGreaterThan(15);
    expect(words.filter((word) => !page.includes(`\`${word}\``))).toEqual([]);
  });

  it("name every code that the kit answers with by itself", async () => {
    const text = (await Promise.all(sources.map((file) => readFile(join(import.meta.dirname, file), "utf8")))).join("");
    const codes = [...text.matchAll(/failure\(\s*"(\w+)"/g)].map((match) => match[1] ?? "");
    expect(codes.length).toBeGreaterThan(6);
    expect(codes.filter((code) => !page.includes(`\`${code}\``))).toEqual([]);
  });

  it("name every close code of the direct socket", () => {
    expect(Object.values(DIRECT_CLOSE).filter((code) => !page.includes(String(code)))).toEqual([]);
  });
});
