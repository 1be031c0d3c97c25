/**
 * Web push in a real browser, from the subscription to the outcome: Firefox subscribes, the mesh encrypts and sends, the
 * push service forwards, Firefox decrypts, its service worker shows a notification, joins with the device kit and answers.
 */
import { createECDH } from "node:crypto";
import { existsSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { MeshKey } from "@leafmesh/protocol";
import { build } from "esbuild";
import puppeteer, { type Browser, type Page } from "puppeteer-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Autopush, DELIVERED, startAutopush } from "../support/firefox/autopush.ts";
import { type RunningMesh, startMesh } from "../support/mesh.ts";
import { callFor, type ObedientModel, resultsIn, startObedientModel } from "../support/model.ts";
import { until } from "../support/until.ts";

const executablePath = ["/usr/bin/firefox-esr", "/usr/bin/firefox"].find((path) => existsSync(path));

describe.skipIf(!executablePath && process.env.LEAFMESH_STRICT !== "1")("web push in Firefox", () => {
  let autopush: Autopush;
  let model: ObedientModel;
  let mesh: RunningMesh;
  let site: Server;
  let browser: Browser;
  let page: Page;
  const vapid = createECDH("prime256v1");
  vapid.generateKeys();

  beforeAll(async () => {
    if (!executablePath) throw new Error("Firefox is not installed, and LEAFMESH_STRICT lets nothing be left out");
    [autopush, model] = await Promise.all([startAutopush(), startObedientModel()]);
    mesh = await startMesh({
      yaml: `name: pushed
${model.yaml}connections:
  browsers:
    provider: webpush
    vapid_private_key: ${vapid.getPrivateKey("base64url").padStart(43, "A")}
    contact: mailto:ops@example.com
agents:
  helper: { model: test/any, prompt: Do as you are told., device: { connection: browsers } }
`,
      played: [autopush.server.address],
    });
    site = await startSite(await workerScript());
    browser = await puppeteer.launch({
      browser: "firefox",
      executablePath,
      headless: true,
      extraPrefsFirefox: {
        // What drives a browser for tests switches this off otherwise.
        "dom.push.connection.enabled": true,
        "dom.push.serverURL": autopush.url,
        "dom.push.testing.allowInsecureServerURL": true,
        "permissions.default.desktop-notification": 1,
        // There is no desktop that shows them: Firefox shows them by itself.
        "alerts.useSystemBackend": false,
      },
    });
    page = await browser.newPage();
    await page.goto(`http://localhost:${(site.address() as AddressInfo).port}/`);
  }, 120_000);
  afterAll(async () => {
    await browser?.close();
    site?.closeAllConnections();
    site?.close();
    await mesh?.stop();
    await Promise.all([autopush?.close(), model?.close()]);
  });

  it("brings a ring to the service worker, which shows it, joins and answers", async () => {
    const { body } = await mesh.call<{ keys: readonly MeshKey[] }>("GET", "/.well-known/leafmesh-keys");
    const subscription = await page.evaluate(subscribe, JSON.stringify(body.keys), vapid.getPublicKey("base64url"));
    expect(JSON.parse(subscription)).toMatchObject({
      endpoint: expect.stringMatching(/^https:\/\/updates\.push\.services\.mozilla\.com\/wpush\/v2\//),
      keys: { p256dh: expect.any(String), auth: expect.any(String) },
    });

    const { reply } = await mesh.request({
      message: callFor({ action: "clipboard.read" }),
      device: { id: "browser-1", push_token: subscription },
    });
    expect(resultsIn(reply)).toMatchObject([
      { outcome: "done", success: true, data: { text: "copied in Firefox" }, device: "browser-1" },
    ]);
    expect(await until("Firefox's receipt", async () => autopush.receipts[0])).toBe(DELIVERED);
    expect(await until("a notification", async () => (await page.evaluate(shownTitles))[0])).toBe("A mesh");
  }, 60_000);
});

/** Runs in the page: registers the worker and subscribes. */
async function subscribe(keys: string, applicationServerKey: string): Promise<string> {
  await navigator.serviceWorker.register(`/worker.js?keys=${encodeURIComponent(keys)}`);
  const registration = await navigator.serviceWorker.ready;
  return JSON.stringify(await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey }));
}

/** Runs in the page. */
async function shownTitles(): Promise<readonly string[]> {
  const registration = await navigator.serviceWorker.ready;
  return (await registration.getNotifications()).map(({ title }) => title);
}

async function workerScript(): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [join(import.meta.dirname, "../support/firefox/worker.program.ts")],
    bundle: true,
    write: false,
    platform: "browser",
    format: "iife",
    target: "es2022",
    conditions: ["leafmesh-source"],
    logLevel: "silent",
  });
  return outputFiles[0]?.text ?? "";
}

async function startSite(worker: string): Promise<Server> {
  const server = createServer((request, response) => {
    const isWorker = request.url?.startsWith("/worker.js");
    response.writeHead(200, { "content-type": isWorker ? "text/javascript" : "text/html" });
    response.end(isWorker ? worker : '<!doctype html><meta charset="utf-8"><title>A site</title>');
  });
  await new Promise<void>((resolve) => server.listen(0, "localhost", resolve));
  return server;
}
