/**
 * Loaded before `leafmesh` by `--import`: gives the command a store that stops at one named commit, so that a test can
 * kill the process exactly there. The commands themselves know nothing of it.
 */
import { writeSync } from "node:fs";
import { registerHooks } from "node:module";
import { DatabaseSync } from "node:sqlite";
import { STOP_IN_MIGRATION } from "./stop-point.ts";

const STORAGE = new URL("../../packages/cli/src/runtime/storage.ts", import.meta.url).href;
const STOPPING = new URL("./stopping-storage.ts", import.meta.url).href;

registerHooks({
  resolve(specifier, context, next) {
    const resolved = next(specifier, context);
    return resolved.url === STORAGE && context.parentURL !== STOPPING ? { ...resolved, url: STOPPING } : resolved;
  },
});

const version = Number(process.env[STOP_IN_MIGRATION] ?? 0);
if (version > 0) stopInMigration(version);

/** Stops when everything of the migration is in its transaction, and the transaction not committed. */
function stopInMigration(stopIn: number): void {
  const { exec } = DatabaseSync.prototype;
  DatabaseSync.prototype.exec = function (sql) {
    if (sql === "commit" && newestMigration(this) === stopIn) {
      writeSync(1, `${JSON.stringify({ event: "stopped", at: `migration ${stopIn}` })}\n`);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    }
    return exec.call(this, sql);
  };
}

function newestMigration(database: DatabaseSync): unknown {
  return database.prepare("select max(version) as version from migrations").get()?.version;
}
