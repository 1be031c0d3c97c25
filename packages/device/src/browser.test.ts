/** The kit in a real browser: Debian's Chromium, against the real hub and the real room service. */
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { createDirectHub, type DirectHub, hashDirectToken } from "@leafmesh/notifiers";
import { type Ring, type RingSigner, Secret, silentLogger, systemClock } from "@leafmesh/protocol";
import { type BuildResult, build } from "esbuild";
import { type BrowserContext, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { PageOptions } from "../testing/browser-page.ts";
import { type Mesh, startMesh } from "../testing/mesh.ts";
import { newSigner } from "../testing/rings.ts";

const TOKEN = "secret-of-phone-7";

function bundle(entryPoint: string): Promise<BuildResult<{ write: false; metafile: true }>> {
  return build({
    entryPoints: [join(import.meta.dirname, entryPoint)],
    bundle: true,
    write: false,
    metafile: true,
    platform: "browser",
    format: "esm",
    target: "es2022",
    conditions: ["leafmesh-source"],
    minify: true,
    logLevel: "silent",
  });
}

describe("the bundle for browsers", () => {
  it("imports nothing of Node and nothing unexpected", async () => {
    const { outputFiles, metafile, warnings } = await bundle("index.ts");
    expect(warnings).toEqual([]);
    const [output] = Object.values(metafile.outputs);
    expect(output?.imports).toEqual([]);
    // `ring.ts` asks a runtime that has it for a faster signature; that is no import.
    expect(outputFiles[0]?.text).not.toMatch(/(?:from|import|require)\s*\(?["']node:/);
    const packages = Object.keys(metafile.inputs).map(
      (path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\/(?!.*node_modules)/.exec(path)?.[1],
    );
    expect([...new Set(packages)].sort()).toEqual([undefined, "canonicalize", "zod"].sort());
    // `import { z } from "zod"` anywhere below would bring every language of zod's messages: 100 KB compressed.
    expect(gzipSync(outputFiles[0]?.contents ?? "").byteLength).toBeLessThan(50_000);
  });
});

const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser"].find((path) => existsSync(path));

describe.skipIf(!executablePath && process.env.LEAFMESH_STRICT !== "1")("in Chromium", { timeout: 30_000 }, () => {
  let profile: string;
  let context: BrowserContext;
  let server: Server;
  let origin: string;
  let hub: DirectHub;
  let mesh: Mesh;
  let signer: RingSigner;
  let page: Page;

  beforeAll(async () => {
    if (!executablePath) throw new Error("Chromium is not installed, and LEAFMESH_STRICT lets nothing be left out");
    const script = (await bundle("../testing/browser-page.ts")).outputFiles[0]?.text ?? "";
    hub = createDirectHub({ clock: systemClock, logger: silentLogger });
    server = createServer((request, response) => {
      const [type, body] =
        request.url === "/page.js"
          ? ["text/javascript", script]
          : ["text/html", '<!doctype html><meta charset="utf-8"><body><script type="module" src="/page.js"></script>'];
      response.writeHead(200, { "content-type": type }).end(body);
    });
    server.on("upgrade", (request, socket, head) => hub.handleUpgrade(request, socket, head));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    mesh = await startMesh(() => Date.now());
    signer = await newSigner();
    profile = await mkdtemp(join(tmpdir(), "leafmesh-chromium-"));
    context = await chromium.launchPersistentContext(profile, {
      executablePath,
      headless: true,
      args: [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
      ],
    });
    page = await context.newPage();
  }, 60_000);

  afterAll(async () => {
    await context?.close();
    await Promise.all([hub?.close(), mesh?.close()]);
    server?.closeAllConnections();
    await new Promise<void>((resolve) => (server ? server.close(() => resolve()) : resolve()));
    if (profile) await rm(profile, { recursive: true, force: true });
  }, 60_000);

  beforeEach(openPage, 30_000);

  async function openPage(): Promise<void> {
    await page.goto(origin);
    await page.waitForFunction(() => "startDevice" in globalThis);
  }

  function start(): Promise<void> {
    const directUrl = `${origin.replace("http", "ws")}/v1/direct`;
    const options: PageOptions = { directUrl, token: TOKEN, keys: [signer.key] };
    return page.evaluate((given) => globalThis.startDevice(given), options);
  }

  async function ask(changes: Partial<Ring> = {}, by: RingSigner = signer) {
    const room = await mesh.open({ approval: "ask", ...changes });
    const { kid: _kid, sig: _sig, ...unsigned } = room.ring;
    const ring = await by.sign(unsigned);
    const delivery = await hub.ring(
      {
        deviceId: ring.device,
        tokenHash: hashDirectToken(new Secret(TOKEN)),
        askId: ring.ask,
        body: JSON.stringify(ring),
      },
      new AbortController().signal,
    );
    return { room, delivery };
  }

  /** Resolves with the page's first event of this type. */
  async function event(type: string): Promise<unknown> {
    const found = await page.waitForFunction(
      (wanted) => globalThis.pageDevice.events.find((each) => each.type === wanted),
      type,
    );
    return found.jsonValue();
  }

  it("is rung, asks the person, joins, acts and answers", async () => {
    await start();
    const { room, delivery } = await ask({ ask: "ask_click" });
    expect(delivery).toBe("received");
    await page.getByText("Allow support to connect?").waitFor();
    await page.getByRole("button", { name: "Allow", exact: true }).click();
    expect(await room.frame("peer")).toMatchObject({
      state: "joined",
      capabilities: [{ name: "battery.read" }, { name: "hang" }],
    });
    room.task();
    expect(await room.frame("accepted")).toMatchObject({ id: "ask_click" });
    expect(await room.frame("reply")).toMatchObject({ outcome: "done", data: { level: 71, browser: true } });
    expect(await event("settled")).toMatchObject({ disposition: { status: "answered", delivered: true } });

    await ask({ ask: "ask_click" });
    expect(await event("ignored")).toMatchObject({ reason: "repeated" });
    expect(await page.evaluate(() => globalThis.pageDevice.acted)).toBe(1);
  });

  it("tells the mesh that the person does not allow the connection", async () => {
    await start();
    const { room } = await ask({ ask: "ask_no" });
    await page.getByRole("button", { name: "Don't allow" }).click();
    expect(await room.frame("peer")).toMatchObject({ state: "refused", reason: "not_allowed" });
    expect(await event("settled")).toMatchObject({ disposition: { status: "refused", told: true } });
  });

  it("remembers over a reload, in the middle of a task, that it had begun", async () => {
    await start();
    const first = await ask({ ask: "ask_reload", approval: "silent" });
    first.room.task({ action: "hang" });
    await event("accepted");
    await first.room.frame("accepted");
    await openPage();
    await start();
    const second = await ask({ ask: "ask_reload", approval: "silent" });
    second.room.task({ action: "hang" });
    expect(await second.room.frame("reply")).toMatchObject({
      outcome: "failed",
      error: { code: "outcome_unknown", may_have_happened: true },
    });
    await event("settled");
    expect(await page.evaluate(() => globalThis.pageDevice.acted)).toBe(0);
  });

  it("does not believe a forger", async () => {
    await start();
    await ask({ ask: "ask_forged" }, await newSigner());
    expect(await event("ignored")).toMatchObject({ reason: "bad_signature" });
  });

  it("keeps its ledger's promises", async () => {
    const seen = await page.evaluate(async () => {
      const ledger = await globalThis.openLedger(3);
      const record = (id: string, at: number) => ({ id, state: "accepted" as const, at });
      const claims = await Promise.all(Array.from({ length: 20 }, (_, at) => ledger.claim(record("a", at))));
      const answer = { outcome: "done" as const, data: { level: 71 } };
      await ledger.put({ id: "a", state: "answered", at: 50, answer, delivered: true });
      const replaced = await ledger.get("a");
      for (const [index, id] of ["b", "c", "d"].entries()) await ledger.claim(record(id, 100 + index));
      const bounded = [await ledger.get("a"), await ledger.get("b"), await ledger.get("d")];
      await ledger.prune(102);
      const pruned = [await ledger.get("c"), await ledger.get("d")];
      return { first: claims.filter((known) => known === undefined).length, replaced, bounded, pruned };
    });
    expect(seen).toEqual({
      first: 1,
      replaced: {
        id: "a",
        state: "answered",
        at: 50,
        answer: { outcome: "done", data: { level: 71 } },
        delivered: true,
      },
      bounded: [undefined, { id: "b", state: "accepted", at: 100 }, { id: "d", state: "accepted", at: 102 }],
      pruned: [undefined, { id: "d", state: "accepted", at: 102 }],
    });
  });
});
