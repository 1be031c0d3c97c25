/**
 * What Expo's answers mean. Pure.
 * https://docs.expo.dev/push-notifications/sending-notifications/#errors
 */
import * as z from "zod";
import { RingError, type RingErrorKind } from "../contract.ts";
import type { VendorAnswer } from "../http/index.ts";

interface Meaning {
  readonly kind: RingErrorKind;
  readonly message: string;
}

const named = z.object({ error: z.string() });
const ticketSchema = z.union([
  z.object({ status: z.literal("ok"), id: z.string().min(1) }),
  z.object({ status: z.literal("error"), details: named.optional().catch(undefined) }),
]);
/** One message to one device is answered by a ticket, or by a list of one. */
const ticketsSchema = z.object({ data: z.union([ticketSchema, z.tuple([ticketSchema])]) });
const failureSchema = z.object({
  errors: z.tuple([z.object({ code: z.string().optional(), message: z.string().optional() })], z.unknown()),
});
const receiptSchema = z.object({
  status: z.enum(["ok", "error"]),
  details: named.optional().catch(undefined),
});
const receiptsSchema = z.object({ data: z.record(z.string(), receiptSchema), errors: z.undefined().optional() });

/** What Expo says of one message, in its ticket or in its receipt. */
const OF_MESSAGES: Readonly<Record<string, Meaning>> = {
  DeviceNotRegistered: {
    kind: "dead_token",
    message: "The app was removed from the device or may not notify any more, or Expo does not know the push token.",
  },
  MessageTooBig: { kind: "too_big", message: "The notification is larger than Apple and Google take." },
  MessageRateExceeded: { kind: "quota", message: "The device is sent more notifications than it may get." },
  MismatchSenderId: {
    kind: "bad_credential",
    message: "The app was built for another Firebase project than the key that Expo has: upload that project's key.",
  },
  InvalidCredentials: {
    kind: "bad_credential",
    message: "Apple or Google refused the key that Expo has for the app: upload a new one with `eas credentials`.",
  },
  InvalidProviderToken: {
    kind: "bad_credential",
    message:
      "Apple refused the key that Expo has for the app: upload a new one with `eas credentials`, and build anew.",
  },
  DeveloperError: { kind: "bad_request", message: "Expo found a fault in the notification or the project." },
  ExpoError: { kind: "transient", message: "Expo has an error of its own." },
  ProviderError: { kind: "transient", message: "Apple or Google have an error of their own." },
};

const REFUSED: Meaning = {
  kind: "bad_credential",
  message:
    "Expo refused the access token, or wants one: set access_token to one that is valid, from Account settings → Access tokens.",
};

/** What Expo says of a whole request. */
const OF_REQUESTS: Readonly<Record<string, Meaning>> = {
  UNAUTHORIZED: REFUSED,
  invalid_token: REFUSED,
  TOO_MANY_REQUESTS: { kind: "quota", message: "The project sends more than 600 notifications a second." },
  PUSH_TOO_MANY_EXPERIENCE_IDS: { kind: "bad_request", message: "Expo takes the push token for one of two projects." },
  PUSH_TOO_MANY_NOTIFICATIONS: { kind: "bad_request", message: "Expo counts more than 100 notifications." },
  PUSH_TOO_MANY_RECEIPTS: { kind: "bad_request", message: "Expo counts more than 1000 receipts." },
  VALIDATION_ERROR: { kind: "bad_request", message: "Expo does not understand the notification." },
  API_ERROR: { kind: "bad_request", message: "Expo could not work with the notification." },
};

const NOT_OF_THE_PROJECT: Meaning = {
  kind: "bad_credential",
  message: "The owner of access_token may not push for the app's project: take a token of its account.",
};
const NOT_A_TOKEN: Meaning = { kind: "dead_token", message: "Expo takes the push token for none of its own." };

/** The id of the ticket that says that Expo has taken the notification. Throws {@link RingError} without one. */
export function acceptedTicket(answer: VendorAnswer): string {
  const { data } = answer.status === 200 ? ticketsSchema.safeParse(answer.json) : {};
  if (!data) throw expoError(answer);
  const ticket = Array.isArray(data.data) ? data.data[0] : data.data;
  if (ticket.status === "ok") return ticket.id;
  const code = ticket.details?.error;
  const meaning = meaningOf(OF_MESSAGES, code);
  if (meaning) throw new RingError(meaning.kind, meaning.message, { code, retryAfterMs: answer.retryAfterMs });
  throw new RingError("bad_request", "Expo refused the notification, for a reason that it does not document.", {
    code: "ticket",
  });
}

/** Why a request was not taken; answers that nobody documents go by their status. */
export function expoError(answer: VendorAnswer): RingError {
  const { status, json, retryAfterMs } = answer;
  const [failure] = failureSchema.safeParse(json).data?.errors ?? [];
  const code = failure?.code ?? named.safeParse(json).data?.error ?? "";
  const meaning = meaningOf(OF_REQUESTS, code);
  const { kind, message } = ofText(status, failure?.message) ?? meaning ?? undocumented(status);
  // A success that makes no sense may be one all the same.
  const details = { code: meaning ? code : String(status), retryAfterMs, mayHaveRung: !meaning && status < 300 };
  return new RingError(kind, message, details);
}

/** Own names alone: a code such as `constructor` has no meaning. */
function meaningOf(meanings: Readonly<Record<string, Meaning>>, code: string | undefined): Meaning | undefined {
  return code !== undefined && Object.hasOwn(meanings, code) ? meanings[code] : undefined;
}

/** Refusals that Expo tells apart in its text alone. */
function ofText(status: number, text = ""): Meaning | undefined {
  if (status >= 400 && status < 500 && /^Insufficient permissions? to send push/i.test(text)) return NOT_OF_THE_PROJECT;
  if (status === 400 && /(?:["'.])to(?:\[0\])?["']/.test(text)) return NOT_A_TOKEN;
  return undefined;
}

function undocumented(status: number): Meaning {
  const message = `Expo answered with the status ${status}, and nothing that it documents.`;
  if (status === 401 || status === 403) return REFUSED;
  if (status === 429) return { kind: "quota", message: "Expo is sent more than it takes." };
  if (status === 413) return { kind: "too_big", message: "The notification is larger than Expo takes." };
  return { kind: status >= 500 || status < 400 ? "transient" : "bad_request", message };
}

/** What became of a notification that Expo had taken. */
export interface ReceiptFailure {
  readonly code: string;
  readonly message: string;
}

const UNKNOWN_FAILURE: ReceiptFailure = {
  code: "undocumented",
  message: "Expo could not deliver the notification, and gives no reason that it documents.",
};

/** What the receipts of some tickets say. */
export interface Receipts {
  readonly failures: readonly (ReceiptFailure & { readonly id: string })[];
  /** Ids without a receipt. */
  readonly missing: readonly string[];
}

/** Throws {@link RingError} when the answer has no receipts in it. */
export function readReceipts(answer: VendorAnswer, ids: readonly string[]): Receipts {
  const { data } = answer.status === 200 ? receiptsSchema.safeParse(answer.json) : {};
  if (!data) throw expoError(answer);
  const receipts = new Map(Object.entries(data.data));
  const failures = ids.flatMap((id) => {
    const receipt = receipts.get(id);
    if (receipt?.status !== "error") return [];
    const code = receipt.details?.error;
    const meaning = meaningOf(OF_MESSAGES, code);
    if (code === undefined || !meaning) return [{ id, ...UNKNOWN_FAILURE }];
    return [{ id, code, message: meaning.message }];
  });
  return { failures, missing: ids.filter((id) => !receipts.has(id)) };
}
