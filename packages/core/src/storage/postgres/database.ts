/** Connections: a pool that Kysely and pg-boss share. */
import type { Secret } from "@leafmesh/protocol";
import {
  Kysely,
  type PostgresCursor,
  PostgresDialect,
  type PostgresPool,
  type PostgresPoolClient,
  type PostgresQueryResult,
} from "kysely";
import type { Pool, PoolClient } from "pg";
import { clientConfig } from "./address.ts";
import type { Tables } from "./tables.ts";
import { fromDatabaseText, toDatabaseText } from "./text.ts";

export type Database = Kysely<Tables>;

export interface Connections {
  readonly database: Database;
  /** For statements that are not ours: pg-boss's. */
  readonly pool: Pool;
  close(): Promise<void>;
}

const MOST_CONNECTIONS = 16;
/** Statements that the server keeps prepared in each connection. Queries with optional parts make for many. */
const MOST_PREPARED = 400;

const TYPE = { bytea: 17, int8: 20, text: 25 } as const;

export interface ConnectionOptions {
  readonly url: Secret;
  readonly processId: string;
  /** A connection broke. It is replaced by itself. */
  onBroken(error: Error): void;
}

/** Opens nothing before the first query. */
export async function createConnections(options: ConnectionOptions): Promise<Connections> {
  const { default: pg } = await import("pg");
  const parsers: Record<number, (value: string) => unknown> = {
    [TYPE.int8]: Number,
    [TYPE.text]: fromDatabaseText,
    [TYPE.bytea]: (value) => Uint8Array.from(Buffer.from(value.slice("\\x".length), "hex")),
  };
  const pool = new pg.Pool({
    ...clientConfig(options.url, options.processId),
    max: MOST_CONNECTIONS,
    idleTimeoutMillis: 30_000,
    types: {
      getTypeParser: (id: number, format?: "text" | "binary") =>
        (format !== "binary" && parsers[id]) || pg.types.getTypeParser(id, format),
    },
  });
  pool.on("error", options.onBroken);
  // The pool listens to a connection only while it is idle. One that breaks between two statements of a transaction
  // would end the process; the next statement fails as well, and says so to whoever runs it.
  pool.on("connect", (client) => client.on("error", options.onBroken));
  const database = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: preparing(pool) }) });
  return {
    database,
    pool,
    async close() {
      await database.destroy();
      if (!pool.ended && !pool.ending) await pool.end();
    },
  };
}

/** A pool whose queries are prepared under a name once in each connection, and whose texts may hold any character. */
function preparing(pool: Pool): PostgresPool {
  const names = new Map<string, string>();
  const nameOf = (sql: string): string | undefined => {
    const known = names.get(sql);
    if (known !== undefined || names.size >= MOST_PREPARED || !/^(select|insert|update|delete)/.test(sql)) return known;
    const name = `leafmesh_${names.size}`;
    names.set(sql, name);
    return name;
  };
  const wrap = (client: PoolClient): PostgresPoolClient => {
    function query<Row>(sql: string, parameters: readonly unknown[]): Promise<PostgresQueryResult<Row>>;
    function query<Row>(cursor: PostgresCursor<Row>): PostgresCursor<Row>;
    function query(sql: unknown, parameters: readonly unknown[] = []): unknown {
      if (typeof sql !== "string") throw new TypeError("cursors are not used here");
      return client.query({ name: nameOf(sql), text: sql, values: parameters.map(toParameter) });
    }
    return { query, release: (destroy) => client.release(destroy) };
  };
  return { options: pool.options, connect: async () => wrap(await pool.connect()), end: () => pool.end() };
}

function toParameter(value: unknown): unknown {
  if (typeof value === "string") return toDatabaseText(value);
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return value;
}
