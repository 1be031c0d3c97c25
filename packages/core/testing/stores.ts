/** Stores for the tests of the embedded backend. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { type Clock, type Logger, silentLogger, systemClock } from "@leafmesh/protocol";
import type { Backend, Write } from "../src/storage/contract.ts";
import { createEmbeddedBackend } from "../src/storage/embedded/index.ts";

const AT = 1_800_000_000_000;

export interface TemporaryFolder extends Disposable {
  readonly path: string;
  file(name: string): string;
}

export function temporaryFolder(): TemporaryFolder {
  const path = mkdtempSync(join(tmpdir(), "leafmesh-store-"));
  return {
    path,
    file: (name) => join(path, name),
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  };
}

export interface StoreOptions {
  readonly durable?: boolean;
  readonly clock?: Clock;
  readonly logger?: Logger;
}

/** A backend that closes at the end of its scope. */
export async function openStore(
  path: string,
  { durable = false, clock = systemClock, logger = silentLogger }: StoreOptions = {},
): Promise<Backend & AsyncDisposable> {
  const backend = createEmbeddedBackend({ path, durable, clock, logger });
  await backend.migrate();
  return { ...backend, [Symbol.asyncDispose]: () => backend.close() };
}

export function createSession(id: string, context: Readonly<Record<string, unknown>> = {}): Write {
  return {
    kind: "session.create",
    session: { id, meshName: "m", entryPoint: "e", createdAt: AT, lastActiveAt: AT, context },
  };
}

export function appendEvent(sessionId: string, message: string): Write {
  return { kind: "event.append", sessionId, at: AT, event: { type: "warning", payload: { code: "test", message } } };
}

/** What SQLite itself says about the file: `ok`, or what is wrong with it. */
export function integrityOf(path: string): string {
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    const check = database
      .prepare("pragma integrity_check")
      .all()
      .map((row) => String(row.integrity_check));
    const orphans = database.prepare("pragma foreign_key_check").all().length;
    return orphans > 0 ? `${orphans} rows refer to nothing` : check.join("; ");
  } finally {
    database.close();
  }
}

export interface StoreChild {
  readonly process: ChildProcess;
  readonly lines: AsyncIterator<string>;
  /** Ends it as a power switch would, and resolves when the operating system has reaped it. */
  kill(): Promise<void>;
}

/** Starts `store-child.program.ts`; resolves when it has the store open. */
export async function startStoreChild(mode: "hold" | "write", path: string, durable = false): Promise<StoreChild> {
  const script = fileURLToPath(new URL("./store-child.program.ts", import.meta.url));
  const child = spawn(process.execPath, ["--conditions=leafmesh-source", script, mode, path, String(durable)], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const exited = once(child, "exit");
  let complaint = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    complaint = (complaint + text).slice(-4_000);
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const first = await lines.next();
  if (first.value !== "open") {
    await exited;
    throw new Error(`the child could not open the store: ${complaint}`);
  }
  return {
    process: child,
    lines,
    async kill() {
      child.kill("SIGKILL");
      await exited;
    },
  };
}
