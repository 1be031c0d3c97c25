/** One Mosquitto process in a folder of its own, on free ports of the loopback interface. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { commandPath } from "./available.ts";

const START_TIMEOUT_MS = 8_000;
/** Another process may take a port between its choice and the broker's start. */
const PORT_TRIES = 5;

const run = promisify(execFile);

/**
 * Starts the broker and tells its process id. When the pipe to this shell closes, however the test's process ended, the
 * broker is killed: it does not outlive a test that was.
 */
const GUARD = `
exec 3<&0
"$1" -c "$2" </dev/null & broker=$!
echo "broker $broker"
{ cat <&3 >/dev/null; kill -9 $broker 2>/dev/null; } &
wait $broker
`;

export interface BrokerPlace<Listener extends string> {
  /** Absolute; holds the files of the setup and, with users, `passwords`. */
  readonly folder: string;
  readonly ports: Readonly<Record<Listener, number>>;
}

export interface BrokerSetup<Listener extends string> {
  readonly listeners: readonly Listener[];
  /** Name → text, written into the broker's folder. */
  readonly files?: Readonly<Record<string, string>> | undefined;
  /** Login → password, written hashed into `passwords` in the broker's folder. */
  readonly users?: Readonly<Record<string, string>> | undefined;
  /** The whole of mosquitto.conf. */
  readonly config: (place: BrokerPlace<Listener>) => string;
}

export interface Broker<Listener extends string> extends AsyncDisposable, BrokerPlace<Listener> {
  readonly pid: number;
  /** What the broker has logged so far, over all its starts. */
  log(): string;
  /** Resolves when the log holds `text` at or after `from` characters; rejects after 10 s. */
  logged(text: string, from?: number): Promise<void>;
  /** Stops the process without ending it: connections stay and nothing is answered. */
  freeze(): void;
  thaw(): void;
  /** As a crash would. Resolves when the process is gone. */
  kill(): Promise<void>;
  /** After `kill`: again with the same configuration and ports. */
  start(): Promise<void>;
  /** Ends the process and removes its folder. Idempotent. */
  stop(): Promise<void>;
}

export async function startBroker<Listener extends string>(setup: BrokerSetup<Listener>): Promise<Broker<Listener>> {
  const folder = await mkdtemp(join(tmpdir(), "leafmesh-mosquitto-"));
  // Started as root, Mosquitto goes on as its own user, which has to read these files.
  await chmod(folder, 0o755);
  for (const [name, text] of Object.entries(setup.files ?? {})) await writeFile(join(folder, name), text);
  if (setup.users) await writePasswords(join(folder, "passwords"), setup.users);

  for (let tries = 1; ; tries++) {
    const ports = await freePorts(setup.listeners);
    await writeFile(join(folder, "mosquitto.conf"), setup.config({ folder, ports }));
    const broker = createBroker(folder, ports);
    try {
      await broker.start();
      return broker;
    } catch (error) {
      const portTaken = broker.log().includes("Address already in use");
      await broker.kill();
      if (tries < PORT_TRIES && portTaken) continue;
      await broker.stop();
      throw error;
    }
  }
}

function createBroker<Listener extends string>(
  folder: string,
  ports: Readonly<Record<Listener, number>>,
): Broker<Listener> {
  let shell: ChildProcess | undefined;
  let pid: number | undefined;
  let output = "";
  const watchers = new Set<() => void>();

  const logged = async (text: string, from = 0): Promise<void> => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const look = (): void => {
      if (output.includes(text, from)) resolve();
      else if (shell?.exitCode !== null) reject(new Error(`Mosquitto ended:\n${output}`));
    };
    const timer = setTimeout(() => reject(new Error(`Mosquitto did not log "${text}":\n${output}`)), START_TIMEOUT_MS);
    watchers.add(look);
    try {
      look();
      await promise;
    } finally {
      clearTimeout(timer);
      watchers.delete(look);
    }
  };

  const signal = (name: NodeJS.Signals): void => {
    if (pid !== undefined) process.kill(pid, name);
  };

  /** Not SIGTERM: Mosquitto forgets one that comes just after it has logged that it runs. */
  const end = async (): Promise<void> => {
    const ending = shell;
    shell = undefined;
    pid = undefined;
    if (!ending) return;
    const gone = ending.exitCode === null ? once(ending, "exit") : undefined;
    ending.stdin?.end();
    await gone;
  };

  const broker: Broker<Listener> = {
    folder,
    ports,
    get pid() {
      if (pid === undefined) throw new Error("Mosquitto is not running");
      return pid;
    },
    log: () => output,
    logged,
    freeze: () => signal("SIGSTOP"),
    thaw: () => signal("SIGCONT"),
    kill: end,
    async start() {
      if (shell) throw new Error("Mosquitto is running");
      const from = output.length;
      const args = ["-c", GUARD, "sh", commandPath("mosquitto"), join(folder, "mosquitto.conf")];
      const started = spawn("/bin/sh", args, { cwd: folder, stdio: ["pipe", "pipe", "pipe"] });
      shell = started;
      const take = (chunk: Buffer): void => {
        output += chunk.toString("utf8");
        for (const look of watchers) look();
      };
      let said = "";
      started.stdout.on("data", (chunk: Buffer) => {
        said += pid === undefined ? chunk.toString("utf8") : "";
        pid ??= pidIn(said);
        take(chunk);
      });
      started.stderr.on("data", take);
      // A broker that died does not read.
      started.stdin.on("error", () => {});
      started.once("exit", () => {
        for (const look of watchers) look();
      });
      await Promise.all([logged(" running", from), logged("broker ", from)]);
    },
    async stop() {
      await end();
      await rm(folder, { recursive: true, force: true });
    },
    async [Symbol.asyncDispose]() {
      await broker.stop();
    },
  };
  return broker;
}

function pidIn(output: string): number | undefined {
  const text = /^broker (\d+)\n/.exec(output)?.[1];
  return text === undefined ? undefined : Number(text);
}

async function writePasswords(file: string, users: Readonly<Record<string, string>>): Promise<void> {
  const lines = Object.entries(users).map(([name, password]) => `${name}:${password}\n`);
  await writeFile(file, lines.join(""), { mode: 0o644 });
  await run(commandPath("mosquitto_passwd"), ["-U", file]);
  await chmod(file, 0o644);
}

async function freePorts<Listener extends string>(names: readonly Listener[]): Promise<Record<Listener, number>> {
  const servers = await Promise.all(
    names.map(async (name) => {
      const server = createServer().listen(0, "127.0.0.1");
      await once(server, "listening");
      return [name, server] as const;
    }),
  );
  const ports = {} as Record<Listener, number>;
  for (const [name, server] of servers) {
    const address = server.address();
    if (typeof address === "object" && address) ports[name] = address.port;
    server.close();
    await once(server, "close");
  }
  return ports;
}
