export { createPostgresBackend, type PostgresBackendOptions } from "./backend.ts";
