import { StorageError } from "../contract.ts";

/**
 * SQLite's result codes that mean something to an operator. The low byte is the primary code, the whole number the
 * extended one. https://sqlite.org/rescode.html
 */
const RESULT = {
  busy: 5,
  locked: 6,
  readOnly: 8,
  ioError: 10,
  corrupt: 11,
  full: 13,
  cannotOpen: 14,
  constraint: 19,
  notADatabase: 26,
} as const;

/** The shared-memory file could not be grown, which is how a full disk shows when it strikes there first. */
const IO_ERROR_SHARED_MEMORY_SIZE = 10 | (19 << 8);
const CONSTRAINT_FOREIGN_KEY = 19 | (3 << 8);
const CONSTRAINT_PRIMARY_KEY = 19 | (6 << 8);
const CONSTRAINT_UNIQUE = 19 | (8 << 8);

/** The extended result code of an error of `node:sqlite`; `undefined` for anything else. */
function resultCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !("errcode" in error)) return undefined;
  return typeof error.errcode === "number" ? error.errcode : undefined;
}

/** Which precondition of the contract a violated constraint stands for. */
export function brokenConstraint(error: unknown): "exists" | "missing" | undefined {
  switch (resultCode(error)) {
    case CONSTRAINT_PRIMARY_KEY:
    case CONSTRAINT_UNIQUE:
      return "exists";
    case CONSTRAINT_FOREIGN_KEY:
      return "missing";
    default:
      return undefined;
  }
}

/** What `node:sqlite` threw, as a {@link StorageError} that names the file and the cure; other errors come back as they are. */
export function toStorageError(error: unknown, file: string): unknown {
  const code = resultCode(error);
  if (code === undefined) return error;
  const detail = error instanceof Error ? error.message : String(error);
  const fail = (kind: StorageError["code"], sentence: string): StorageError =>
    new StorageError(kind, `${sentence} (SQLite: ${detail})`, { cause: error });

  if (code === IO_ERROR_SHARED_MEMORY_SIZE) return fail("full", fullSentence(file));
  switch (code & 0xff) {
    case RESULT.full:
      return fail("full", fullSentence(file));
    case RESULT.busy:
    case RESULT.locked:
      return fail("busy", `another program holds a lock on ${file}; close it, then try again`);
    case RESULT.corrupt:
    case RESULT.notADatabase:
      return fail(
        "corrupt",
        `${file} is damaged or is not a database; restore it from a backup, or move it away to start with an empty one`,
      );
    case RESULT.readOnly:
      return fail("unavailable", `${file} cannot be written; check who owns it and how its file system is mounted`);
    case RESULT.cannotOpen:
      return fail("unavailable", `${file} cannot be opened; check that its folder exists and belongs to this user`);
    case RESULT.ioError:
      return fail("unavailable", `the operating system failed to read or write ${file}; check the disk`);
    default:
      return fail("unavailable", `${file} could not be used`);
  }
}

function fullSentence(file: string): string {
  return `the disk that holds ${file} is full; free some space, LeafMesh goes on by itself`;
}
