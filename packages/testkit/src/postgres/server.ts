/** One PostgreSQL server in a folder of its own, on a free port of the loopback interface. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chown, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { Client } from "pg";
import { commandPath } from "./available.ts";

const START_TIMEOUT_MS = 20_000;
const USER = "leafmesh";
const PASSWORD = "password-of-the-test-database";

const run = promisify(execFile);

export interface PostgresServer extends AsyncDisposable {
  readonly port: number;
  /** The password in every address, for tests that look for it where it must not be. */
  readonly password: string;
  /** Address of a database. */
  urlOf(database: string): string;
  /** Makes an empty database, or a copy of `template`, which nobody may be connected to; answers its address. */
  createDatabase(name: string, template?: string): Promise<string>;
  dropDatabase(name: string): Promise<void>;
  /** Runs one statement in a database. */
  query(database: string, sql: string): Promise<readonly Record<string, unknown>[]>;
  /** As a crash would, with everything that is connected. */
  kill(): Promise<void>;
  /** After `kill`: again with the same data and port. */
  start(): Promise<void>;
  /** Stops the server's processes without ending them: connections stay and nothing is answered. */
  freeze(): void;
  thaw(): void;
  /** Ends the server and removes its folder. Idempotent. */
  stop(): Promise<void>;
  log(): string;
}

export interface PostgresOptions {
  /** `false` is faster, and forgets what was committed when the server is killed. */
  readonly durable?: boolean | undefined;
}

export async function startPostgres({ durable = false }: PostgresOptions = {}): Promise<PostgresServer> {
  const identity = await serverIdentity();
  const folder = await mkdtemp(join(tmpdir(), "leafmesh-postgres-"));
  const data = join(folder, "data");
  await writeFile(join(folder, "password"), PASSWORD);
  if (identity) {
    await chown(folder, identity.uid, identity.gid);
    await chown(join(folder, "password"), identity.uid, identity.gid);
  }
  await run(
    commandPath("initdb"),
    [
      ...["--pgdata", data, "--username", USER, "--pwfile", join(folder, "password"), "--auth", "scram-sha-256"],
      ...["--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync", "--no-instructions"],
    ],
    { ...identity, cwd: folder },
  );
  const port = await freePort();
  const server = createPostgres({ folder, data, port, durable, identity });
  try {
    await server.start();
    return server;
  } catch (error) {
    await server.stop();
    throw error;
  }
}

interface Identity {
  readonly uid: number;
  readonly gid: number;
}

/** PostgreSQL refuses to run as root: there it runs as the user that its package made. */
async function serverIdentity(): Promise<Identity | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const idOf = async (flag: string): Promise<number> => Number((await run("id", [flag, "postgres"])).stdout);
  return { uid: await idOf("-u"), gid: await idOf("-g") };
}

interface Place {
  readonly folder: string;
  readonly data: string;
  readonly port: number;
  readonly durable: boolean;
  readonly identity: Identity | undefined;
}

function createPostgres({ folder, data, port, durable, identity }: Place): PostgresServer {
  let child: ChildProcess | undefined;
  let output = "";
  const urlOf = (database: string): string => `postgres://${USER}:${PASSWORD}@127.0.0.1:${port}/${database}`;

  const query = async (database: string, sql: string): Promise<readonly Record<string, unknown>[]> => {
    const client = new Client({ connectionString: urlOf(database) });
    client.on("error", () => {});
    await client.connect();
    try {
      return (await client.query<Record<string, unknown>>(sql)).rows;
    } finally {
      await client.end();
    }
  };

  /** Its own process group: the server's children are signalled with it. */
  const signal = (name: NodeJS.Signals): void => {
    if (child?.pid !== undefined && child.exitCode === null && child.signalCode === null)
      process.kill(-child.pid, name);
  };
  const endWithThisProcess = (): void => {
    try {
      signal("SIGKILL");
    } catch {
      // It has ended already.
    }
  };

  const end = async (name: NodeJS.Signals): Promise<void> => {
    const ending = child;
    if (!ending || ending.exitCode !== null || ending.signalCode !== null) return;
    const gone = once(ending, "exit");
    signal(name);
    await gone;
    child = undefined;
    process.off("exit", endWithThisProcess);
  };

  const answered = async (): Promise<void> => {
    const giveUpAt = performance.now() + START_TIMEOUT_MS;
    for (;;) {
      try {
        await query("postgres", "select 1");
        return;
      } catch (error) {
        if (!child || child.exitCode !== null) throw new Error(`PostgreSQL ended:\n${output}`, { cause: error });
        if (performance.now() > giveUpAt) throw new Error(`PostgreSQL does not answer:\n${output}`, { cause: error });
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
  };

  const server: PostgresServer = {
    port,
    password: PASSWORD,
    urlOf,
    query,
    async createDatabase(name, template) {
      await query("postgres", `create database "${name}"${template ? ` template "${template}"` : ""}`);
      return urlOf(name);
    },
    async dropDatabase(name) {
      await query("postgres", `drop database if exists "${name}" with (force)`);
    },
    kill: () => end("SIGKILL"),
    async start() {
      if (child) throw new Error("PostgreSQL is running");
      const settings = {
        listen_addresses: "127.0.0.1",
        port,
        unix_socket_directories: "",
        max_connections: 200,
        fsync: durable ? "on" : "off",
        full_page_writes: durable ? "on" : "off",
        synchronous_commit: durable ? "on" : "off",
      };
      const args = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
      const started = spawn(commandPath("postgres"), ["-D", data, ...args], {
        ...identity,
        cwd: folder,
        detached: true,
        stdio: ["ignore", "pipe", "pipe"],
      });
      child = started;
      process.once("exit", endWithThisProcess);
      const take = (chunk: Buffer): void => {
        output = (output + chunk.toString("utf8")).slice(-100_000);
      };
      started.stdout.on("data", take);
      started.stderr.on("data", take);
      await answered();
    },
    freeze: () => signal("SIGSTOP"),
    thaw: () => signal("SIGCONT"),
    log: () => output,
    async stop() {
      await end("SIGKILL");
      await rm(folder, { recursive: true, force: true });
    },
    async [Symbol.asyncDispose]() {
      await server.stop();
    },
  };
  return server;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (typeof address !== "object" || !address) throw new Error("no free port");
  return address.port;
}
