/**
 * moto, a double of Amazon's services that others keep (https://docs.getmoto.org): a Python program that checks
 * signatures with Amazon's own signer, botocore. It judges what the tests of this package claim, where it is installed.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type { Network } from "@leafmesh/protocol";
import { createAuthority } from "@leafmesh/testkit/mosquitto";
import { networkOf } from "@leafmesh/testkit/notifiers";

export interface Moto {
  readonly network: Network;
  /** From now on signatures and rights are checked. */
  guard(): Promise<void>;
  /** All that it keeps, as JSON. */
  kept(): Promise<string>;
  stop(): Promise<void>;
}

const READY_WITHIN_MS = 20_000;
const NEEDED = ["moto", "flask", "flask_cors"];

/** Why it cannot be had here, in one sentence; `undefined` when it can. */
export function motoMissing(): string | undefined {
  const look = `import importlib.util as u, sys; sys.exit(any(u.find_spec(m) is None for m in ${JSON.stringify(NEEDED)}))`;
  const { error, status } = spawnSync("python3", ["-c", look], { stdio: "ignore", timeout: READY_WITHIN_MS });
  if (error) return "there is no python3 on the PATH";
  return status === 0 ? undefined : "python3 has no moto (pip install 'moto[server]')";
}

/** Plays these hosts on loopback, over TLS. Throws when it does not come up. */
export async function startMoto(hosts: readonly string[]): Promise<Moto> {
  const authority = await createAuthority("LeafMesh moto");
  const issued = await authority.issue({ commonName: "moto", hosts }).finally(() => authority.close());
  const folder = mkdtempSync(join(tmpdir(), "leafmesh-moto-"));
  const [cert, key] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  writeFileSync(cert, issued.cert);
  writeFileSync(key, issued.key, { mode: 0o600 });
  const port = await freePort();
  const ports = Object.fromEntries(hosts.map((host) => [host, port]));
  const server = ["-m", "moto.server", "-H", "127.0.0.1", "-p", String(port), "-s", "-c", cert, "-k", key];
  const child = spawn("python3", server, { stdio: "ignore" });
  const call = (method: string, path: string, body = "") =>
    ask({ port, ca: authority.ca, host: hosts[0] ?? "" }, method, path, body);
  try {
    await ready(child, () => call("GET", "/moto-api/data.json"));
  } catch (error) {
    await end(child, folder);
    throw error;
  }
  return {
    network: networkOf({ ca: authority.ca, ports }),
    async guard() {
      await call("POST", "/moto-api/reset-auth", "0");
    },
    kept: () => call("GET", "/moto-api/data.json"),
    stop: () => end(child, folder),
  };
}

interface Place {
  readonly port: number;
  readonly ca: string;
  readonly host: string;
}

function ask({ port, ca, host }: Place, method: string, path: string, body: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port, ca, servername: host, method, path, agent: false as const };
    const asking = request(options, (answer) => {
      text(answer).then(resolve, reject);
    });
    asking.on("error", reject);
    asking.end(body);
  });
}

async function ready(child: ChildProcess, look: () => Promise<unknown>): Promise<void> {
  const end = performance.now() + READY_WITHIN_MS;
  while (performance.now() < end) {
    if (child.exitCode !== null) throw new Error(`moto ended with ${child.exitCode}`);
    if (
      await look().then(
        () => true,
        () => false,
      )
    )
      return;
    await new Promise((next) => setTimeout(next, 50));
  }
  throw new Error("moto did not come up");
}

async function end(child: ChildProcess, folder: string): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    await new Promise((resolve) => {
      child.once("close", resolve);
      child.kill("SIGKILL");
    });
  }
  rmSync(folder, { recursive: true, force: true });
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("no port is free");
  return address.port;
}
