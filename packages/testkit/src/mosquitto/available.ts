/** Whether this machine can run the real broker. */
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** Debian keeps daemons outside an ordinary user's PATH. */
const DAEMON_FOLDERS = ["/usr/local/sbin", "/usr/sbin", "/opt/homebrew/sbin"];

const NEEDED = ["mosquitto", "mosquitto_passwd", "openssl"] as const;
export type Command = (typeof NEEDED)[number];

/**
 * Whether Mosquitto and what its harness needs are installed: `describe.skipIf(!mosquittoAvailable())`. With
 * `LEAFMESH_STRICT=1` nothing may be skipped, so it throws an error that names what is missing.
 */
export function mosquittoAvailable(env: NodeJS.ProcessEnv = process.env): boolean {
  const missing = NEEDED.filter((command) => findCommand(command, env) === undefined);
  if (missing.length === 0) return true;
  if (env.LEAFMESH_STRICT === "1") {
    throw new Error(`Not on the PATH: ${missing.join(", ")}. On Debian: apt-get install mosquitto openssl`);
  }
  return false;
}

/** Absolute path of the command. Throws when it is not there. */
export function commandPath(command: Command): string {
  const path = findCommand(command, process.env);
  if (path === undefined) throw new Error(`${command} is not on the PATH`);
  return path;
}

function findCommand(command: Command, env: NodeJS.ProcessEnv): string | undefined {
  const folders = [...(env.PATH ?? "").split(delimiter), ...DAEMON_FOLDERS].filter((folder) => folder !== "");
  return folders.map((folder) => join(folder, command)).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
