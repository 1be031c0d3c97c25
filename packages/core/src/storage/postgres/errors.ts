/**
 * What PostgreSQL and its connections report, in the words of the contract. SQLSTATE codes:
 * https://www.postgresql.org/docs/15/errcodes-appendix.html
 */
import { StorageError } from "../contract.ts";

const UNIQUE_VIOLATION = "23505";
const FOREIGN_KEY_VIOLATION = "23503";
const SERIALIZATION_FAILURE = "40001";
const DEADLOCK_DETECTED = "40P01";

/** Codes of Node and of `getaddrinfo` that mean that no connection came about, or that it broke. */
const NETWORK_CODES: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
  "ENOENT",
]);

/** Errors of `pg` that carry no code. */
const BROKEN_CONNECTION =
  /connection terminated|timeout|client has encountered a connection error|not queryable|closed/i;

function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

/** Which precondition of the contract a violated constraint stands for. */
export function brokenConstraint(error: unknown): "exists" | "missing" | undefined {
  switch (codeOf(error)) {
    case UNIQUE_VIOLATION:
      return "exists";
    case FOREIGN_KEY_VIOLATION:
      return "missing";
    default:
      return undefined;
  }
}

/** Whether the same transaction, begun again, may well succeed. */
export function isWorthRepeating(error: unknown): boolean {
  const code = codeOf(error);
  return code === SERIALIZATION_FAILURE || code === DEADLOCK_DETECTED;
}

/** What was thrown, as a {@link StorageError} that names the place and the cure; a bug comes back as it is. */
export function toStorageError(error: unknown, place: string): unknown {
  if (!(error instanceof Error) || error instanceof StorageError) return error;
  const code = codeOf(error);
  const fail = (kind: StorageError["code"], sentence: string): StorageError =>
    new StorageError(kind, `${sentence} (${code ? `${code}: ` : ""}${error.message})`, { cause: error });

  if (code === undefined) {
    return BROKEN_CONNECTION.test(error.message) ? fail("unavailable", `${place} does not answer`) : error;
  }
  if (NETWORK_CODES.has(code)) {
    return fail("unavailable", `${place} cannot be reached; check that it runs and that storage.url names its address`);
  }
  switch (code) {
    case "53100":
      return fail("full", `the disk of ${place} is full; free some space there, LeafMesh goes on by itself`);
    case "53300":
      return fail("busy", `${place} takes no more connections; raise max_connections, or run fewer mesh processes`);
    case "57014":
      return fail("busy", `${place} took too long for a statement; look for locks and load there`);
    case "55P03":
      return fail("busy", `${place} holds a lock that was waited for in vain; look for long transactions there`);
    case "28P01":
    case "28000":
      return fail("unavailable", `${place} refuses the login of storage.url; check the user and the password`);
    case "3D000":
      return fail("unavailable", `${place} has no such database; create it first (createdb)`);
    case "42501":
      return fail(
        "unavailable",
        `${place} does not let this user create or use LeafMesh's tables; grant it the rights`,
      );
    case "25006":
      return fail("unavailable", `${place} takes no writes: it is a standby; point storage.url at the primary`);
    case "XX001":
    case "XX002":
      return fail("corrupt", `${place} reports damaged data; restore it from a backup`);
    default:
      break;
  }
  // 08: connection exception; 53: insufficient resources; 57P: shutdown, crash or start of the server; 58: system error.
  if (/^(08|53|57P|58)/.test(code)) {
    return fail("unavailable", `${place} cannot serve now; LeafMesh goes on by itself when it can`);
  }
  return error;
}
