/**
 * What OneSignal's answers mean. Pure.
 * https://documentation.onesignal.com/reference/push-notification, https://documentation.onesignal.com/reference/rate-limits
 */
import * as z from "zod";
import { RingError, type RingErrorKind } from "../contract.ts";
import type { VendorAnswer } from "../http/index.ts";

interface Meaning {
  readonly kind: RingErrorKind;
  readonly message: string;
  /** In place of the status, where the text says more. */
  readonly code?: string | undefined;
}

/** `errors` is a list of texts, a list of empty objects, or an object of lists, as it comes. */
const answerSchema = z.object({ id: z.string().optional().catch(undefined), errors: z.unknown().optional() });
const listSchema = z.object({ notifications: z.array(z.unknown()) });

/** Lists in `errors` of the targets that are not subscribed any more. A ring has one target, so each is about it. */
const GONE = ["invalid_player_ids", "invalid_aliases", "invalid_external_user_ids"];

const NOT_SUBSCRIBED: Meaning = {
  kind: "dead_token",
  message: "The subscription has ended or is not of this app: the app has to send the ID of its current one.",
  code: "not_subscribed",
};

const UNKNOWN_APP: Meaning = {
  kind: "bad_credential",
  message: "OneSignal knows no app of this app_id: copy it from Settings → Keys & IDs.",
  code: "app_id",
};

const REFUSED: Meaning = {
  kind: "bad_credential",
  message:
    "OneSignal refused app_api_key: it has to be a key of this app whose IP allowlist, if any, has this machine.",
};

/** What OneSignal tells apart in its texts alone, whatever the status: the first row that fits. */
const BY_TEXT: readonly (Meaning & { readonly text: RegExp })[] = [
  { text: /players are not subscribed/i, ...NOT_SUBSCRIBED },
  { text: /access denied|valid (?:rest )?api key/i, ...REFUSED },
  { text: /app_id|app id\b/i, ...UNKNOWN_APP },
  {
    text: /\bapp\b.*\bdisabled\b/i,
    kind: "bad_credential",
    message: "The app is disabled at OneSignal: enable it under Settings → Keys & IDs, or ask their support.",
    code: "app_disabled",
  },
  {
    text: /\b(?:no more than|must not exceed) \d+ bytes|too (?:big|large|long)\b/i,
    kind: "too_big",
    message: "The notification is larger than OneSignal takes.",
  },
];

const BY_STATUS: Readonly<Record<number, Meaning>> = {
  400: { kind: "bad_request", message: "OneSignal does not understand the notification." },
  401: REFUSED,
  403: REFUSED,
  404: UNKNOWN_APP,
  409: {
    kind: "transient",
    message: "OneSignal has an earlier request for this ring, and does not say what became of it.",
  },
  413: { kind: "too_big", message: "The notification is larger than OneSignal takes." },
  429: { kind: "quota", message: "The app is sent more than OneSignal's plan allows." },
  503: { kind: "transient", message: "OneSignal is not available at the moment." },
};

/**
 * The id of the notification that OneSignal has made, of this request or of an earlier one with the same idempotency
 * key. Throws {@link RingError} without one: HTTP 200 with an empty id, or with the target among those that have ended, is
 * no success.
 */
export function createdId(answer: VendorAnswer): string {
  const isMade = answer.status === 200 || answer.status === 409;
  const { id, errors } = (isMade ? answerSchema.safeParse(answer.json).data : undefined) ?? {};
  if (hasEnded(errors)) throw toError(NOT_SUBSCRIBED, answer);
  if (id) return id;
  if (answer.status === 200 && (id === "" || errors !== undefined)) throw notMade(answer, errors);
  throw oneSignalError(answer);
}

/** Why a request was not taken; answers that nobody documents go by their status. */
export function oneSignalError(answer: VendorAnswer): RingError {
  const { errors } = answerSchema.safeParse(answer.json).data ?? {};
  const meaning = answer.status === 429 || answer.status >= 500 ? undefined : byText(errors);
  return toError(meaning ?? BY_STATUS[answer.status] ?? undocumented(answer.status), answer);
}

/** Throws {@link RingError} unless the answer is a list of the app's notifications, which its key alone opens. */
export function assertListed(answer: VendorAnswer): void {
  if (answer.status === 200 && listSchema.safeParse(answer.json).success) return;
  const error = oneSignalError(answer);
  // Nothing else in that request could be wrong.
  throw answer.status === 400 && error.kind === "bad_request" ? toError(UNKNOWN_APP, answer) : error;
}

/** The documented 200 without a notification. */
function notMade(answer: VendorAnswer, errors: unknown): RingError {
  const message = "OneSignal made no notification, for a reason that it does not document.";
  return toError(byText(errors) ?? { kind: "bad_request", message, code: "not_created" }, answer);
}

function hasEnded(errors: unknown): boolean {
  if (typeof errors !== "object" || errors === null || Array.isArray(errors)) return false;
  return Object.entries(errors).some(([name, targets]) => GONE.includes(name) && !isEmpty(targets));
}

function isEmpty(targets: unknown): boolean {
  return typeof targets !== "object" || targets === null || Object.keys(targets).length === 0;
}

function byText(errors: unknown): Meaning | undefined {
  const texts = [errors].flat().filter((text) => typeof text === "string");
  return BY_TEXT.find(({ text }) => texts.some((said) => text.test(said)));
}

function toError({ kind, message, code }: Meaning, { status, retryAfterMs }: VendorAnswer): RingError {
  // A success that makes no sense may be one all the same, and a conflict is with one that may have been.
  const mayHaveRung = kind === "transient" && (status < 300 || status === 409);
  return new RingError(kind, message, { code: code ?? String(status), retryAfterMs, mayHaveRung });
}

function undocumented(status: number): Meaning {
  const message = `OneSignal answered with the status ${status}, and nothing that it documents.`;
  return { kind: status >= 500 || status < 400 ? "transient" : "bad_request", message };
}
