/**
 * What Pusher's codes and answers mean for a room. https://pusher.com/docs/channels/library_auth_reference/pusher-websockets-protocol/#error-codes
 * and https://pusher.com/docs/channels/library_auth_reference/rest-api/#http-status-codes
 */
import { RoomError, type RoomErrorKind } from "../contract.ts";

type Meaning = readonly [kind: RoomErrorKind, sentence: string];

const KEY: Meaning = [
  "bad_credential",
  "Pusher does not know the key in this cluster: copy key and cluster again from your app → App Keys.",
];
const SECRET: Meaning = [
  "bad_credential",
  "Pusher refused the signature: copy app id, key and secret again from your app → App Keys, and set this machine's clock.",
];
const DISABLED: Meaning = ["bad_credential", "The Pusher app is disabled: turn it on again in its App Settings."];
const CLIENT_EVENTS: Meaning = [
  "bad_credential",
  "Client events are off, so no device can answer: turn on Enable client events in your Pusher app → App Settings.",
];
const QUOTA: Meaning = [
  "plan_limit",
  "A limit of the Pusher plan is reached: see the app's usage in Pusher's dashboard, or move to a larger plan.",
];
const RATE: Meaning = ["rate", "Pusher's rate limit is reached: ask fewer devices at the same time."];
const TOO_LARGE: Meaning = ["too_big", "The message is larger than Pusher takes."];
const UNAVAILABLE: Meaning = [
  "unavailable",
  "Pusher cannot be reached or has trouble: see https://status.pusher.com and the record's cluster.",
];
const UNEXPECTED: Meaning = ["mismatch", "Pusher refused the request as wrong."];

/** An error that came over the socket: a `pusher:error`, or the code with which it was closed. */
export interface PusherFault {
  /** Pusher sends some without. */
  readonly code: number | undefined;
  readonly message: string;
}

/** What Pusher's client reports, in either of the shapes that it has for it; `undefined` for what is not Pusher's word. */
export function pusherFaultOf(reported: unknown): PusherFault | undefined {
  if (typeof reported !== "object" || reported === null) return undefined;
  const { type, error, data } = reported as { type?: unknown; error?: unknown; data?: unknown };
  if (type === "WebSocketError") return pusherFaultOf(error);
  if (type !== "PusherError" || typeof data !== "object" || data === null) return undefined;
  const { code, message } = data as { code?: unknown; message?: unknown };
  return {
    code: typeof code === "number" ? code : undefined,
    message: typeof message === "string" ? message : "",
  };
}

/** The message names the cure and the code, and nothing that Pusher wrote. */
export function pusherFaultError(fault: PusherFault): RoomError {
  const [kind, sentence] = meaningOfFault(fault);
  const code = fault.code === undefined ? undefined : String(fault.code);
  return new RoomError(kind, code === undefined ? sentence : `${sentence} (Pusher code ${code})`, { code });
}

function meaningOfFault({ code = 0, message }: PusherFault): Meaning {
  if (isClientEventsOff(message)) return CLIENT_EVENTS;
  if (code === 4001) return KEY;
  if (code === 4003) return DISABLED;
  if (code === 4009 || /\b(auth|signature)\b/i.test(message)) return SECRET;
  if (code === 4004 || code === 4100) return QUOTA;
  if (code === 4301) return RATE;
  return code === 0 || code >= 4200 ? UNAVAILABLE : UNEXPECTED;
}

/** Said with code 4301, or with none: the text tells it from a rate. */
function isClientEventsOff(message: string): boolean {
  return /client events?/i.test(message) && /enabl/i.test(message);
}

/** `undefined` when Pusher took the request. */
export function pusherAnswerError({
  status,
  body,
}: {
  readonly status: number;
  readonly body: string;
}): RoomError | undefined {
  if (status >= 200 && status < 300) return undefined;
  const [kind, sentence] = meaningOfAnswer(status, body);
  return new RoomError(kind, `${sentence} (HTTP ${status})`, { code: String(status) });
}

/** A quota is told with 400, 403 and 413, so the text goes before the status. */
function meaningOfAnswer(status: number, body: string): Meaning {
  if (status >= 400 && status < 500 && /quota|limit (reached|exceeded)/i.test(body)) return QUOTA;
  if (status === 413) return TOO_LARGE;
  if (status === 401) return SECRET;
  if (status === 403) return DISABLED;
  if (status === 404) return KEY;
  if (status === 429) return RATE;
  return status >= 400 && status < 500 ? UNEXPECTED : UNAVAILABLE;
}

export function pusherSilence(cause?: unknown): RoomError {
  const [kind, sentence] = UNAVAILABLE;
  return new RoomError(kind, sentence, { cause });
}
