/** What PubNub's answers mean for a room. https://www.pubnub.com/docs/general/resources/errors */
import { RoomError, type RoomErrorKind } from "../contract.ts";

/** What PubNub's client throws and reports. */
interface PubNubStatus {
  readonly statusCode?: number | undefined;
  readonly category?: string | undefined;
  readonly message: string;
}

type Meaning = readonly [kind: RoomErrorKind, sentence: string];

const REFUSED: Meaning = [
  "bad_credential",
  "PubNub refused the keys: check the secret key, turn on Access Manager for the keyset in the Admin Portal, and set this machine's clock.",
];
const BAD_KEY: Meaning = [
  "bad_credential",
  "PubNub does not know the publish or subscribe key: copy both again from the keyset in the Admin Portal.",
];
const QUOTA: Meaning = [
  "plan_limit",
  "A limit of the PubNub account is reached: see its usage in the Admin Portal, or move to a larger plan.",
];
const RATE: Meaning = ["rate", "PubNub's rate limit is reached: ask fewer devices at the same time."];
const TOO_LARGE: Meaning = ["too_big", "The message is larger than PubNub takes."];
const UNAVAILABLE: Meaning = ["unavailable", "PubNub cannot be reached or has trouble: see https://status.pubnub.com."];
const UNEXPECTED: Meaning = ["mismatch", "PubNub refused the request as wrong."];

/** The message names the cure and the status, and nothing that PubNub wrote. */
export function pubnubRoomError(error: unknown): RoomError {
  const status = statusOf(error);
  const [kind, sentence] = meaningOf(status);
  const { statusCode } = status;
  const suffix = statusCode ? ` (HTTP ${statusCode})` : "";
  return new RoomError(kind, `${sentence}${suffix}`, {
    code: statusCode ? String(statusCode) : status.category,
    cause: error,
  });
}

/** Whether PubNub certainly did not take the message: it said no. Silence and trouble inside of PubNub leave it open. */
export function isCertainRefusal(error: unknown): boolean {
  const { statusCode = 0, category } = statusOf(error);
  return (statusCode >= 400 && statusCode < 500) || category === "PNValidationErrorCategory";
}

function meaningOf({ statusCode = 0, message }: PubNubStatus): Meaning {
  if (/quota|limit exceeded/i.test(message)) return QUOTA;
  if (statusCode === 429) return RATE;
  if (statusCode === 413 || statusCode === 414 || /too (large|long)/i.test(message)) return TOO_LARGE;
  if (statusCode === 400 && /invalid.*key/i.test(message)) return BAD_KEY;
  if (statusCode === 401 || statusCode === 403) return REFUSED;
  return statusCode === 0 || statusCode >= 500 ? UNAVAILABLE : UNEXPECTED;
}

function statusOf(error: unknown): PubNubStatus {
  if (typeof error !== "object" || error === null) return { message: "" };
  const { status, message } = error as { status?: unknown; message?: unknown };
  const { statusCode, category, errorData } = (typeof status === "object" && status !== null ? status : error) as {
    statusCode?: unknown;
    category?: unknown;
    errorData?: unknown;
  };
  return {
    statusCode: typeof statusCode === "number" ? statusCode : undefined,
    category: typeof category === "string" ? category : undefined,
    message: `${typeof message === "string" ? message : ""} ${textOf(errorData)}`,
  };
}

/** What the service wrote, to be matched against and never shown. */
function textOf(data: unknown): string {
  if (data instanceof Error) return data.message;
  try {
    return JSON.stringify(data) ?? "";
  } catch {
    return "";
  }
}
