/** Folders and files that only their owner may read, whatever the umask says. */
import { chmodSync, closeSync, mkdirSync, openSync, statSync } from "node:fs";

const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;

/**
 * Makes the folder and what is missing above it, each with mode 0700. A folder that exists keeps its mode: it may be
 * somebody's project, and the files in it are protected by their own.
 */
export function makePrivateFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: FOLDER_MODE });
}

/**
 * Makes an empty file with mode 0600, or takes the rights of others away from the one that is there. Never opens a
 * file that exists: closing it would drop the locks that SQLite holds on it in this process.
 * https://sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_
 */
export function makePrivateFile(path: string): void {
  const existing = statSync(path, { throwIfNoEntry: false });
  if (!existing) closeSync(openSync(path, "ax", FILE_MODE));
  if (!existing || (existing.mode & 0o777) !== FILE_MODE) chmodSync(path, FILE_MODE);
}
