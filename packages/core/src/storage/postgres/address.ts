import type { Secret } from "@leafmesh/protocol";
import type { ClientConfig } from "pg";

/** The schema that holds LeafMesh's tables, so that a database may be shared with the operator's own. */
export const SCHEMA = "leafmesh";
/** The schema that pg-boss keeps its jobs in. */
export const JOBS_SCHEMA = "leafmesh_jobs";

const CONNECT_TIMEOUT_MS = 5_000;
const STATEMENT_TIMEOUT_MS = 30_000;
/** A transaction that a frozen process left open holds its locks no longer than this. */
const IDLE_IN_TRANSACTION_TIMEOUT_MS = 15_000;

/** Where the database is, for messages: host, port and name, never the login or the password. */
export function placeOf(url: Secret): string {
  try {
    const { hostname, port, pathname } = new URL(url.reveal());
    return `PostgreSQL at ${hostname || "localhost"}:${port || "5432"}${decodeURIComponent(pathname)}`;
  } catch {
    return "PostgreSQL";
  }
}

/** Options of every connection. */
export function clientConfig(url: Secret, processId: string): ClientConfig {
  return {
    connectionString: url.reveal(),
    application_name: `leafmesh ${processId}`.slice(0, 63),
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    statement_timeout: STATEMENT_TIMEOUT_MS,
    query_timeout: STATEMENT_TIMEOUT_MS + 5_000,
    idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_TIMEOUT_MS,
    keepAlive: true,
    options: `-c search_path=${SCHEMA},public`,
  };
}
