/** Key files: made once, with mode 0600, whole or not at all. */
import { readFileSync, statSync } from "node:fs";
import { link, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { makePrivateFolder } from "./private-files.ts";

/** A key file cannot be used. The message names the file and the cure and holds nothing of the key. */
export class KeyFileError extends Error {
  override readonly name = "KeyFileError";
  readonly path: string;

  constructor(path: string, problem: string, more: { cause?: unknown } = {}) {
    super(`${path} ${problem}`, { cause: more.cause });
    this.path = path;
  }
}

const LARGEST_KEY_FILE = 4096;

/**
 * The text of the key file; `undefined` when there is none. Refuses a file that others may read. Reads at once: a mesh
 * that starts has nothing else to do, and for a file this small the way through the thread pool is the longer part.
 */
export async function readKeyFile(path: string): Promise<string | undefined> {
  try {
    const { mode, size } = statSync(path);
    if (process.platform !== "win32" && (mode & 0o077) !== 0) {
      const shown = (mode & 0o777).toString(8).padStart(4, "0");
      throw new KeyFileError(
        path,
        `can be read by others (mode ${shown}); make a new key if that may have happened, otherwise run: chmod 600 ${path}`,
      );
    }
    if (size > LARGEST_KEY_FILE) throw new KeyFileError(path, `has ${size} bytes, which no key file has`);
    return readFileSync(path, "utf8").trim();
  } catch (error) {
    if (isCode(error, "ENOENT")) return undefined;
    if (error instanceof KeyFileError) throw error;
    throw new KeyFileError(path, "cannot be read; check its owner", { cause: error });
  }
}

/**
 * Writes a new key file and gives back the text that is in it now: another process may have made it first. The folder is
 * made if it is missing.
 */
export async function createKeyFile(path: string, text: string): Promise<string> {
  const folder = dirname(path);
  const draft = `${path}.${process.pid}.${crypto.randomUUID()}.new`;
  try {
    makePrivateFolder(folder);
    await writeWhole(draft, `${text}\n`);
    // A link is made whole and only where there is nothing, so that no process ever sees half a key.
    await link(draft, path).catch(async (error: unknown) => {
      if (isCode(error, "EEXIST")) return;
      if (!hasNoLinks(error)) throw error;
      await rename(draft, path);
    });
    await syncFolder(folder);
  } catch (cause) {
    throw new KeyFileError(path, "cannot be written; check that its folder belongs to this user", { cause });
  } finally {
    await rm(draft, { force: true });
  }
  const written = await readKeyFile(path);
  if (written === undefined) throw new KeyFileError(path, "was removed while it was made");
  return written;
}

async function writeWhole(path: string, text: string): Promise<void> {
  const file = await open(path, "wx", 0o600);
  try {
    await file.chmod(0o600);
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Makes the new name in the folder durable. Not every system can sync a folder. */
async function syncFolder(folder: string): Promise<void> {
  if (process.platform === "win32") return;
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** FAT and some network file systems know no hard links. */
function hasNoLinks(error: unknown): boolean {
  return isCode(error, "EPERM") || isCode(error, "ENOTSUP") || isCode(error, "EOPNOTSUPP") || isCode(error, "ENOSYS");
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
