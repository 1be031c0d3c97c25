/** Where events go: LeafMesh's two stores, and the bare library under each with the same promise to keep what it took. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Backend } from "@leafmesh/core";
import { createEmbeddedBackend } from "@leafmesh/core/storage/embedded";
import { createPostgresBackend } from "@leafmesh/core/storage/postgres";
import { randomId, Secret, silentLogger, systemClock } from "@leafmesh/protocol";
import type { PostgresServer } from "@leafmesh/testkit/postgres";
import { Pool } from "pg";

/** What a `warning` event of the mesh carries, about the size of one that says what a model answered. */
export const MESSAGE = "x".repeat(200);

export interface EventStore {
  readonly name: string;
  /** Resolves when the event is stored, as safely as the store promises. */
  append(session: string): Promise<void>;
  close(): Promise<void>;
}

export const sessionName = (index: number): string => `session-${index}`;

export async function openBackend(backend: Backend, sessions: number): Promise<Backend> {
  await backend.migrate();
  for (let index = 0; index < sessions; index++) {
    const at = Date.now();
    const session = { id: sessionName(index), meshName: "bench", entryPoint: "chat", createdAt: at, lastActiveAt: at };
    await backend.commit([{ kind: "session.create", session: { ...session, context: {} } }]);
  }
  return backend;
}

export async function appendTo(backend: Backend, sessionId: string): Promise<void> {
  const event = { type: "warning", payload: { code: "bench", message: MESSAGE } } as const;
  const result = await backend.commit([{ kind: "event.append", sessionId, at: Date.now(), event }]);
  if (!result.committed) throw new Error("an event was not stored");
}

export function embeddedBackend(folder: string, durable: boolean): Backend {
  const path = join(folder, "mesh.db");
  return createEmbeddedBackend({ path, durable, clock: systemClock, logger: silentLogger });
}

export function postgresBackend(url: string): Backend {
  const options = { url: new Secret(url), processId: randomId("bench"), clock: systemClock, logger: silentLogger };
  return createPostgresBackend(options);
}

export function newFolder(): { readonly path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), "leafmesh-bench-"));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

export async function meshStore(name: string, backend: Backend, sessions: number): Promise<EventStore> {
  await openBackend(backend, sessions);
  return { name, append: (session) => appendTo(backend, session), close: () => backend.close() };
}

/** One insert, one transaction. */
export function bareSqlite(folder: string, durable: boolean): EventStore {
  const database = new DatabaseSync(join(folder, "bare.db"));
  database.exec(`pragma journal_mode = wal; pragma synchronous = ${durable ? "full" : "normal"}`);
  database.exec("create table events (session text, at integer, payload text)");
  const insert = database.prepare("insert into events values (?, ?, ?)");
  return {
    name: `node:sqlite${durable ? ", durable" : ""}`,
    async append(session) {
      insert.run(session, Date.now(), MESSAGE);
    },
    close: async () => database.close(),
  };
}

export async function barePostgres(server: PostgresServer, connections: number): Promise<EventStore> {
  const pool = new Pool({ connectionString: await server.createDatabase("bare"), max: connections });
  await pool.query("create table events (session text, at bigint, payload text)");
  return {
    name: "pg",
    async append(session) {
      const text = "insert into events values ($1, $2, $3)";
      await pool.query({ name: "insert", text, values: [session, Date.now(), MESSAGE] });
    },
    async close() {
      await pool.end();
      await server.dropDatabase("bare");
    },
  };
}
