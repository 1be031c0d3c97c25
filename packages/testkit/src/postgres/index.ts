export { postgresAvailable } from "./available.ts";
export { type PostgresOptions, type PostgresServer, startPostgres } from "./server.ts";
