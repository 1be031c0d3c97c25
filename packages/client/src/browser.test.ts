/** The library in a real browser: Debian's Chromium, against the mesh double. */
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { type BuildResult, build } from "esbuild";
import { type BrowserContext, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { PageExecutor } from "../testing/browser-page.ts";
import { MeshDouble } from "../testing/mesh-double.ts";

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
    expect(outputFiles[0]?.text).not.toMatch(/(?:from|import|require)\s*\(?["']node:/);
    const packages = Object.keys(metafile.inputs).map(
      (path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\/(?!.*node_modules)/.exec(path)?.[1],
    );
    expect([...new Set(packages)].sort()).toEqual([undefined, "canonicalize", "eventsource-parser", "zod"].sort());
    expect(gzipSync(outputFiles[0]?.contents ?? "").byteLength).toBeLessThan(50_000);
  });
});

const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser"].find((path) => existsSync(path));

describe.skipIf(!executablePath && process.env.LEAFMESH_STRICT !== "1")("in Chromium", { timeout: 30_000 }, () => {
  let profile: string;
  let context: BrowserContext;
  let mesh: MeshDouble;
  let page: Page;

  beforeAll(async () => {
    if (!executablePath) throw new Error("Chromium is not installed, and LEAFMESH_STRICT lets nothing be left out");
    const script = (await bundle("../testing/browser-page.ts")).outputFiles[0]?.text ?? "";
    mesh = await new MeshDouble().start();
    mesh.pages.set("/page.js", { type: "text/javascript", body: script });
    mesh.pages.set("/", {
      type: "text/html",
      body: '<!doctype html><meta charset="utf-8"><body><script type="module" src="/page.js"></script>',
    });
    mesh.greet = () => [
      { type: "session_state", payload: { state: "idle", last_seq: 0, server_now: Date.now() / 1000 }, ts: 1 },
    ];
    profile = await mkdtemp(join(tmpdir(), "leafmesh-chromium-"));
    context = await chromium.launchPersistentContext(profile, {
      executablePath,
      headless: true,
      args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
    });
    page = await context.newPage();
  }, 60_000);

  afterAll(async () => {
    await context?.close();
    await mesh?.close();
    if (profile) await rm(profile, { recursive: true, force: true });
  }, 60_000);

  beforeEach(() => openPage(page), 30_000);

  async function openPage(target: Page): Promise<void> {
    await target.goto(mesh.url);
    await target.waitForFunction(() => "attach" in globalThis);
  }

  function call(sessionId: string, callId: string): void {
    const expires_at = Date.now() / 1000 + 30;
    const payload = { call_id: callId, call_token: "t", tool_id: "device_show", args: { text: callId }, expires_at };
    mesh.append(`/api/sessions/${sessionId}/stream`, 1, { type: "device_tool_call", payload, ts: 1 });
  }

  const results = (callId: string) =>
    mesh.posted.filter(({ path }) => path.endsWith(`/${callId}/result`)).map(({ body }) => body);

  async function seen(target: Page, type: PageExecutor["events"][number]): Promise<void> {
    await target.waitForFunction((wanted) => globalThis.pageExecutor.events.some((event) => event === wanted), type);
  }

  it("runs a call and posts its result", async () => {
    await page.evaluate(() => globalThis.attach({ sessionId: "one" }));
    call("one", "call_one");
    await seen(page, "delivered");
    expect(results("call_one")).toEqual([{ call_token: "t", status: "ok", result: { shown: "call_one" } }]);
    expect(mesh.connections.at(-1)).toMatchObject({ executor: true });
  });

  it("remembers over a reload, in the middle of a call, that it had begun", async () => {
    await page.evaluate(() => globalThis.attach({ sessionId: "two", hang: true }));
    call("two", "call_two");
    await seen(page, "started");
    await openPage(page);
    await page.evaluate(() => globalThis.attach({ sessionId: "two" }));
    await seen(page, "delivered");
    expect(results("call_two")).toMatchObject([{ status: "error", error: { code: "outcome_unknown" } }]);
    expect(await page.evaluate(() => globalThis.pageExecutor.ran)).toBe(0);
  });

  it("leaves a call alone that another tab is at", async () => {
    const other = await context.newPage();
    await openPage(other);
    await page.evaluate(() => globalThis.attach({ sessionId: "three", hang: true }));
    call("three", "call_three");
    await seen(page, "started");
    await other.evaluate(() => globalThis.attach({ sessionId: "three" }));
    await seen(other, "elsewhere");
    expect(results("call_three")).toEqual([]);
    expect(await other.evaluate(() => globalThis.pageExecutor.ran)).toBe(0);
    await other.close();
  });

  it("answers what a run is suspended for", async () => {
    const deadline_at = new Date(Date.now() + 60_000).toISOString();
    const suspension = {
      kind: "external_wait",
      resume_contract: "result",
      deadline_at,
      prompt: {
        reason: "client_tools",
        timeout_s: 60,
        tool_calls: [{ id: "call_0", name: "show", arguments: { text: "price" } }],
      },
    };
    const nothing = { started_at: null, finished_at: null, replay_of: null, output: null, error: null };
    const state = (status: string, waits: object | null) => ({
      ...{ run_id: "r", session_id: "s", agent_slug: "a", status, client_tools: "suspend", suspension: waits },
      ...{ created_at: deadline_at, deadline_at, failure_class: null, failure_detail: null, ...nothing },
    });
    const append = (seq: number, type: string, data: object) =>
      mesh.append("/runs/r/stream", seq, { protocol: 2, seq, run_id: "r", type, segment_id: null, data });
    let ended = false;
    mesh.answer = ({ path }) => {
      if (path.endsWith("/state")) {
        return { status: 200, body: ended ? state("succeeded", null) : state("suspended", suspension) };
      }
      ended = true;
      append(2, "run.end", { status: "succeeded" });
      return { status: 202, body: { run_id: "r", session_id: "s", status: "queued" } };
    };
    append(1, "suspend", suspension);
    expect(await page.evaluate(() => globalThis.serveRun("r"))).toBe("succeeded");
    expect(mesh.posted.find(({ path }) => path === "/runs/r/resume")?.body.value.tool_results).toEqual([
      { tool_call_id: "call_0", content: '{"shown":"price"}', is_error: false },
    ]);
  });
});
