/** A process that is measured or helps to measure: started, pinned, read line by line, and ended by its own handle. */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";

export interface Child {
  readonly pid: number;
  /** The next line of JSON that the process prints; other lines are skipped. Rejects when it ends before. */
  nextJson(): Promise<Record<string, unknown>>;
  /** Asks it to end, and after three seconds makes it. */
  stop(): Promise<void>;
}

export interface ChildOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Pins the process to this CPU. */
  readonly cpu?: number | undefined;
}

const GRACE_MS = 3_000;
const MAX_ERROR_LENGTH = 4_000;
const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(130));

export function startChild(command: string, args: readonly string[], options: ChildOptions = {}): Child {
  const full = options.cpu === undefined ? [command, ...args] : ["taskset", "-c", `${options.cpu}`, command, ...args];
  const [executable = command, ...rest] = full;
  const child = spawn(executable, rest, {
    cwd: options.cwd,
    env: { ...process.env, ...options.env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  running.add(child);
  let errors = "";
  child.stderr.on("data", (text: Buffer) => {
    errors = (errors + text).slice(-MAX_ERROR_LENGTH);
  });
  const ended = new Promise<void>((resolve) => {
    child.once("error", (error) => {
      errors += error.message;
      resolve();
    });
    child.once("close", () => resolve());
  }).then(() => void running.delete(child));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();

  return {
    get pid() {
      if (child.pid === undefined) throw new Error(`${command} could not be started: ${errors}`);
      return child.pid;
    },
    async nextJson() {
      for (;;) {
        const line = await lines.next();
        if (line.done) {
          await ended;
          throw new Error(`${full.join(" ")} ended (${child.exitCode ?? child.signalCode}): ${errors}`);
        }
        if (line.value.startsWith("{")) return JSON.parse(line.value);
      }
    },
    async stop() {
      child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), GRACE_MS);
      await ended;
      clearTimeout(timer);
    },
  };
}
