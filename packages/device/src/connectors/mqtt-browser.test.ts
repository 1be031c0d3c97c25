/** Rings and rooms over MQTT in a real browser: Debian's Chromium over WebSocket, against the real broker. */
import { existsSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { mosquittoAvailable, startBroker } from "@leafmesh/testkit/mosquitto";
import { build } from "esbuild";
import { chromium } from "playwright-core";
import { describe, expect, it, onTestFinished } from "vitest";
import { startMqttMesh } from "../../testing/mqtt-mesh.ts";

async function bundle(entryPoint: string) {
  return await build({
    entryPoints: [join(import.meta.dirname, entryPoint)],
    bundle: true,
    write: false,
    metafile: true,
    platform: "browser",
    format: "esm",
    target: "es2022",
    conditions: ["leafmesh-source"],
    logLevel: "silent",
  });
}

describe("the bundle with MQTT for browsers", () => {
  it("imports nothing of Node", async () => {
    const { outputFiles, metafile, warnings } = await bundle("mqtt.ts");
    expect(warnings).toEqual([]);
    expect(Object.values(metafile.outputs).flatMap((output) => output.imports)).toEqual([]);
    expect(Object.keys(metafile.inputs).filter((path) => path.includes("mqtt/build/"))).toEqual([]);
    expect(outputFiles).toHaveLength(1);
  });
});

const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser"].find((path) => existsSync(path));
const canRun = mosquittoAvailable() && (executablePath !== undefined || process.env.LEAFMESH_STRICT === "1");

describe.skipIf(!canRun)("in Chromium (needs chromium and mosquitto)", () => {
  it("a page is rung, comes and answers over WebSocket", { timeout: 60_000 }, async () => {
    if (!executablePath) throw new Error("Chromium is not installed, and LEAFMESH_STRICT lets nothing be left out");
    const broker = await startBroker({
      listeners: ["tcp", "ws"],
      config: ({ ports }) =>
        [
          "allow_anonymous true",
          "log_dest stderr",
          "log_type all",
          `listener ${ports.tcp} 127.0.0.1`,
          `listener ${ports.ws} 127.0.0.1`,
          "protocol websockets",
        ].join("\n"),
    });
    onTestFinished(() => broker.stop());
    const script = (await bundle("../../testing/mqtt-page.program.ts")).outputFiles[0]?.text ?? "";
    const server = createServer((request, response) => {
      const isScript = request.url === "/page.js";
      response.writeHead(200, { "content-type": isScript ? "text/javascript" : "text/html" });
      response.end(isScript ? script : '<!doctype html><body><script type="module" src="/page.js"></script>');
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => server.closeAllConnections());
    onTestFinished(() => void server.close());
    const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
    onTestFinished(() => browser.close());
    const page = await browser.newPage();
    await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    await page.waitForFunction(() => "startMqttDevice" in globalThis);
    const topic = "leafmesh/phone-7/connect";
    await page.evaluate(([url, at]) => globalThis.startMqttDevice(url, at), [
      `ws://127.0.0.1:${broker.ports.ws}`,
      topic,
    ] as const);

    const mesh = startMqttMesh({ url: `mqtt://127.0.0.1:${broker.ports.tcp}` });
    onTestFinished(() => mesh.close());
    const { ring, event, task } = await mesh.open();
    await mesh.ring(ring, topic);
    await event("joined");
    expect(await task()).toEqual({ status: "handed" });
    expect(await event("frame")).toMatchObject({ envelope: { type: "accepted" } });
    expect(await event("frame")).toMatchObject({ envelope: { type: "reply", data: { level: 71, browser: true } } });
    expect(await event("left")).toMatchObject({ reason: "left" });
  });
});
