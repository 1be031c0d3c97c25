/** What Ably's error codes mean for a room. https://ably.com/docs/platform/errors/codes */
import { RoomError, type RoomErrorKind } from "../contract.ts";

/** What Ably's client throws and reports. */
export interface AblyErrorInfo {
  readonly code?: number | null | undefined;
  readonly statusCode?: number | null | undefined;
}

type Meaning = readonly [kind: RoomErrorKind, sentence: string];

const REFUSED_KEY: Meaning = [
  "bad_credential",
  "Ably does not accept the API key: copy the whole key again from your Ably app → API Keys.",
];
const DISABLED: Meaning = [
  "bad_credential",
  "The Ably account or app is disabled or lives in another cluster: look at its status in Ably's dashboard.",
];
const NO_RIGHT: Meaning = [
  "bad_credential",
  "The Ably key lacks a right: give it publish, subscribe and presence on leafmesh:* in your Ably app → API Keys.",
];
const ACCOUNT_LIMIT: Meaning = [
  "plan_limit",
  "A limit of the Ably account is reached: see its usage in Ably's dashboard, or move to a larger package.",
];
const RATE: Meaning = ["rate", "Ably's rate limit is reached: ask fewer devices at the same time, or raise the limit."];
const TOO_LARGE: Meaning = ["too_big", "The message is larger than the Ably account allows."];
const UNAVAILABLE: Meaning = ["unavailable", "Ably cannot be reached or has trouble: see https://status.ably.com."];
const UNEXPECTED: Meaning = ["mismatch", "Ably refused the request as wrong."];

const meanings: readonly (readonly [readonly number[], Meaning])[] = [
  [[40005, 40101, 40103, 40104, 40105, 40131, 40132, 40400], REFUSED_KEY],
  [[40160, 40161], NO_RIGHT],
  [[40110, 40113, 40120, 40300, 40330, 40331, 40332], DISABLED],
  [[40111, 40112, 40114, 40115, 90010], ACCOUNT_LIMIT],
  [[42910, 42911, 42912, 42920, 42921, 42922, 42924], RATE],
  [[40009], TOO_LARGE],
];
const byCode = new Map(meanings.flatMap(([codes, meaning]) => codes.map((code) => [code, meaning] as const)));

/** The message names the cure and Ably's code, and nothing that Ably or the key's owner wrote. */
export function ablyRoomError(error: unknown): RoomError {
  const { code, statusCode } = asAblyError(error) ?? {};
  const [kind, sentence] = byCode.get(code ?? 0) ?? byStatus(code, statusCode);
  const suffix = code ? ` (Ably code ${code})` : "";
  return new RoomError(kind, `${sentence}${suffix}`, { code: code ? String(code) : undefined, cause: error });
}

/**
 * Whether Ably certainly did not take the message: it said no, or its client did before sending. A lost connection and
 * a failure inside of Ably leave it open.
 */
export function isCertainRefusal(error: unknown): boolean {
  const code = asAblyError(error)?.code ?? 0;
  return (code >= 40_000 && code < 50_000) || (code >= 90_000 && code < 91_000);
}

function byStatus(code: number | null | undefined, statusCode: number | null | undefined): Meaning {
  if (statusCode === 429) return RATE;
  if (statusCode === 401 || statusCode === 403) return REFUSED_KEY;
  const isOfService = code === undefined || code === null || code >= 50_000;
  return isOfService || (statusCode ?? 500) >= 500 ? UNAVAILABLE : UNEXPECTED;
}

function asAblyError(error: unknown): AblyErrorInfo | undefined {
  const hasCode = typeof error === "object" && error !== null && "code" in error && typeof error.code === "number";
  return hasCode ? (error as AblyErrorInfo) : undefined;
}
