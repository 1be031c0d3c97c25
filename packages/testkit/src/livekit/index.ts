/**
 * A real LiveKit server. It is a Go program that no package archive holds: taken from `LEAFMESH_LIVEKIT_SERVER` or the
 * PATH.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { accessSync, constants, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";

export interface LiveKitServer {
  readonly url: string;
  readonly httpUrl: string;
  readonly apiKey: string;
  readonly apiSecret: string;
  stop(): Promise<void>;
}

const READY_WITHIN_MS = 10_000;

export function livekitAvailable(): boolean {
  return livekitPath() !== undefined;
}

/** Listens on loopback alone, on ports that were free. Throws when it does not come up. */
export async function startLiveKit(): Promise<LiveKitServer> {
  const path = livekitPath();
  if (path === undefined) throw new Error("there is no livekit-server on the PATH");
  const [port, tcpPort, udpPort] = [await freePort(), await freePort(), await freePort()];
  const apiSecret = randomBytes(32).toString("base64url");
  const folder = mkdtempSync(join(tmpdir(), "leafmesh-livekit-"));
  const file = join(folder, "livekit.yaml");
  writeFileSync(
    file,
    [
      `port: ${port}`,
      `bind_addresses: ["127.0.0.1"]`,
      `keys: { devkey: "${apiSecret}" }`,
      `rtc: { tcp_port: ${tcpPort}, udp_port: ${udpPort}, use_external_ip: false, node_ip: 127.0.0.1, enable_loopback_candidate: true }`,
      "room: { auto_create: false }",
      "logging: { level: error }",
    ].join("\n"),
  );
  const child = spawn(path, ["--config", file], { stdio: "ignore" });
  const httpUrl = `http://127.0.0.1:${port}`;
  try {
    await answers(httpUrl, child);
  } catch (error) {
    await end(child, folder);
    throw error;
  }
  return { url: `ws://127.0.0.1:${port}`, httpUrl, apiKey: "devkey", apiSecret, stop: () => end(child, folder) };
}

function livekitPath(): string | undefined {
  const named = process.env.LEAFMESH_LIVEKIT_SERVER;
  const places = (process.env.PATH ?? "").split(delimiter).map((folder) => join(folder, "livekit-server"));
  return [...(named ? [named] : []), ...places].find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

async function answers(url: string, child: ChildProcess): Promise<void> {
  const end = performance.now() + READY_WITHIN_MS;
  while (performance.now() < end) {
    if (child.exitCode !== null) throw new Error(`livekit-server ended with ${child.exitCode}`);
    const response = await fetch(url).catch(() => undefined);
    if (response?.ok) return;
    await new Promise((next) => setTimeout(next, 50));
  }
  throw new Error("livekit-server did not come up");
}

async function end(child: ChildProcess, folder: string): Promise<void> {
  if (child.exitCode === null) {
    const exited = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await exited;
  }
  rmSync(folder, { recursive: true, force: true });
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() =>
        address && typeof address === "object" ? resolve(address.port) : reject(new Error("no port")),
      );
    });
  });
}
