/**
 * What every part of LeafMesh is handed instead of reaching for it: time, ids, a log.
 * Nothing here is Node-only, so the device kit uses the same contracts in a browser.
 */

/** A timer that has been armed and can be taken back. Cancelling twice, or after it fired, does nothing. */
export interface Timer {
  cancel(): void;
}

/**
 * Time. Deadlines are measured on `monotonicMs` (a wall clock that is set back must not lengthen a wait);
 * `nowMs` is for what people and peers read.
 */
export interface Clock {
  /** Wall clock, milliseconds since the epoch. */
  nowMs(): number;
  /** Milliseconds since an arbitrary start; never goes back. */
  monotonicMs(): number;
  /** Calls `run` once, `afterMs` milliseconds from now (a negative value counts as 0). */
  schedule(afterMs: number, run: () => void): Timer;
}

/** The longest delay that `setTimeout` takes without firing at once. */
const LONGEST_DELAY_MS = 2_147_483_647;

/** A class, because a process holds some for everything that waits in it, and a closure takes three times the memory. */
class SystemTimer implements Timer {
  readonly #handle: ReturnType<typeof setTimeout>;

  constructor(afterMs: number, run: () => void) {
    this.#handle = setTimeout(run, Math.min(Math.max(afterMs, 0), LONGEST_DELAY_MS));
  }

  cancel(): void {
    clearTimeout(this.#handle);
  }
}

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  schedule: (afterMs, run) => new SystemTimer(afterMs, run),
};

/**
 * Where a test leads the connections of an adapter. The adapter calls its vendor's own address in every case, so that
 * names, signatures and certificates are what they are in earnest; only the socket goes elsewhere. Never made from a
 * record, a request or the environment: whoever chooses it is handed every credential.
 */
export interface Network {
  /** Certificate authorities (PEM) that are trusted instead of the public ones. */
  readonly ca: string;
  /** Where a connection to this host and port goes; `undefined` leaves it alone. */
  route(host: string, port: number): { readonly host: string; readonly port: number } | undefined;
}

/** Fields of a log line. Secrets are safe to pass: they are {@link Secret} values and print as `[redacted]`. */
export type LogFields = Readonly<Record<string, unknown>>;

/** A structured log. One call is one line; `message` is a constant sentence, what varies goes into `fields`. */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}

const ignore = (): void => {};

export const silentLogger: Logger = { debug: ignore, info: ignore, warn: ignore, error: ignore };

/** Makes an id: the prefix, an underscore, and at least 128 random bits in URL-safe characters. */
export type NewId = (prefix: string) => string;

/** In the order of their codes, so that texts of one length sort like the numbers that they stand for. */
const ID_ALPHABET = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
/** 132 random bits. */
const RANDOM_CHARACTERS = 22;
/** Until the year 2109, in steps of 64 ms. */
const TIME_CHARACTERS = 6;
const TIME_STEP_MS = 64;

/** Filled for many ids at once: the call costs more than the bytes. */
const randomBytes = new Uint8Array(64 * RANDOM_CHARACTERS);
let usedBytes = randomBytes.length;

/** `start` and 22 random characters. */
function withRandomEnd(start: string): string {
  if (usedBytes === randomBytes.length) {
    crypto.getRandomValues(randomBytes);
    usedBytes = 0;
  }
  // Joined and not added up: a text that grows by a character is kept as a chain of its pieces, for as long as it lives.
  const pieces = [start];
  for (const end = usedBytes + RANDOM_CHARACTERS; usedBytes < end; usedBytes++) {
    pieces.push(ID_ALPHABET.charAt((randomBytes[usedBytes] ?? 0) & 63));
  }
  return pieces.join("");
}

export const randomId: NewId = (prefix) => withRandomEnd(`${prefix}_`);

/**
 * For what is stored: as {@link randomId} with 6 characters of the time before the random ones. Records made together
 * lie together in every index, so a commit touches few pages of the store, however many conversations it holds.
 */
export function createOrderedId({ nowMs }: Pick<Clock, "nowMs">): NewId {
  let step = -1;
  let time = "";
  return (prefix) => {
    const now = Math.floor(nowMs() / TIME_STEP_MS);
    if (now !== step) {
      step = now;
      time = "";
      for (let rest = now; time.length < TIME_CHARACTERS; rest = Math.floor(rest / 64)) {
        time = ID_ALPHABET.charAt(rest % 64) + time;
      }
    }
    return withRandomEnd(`${prefix}_${time}`);
  };
}

/** URL-safe base64 without padding. */
export function toBase64Url(bytes: Uint8Array): string {
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The bytes of URL-safe (or plain) base64. Throws a `TypeError` when the text is neither. */
export function fromBase64Url(text: string): Uint8Array<ArrayBuffer> {
  let binary: string;
  try {
    binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  } catch (cause) {
    throw new TypeError("not base64", { cause });
  }
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

/** Length of the text in UTF-8 bytes, which is what every size limit here counts. */
export function utf8Length(text: string): number {
  return utf8.encode(text).byteLength;
}

const utf8 = new TextEncoder();
