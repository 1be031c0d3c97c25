/** Whether this machine can run a real PostgreSQL. */
import { accessSync, constants, readdirSync } from "node:fs";
import { delimiter, join } from "node:path";

/** Debian keeps the server of each major version in a folder of its own, outside every PATH. */
const DEBIAN_FOLDER = "/usr/lib/postgresql";

const NEEDED = ["initdb", "postgres"] as const;
export type Command = (typeof NEEDED)[number];

/**
 * Whether PostgreSQL's server is installed: `describe.skipIf(!postgresAvailable())`. With `LEAFMESH_STRICT=1` nothing may
 * be skipped, so it throws an error that names what is missing.
 */
export function postgresAvailable(env: NodeJS.ProcessEnv = process.env): boolean {
  const missing = NEEDED.filter((command) => findCommand(command, env) === undefined);
  if (missing.length === 0) return true;
  if (env.LEAFMESH_STRICT === "1") {
    throw new Error(`Not found: ${missing.join(", ")}. On Debian: apt-get install postgresql`);
  }
  return false;
}

/** Absolute path of the command. Throws when it is not there. */
export function commandPath(command: Command): string {
  const path = findCommand(command, process.env);
  if (path === undefined) throw new Error(`${command} was not found`);
  return path;
}

function findCommand(command: Command, env: NodeJS.ProcessEnv): string | undefined {
  const folders = [...(env.PATH ?? "").split(delimiter).filter((folder) => folder !== ""), ...debianFolders()];
  return folders.map((folder) => join(folder, command)).find(isExecutable);
}

/** The newest version first. */
function debianFolders(): string[] {
  try {
    const versions = readdirSync(DEBIAN_FOLDER).sort((left, right) => Number(right) - Number(left));
    return versions.map((version) => join(DEBIAN_FOLDER, version, "bin"));
  } catch {
    return [];
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
