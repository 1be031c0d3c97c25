/** Real processes of the command line, with their output kept and their JSON lines awaited. */
import { type ChildProcess, spawn } from "node:child_process";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";

export const root = resolve(import.meta.dirname, "../..");

export type JsonLine = { readonly event: string } & Record<string, unknown>;

export interface RunningProcess {
  readonly pid: number;
  /** Everything the process wrote, both streams. */
  output(): string;
  readonly lines: readonly JsonLine[];
  /** The first JSON line that matches, already written or to come. Rejects when the process ends before. */
  waitFor(matches: string | ((line: JsonLine) => boolean)): Promise<JsonLine>;
  kill(signal: NodeJS.Signals): void;
  /** Exit code, or the signal that ended it. */
  readonly exited: Promise<number | NodeJS.Signals>;
  /** SIGTERM, and what came of it. */
  stop(): Promise<number | NodeJS.Signals>;
}

interface Waiter {
  readonly matches: (line: JsonLine) => boolean;
  readonly resolve: (line: JsonLine) => void;
  readonly reject: (error: Error) => void;
}

/** Every output of every process of this test file, for the test that looks for secrets in it. */
export const allOutput: string[] = [];

/** The command; `preload` is a module that Node loads before it. */
export function startLeafmesh(
  args: readonly string[],
  env: Record<string, string> = {},
  preload?: string,
): RunningProcess {
  const before = preload === undefined ? [] : ["--import", preload];
  return startNode(["--conditions=leafmesh-source", ...before, join(root, "packages/cli/src/main.ts"), ...args], env);
}

/** Any script; `args` begin with Node's own. */
export function startNode(args: readonly string[], env: Record<string, string> = {}): RunningProcess {
  const child: ChildProcess = spawn(process.execPath, args, {
    cwd: root,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, NO_COLOR: "1", ...env },
  });
  const chunks: string[] = [];
  const lines: JsonLine[] = [];
  const waiters = new Set<Waiter>();
  const output = (): string => chunks.join("");

  const keep = (chunk: Buffer): void => {
    chunks.push(chunk.toString());
    allOutput.push(chunk.toString());
  };
  child.stdout?.on("data", keep);
  child.stderr?.on("data", keep);
  if (child.stdout) {
    createInterface({ input: child.stdout }).on("line", (text) => {
      if (!text.startsWith('{"event"')) return;
      const line = JSON.parse(text) as JsonLine;
      lines.push(line);
      for (const waiter of waiters) {
        if (!waiter.matches(line)) continue;
        waiters.delete(waiter);
        waiter.resolve(line);
      }
    });
  }

  const exited = new Promise<number | NodeJS.Signals>((done) => {
    child.once("close", (code, signal) => {
      for (const waiter of waiters) {
        waiter.reject(new Error(`${args.join(" ")} ended (${code ?? signal}) before the awaited line\n${output()}`));
      }
      waiters.clear();
      done(code ?? signal ?? "SIGKILL");
    });
  });
  running.add(child);
  void exited.then(() => running.delete(child));

  return {
    pid: child.pid ?? -1,
    output,
    lines,
    waitFor(wanted) {
      const matches = typeof wanted === "string" ? (line: JsonLine) => line.event === wanted : wanted;
      const seen = lines.find(matches);
      if (seen) return Promise.resolve(seen);
      if (child.exitCode !== null || child.signalCode !== null) {
        return Promise.reject(new Error(`${args.join(" ")} has ended\n${output()}`));
      }
      return new Promise((resolveLine, reject) => waiters.add({ matches, resolve: resolveLine, reject }));
    },
    kill: (signal) => void child.kill(signal),
    exited,
    stop() {
      child.kill("SIGTERM");
      return exited;
    },
  };
}

const running = new Set<ChildProcess>();

/** Ends what a test left running. */
export async function killAll(): Promise<void> {
  const ends = [...running].map((child) => new Promise<void>((done) => child.once("close", () => done())));
  for (const child of running) child.kill("SIGKILL");
  await Promise.all(ends);
}
