/**
 * What Twilio's answers mean, by the code in their body: https://www.twilio.com/docs/api/errors. Pure. Codes of texts that
 * fail after they were taken (30003 and up) are in the same table: a message can come back with one at once.
 */
import * as z from "zod";
import { RingError, type RingErrorKind } from "../contract.ts";
import type { VendorAnswer } from "../http/index.ts";

/** https://www.twilio.com/docs/messaging/api/message-resource#message-properties */
export const messageSchema = z.object({
  sid: z.string().regex(/^(?:SM|MM)[0-9a-fA-F]{32}$/),
  status: z.string(),
  error_code: z.number().nullish(),
});

/** `message` is left out: it repeats the phone number. */
const errorSchema = z.object({ code: z.number() });

interface Meaning {
  readonly kind: RingErrorKind;
  readonly message: string;
  /** The text may be on its way all the same, so that nothing may send it again. */
  readonly mayHaveRung?: boolean;
}

const BAD_NUMBER = "The push token is no phone number that can get a text";
const BAD_FROM = "Twilio does not take `from` as the sender of this text";
const BAD_SERVICE = "The messaging service in `from`";
const REGISTER = "The carrier blocked the text because the sender is not registered";
const INACTIVE = "The Twilio account is not active: see its status in the Twilio Console.";
const OURS = "Twilio does not understand the request; its code says more.";
const CARRIER_LIMIT = "The carrier's limit for this sender is reached: send less, or register the sender for more.";

const MEANINGS: Readonly<Record<number, Meaning>> = {
  ...all([20003], "bad_credential", "Twilio refused the credential: check account_sid and auth_token or the API key."),
  ...all(
    [20006, 20403],
    "bad_credential",
    "The Twilio credential may not send texts: give it that right, or use another.",
  ),
  ...all(
    [70051],
    "bad_credential",
    "Twilio does not know the API key, or it may not send texts: check its permissions.",
  ),
  ...all([20008], "bad_credential", "These are Twilio's test credentials: use those of the live account."),
  ...all([20005, 20010, 10001, 30002], "bad_credential", INACTIVE),
  ...all([20404], "bad_credential", "Twilio does not know this account_sid: copy it from the Twilio Console."),

  ...all([21211, 21217, 21401], "dead_token", `${BAD_NUMBER}: it is not valid.`),
  ...all([21604], "dead_token", `${BAD_NUMBER}: it is missing.`),
  ...all([21614, 21635], "dead_token", `${BAD_NUMBER}: it is not a mobile number.`),
  ...all([21214], "dead_token", `${BAD_NUMBER}: Twilio cannot reach it.`),
  ...all([21265], "dead_token", `${BAD_NUMBER}: it is a short code.`),
  ...all([21610], "dead_token", "The person opted out of texts from this sender (STOP); only their START undoes that."),
  ...all([30005], "dead_token", "The phone number is unknown to its carrier, or no longer in service."),
  ...all([30006], "dead_token", "The phone number is a landline, or its carrier takes no texts from this sender."),
  ...all([30003], "offline", "The phone is switched off, has no service, or cannot get texts at the moment."),
  ...all([30036], "offline", "The carrier did not get the text to the phone in time."),

  ...all([21212, 21603], "bad_credential", `${BAD_FROM}: it is not a valid sender.`),
  ...all([21606, 21601, 21661], "bad_credential", `${BAD_FROM}: it cannot send texts to this country or at all.`),
  ...all([21607, 21659, 21660], "bad_credential", `${BAD_FROM}: it is not a number of this account.`),
  // Not a dead number: the sender is one that the number's country or network does not let through.
  ...all(
    [21612],
    "bad_credential",
    `${BAD_FROM}: the country or network of the phone number lets no such sender through.`,
  ),
  ...all([21616], "bad_credential", `${BAD_FROM}: several senders fit it.`),
  ...all([21701, 21702], "bad_credential", `${BAD_SERVICE} does not exist or was not given: copy its SID again.`),
  ...all([21703], "bad_credential", `${BAD_SERVICE} has no sender: add a number to its sender pool.`),
  ...all([21704, 21705], "bad_credential", `${BAD_SERVICE} cannot send: see it in the Twilio Console.`),
  ...all(
    [21408],
    "bad_credential",
    "Texts to this country are off: see Messaging, Geo permissions in the Twilio Console.",
  ),
  ...all(
    [21608, 21219],
    "bad_credential",
    "A trial account texts only numbers that were verified in the Twilio Console.",
  ),
  ...all([10002, 21267], "bad_credential", "A trial account cannot do this: upgrade it in the Twilio Console."),

  ...all([30004], "bad_credential", "The carrier or the phone blocks texts from this sender."),
  ...all(
    [30007],
    "bad_credential",
    "Twilio or the carrier filtered the text out as unwanted: see its log in the Twilio Console.",
  ),
  ...all([30018, 30024], "bad_credential", `${REGISTER} in this country: register it in the Twilio Console.`),
  ...all([30032], "bad_credential", `${REGISTER}: verify the toll-free number in the Twilio Console.`),
  ...all([30034, 30035], "bad_credential", `${REGISTER}: complete US A2P 10DLC in the Twilio Console.`),
  ...all(
    [30450, 60410],
    "bad_credential",
    "Twilio's fraud guard blocked the text: see Messaging, Fraud in the Twilio Console.",
  ),

  ...all([20429, 14107], "quota", "The account sends more requests than Twilio takes from it: send less."),
  ...all(
    [21611, 30001],
    "quota",
    "The sender's queue of texts is full: send less, or add senders to a messaging service.",
  ),
  ...all([30022, 30023, 30027], "quota", CARRIER_LIMIT),
  ...all([63038], "quota", "The account's limit of texts a day is reached: ask Twilio for a higher one."),

  ...all([20503], "transient", "Twilio is overloaded and did not take the text."),
  ...all(
    [20500],
    "transient",
    "Something went wrong inside Twilio, and it does not say whether the text was taken.",
    true,
  ),
  ...all([30008, 30017, 30410], "transient", "The carrier does not say what became of the text.", true),

  ...all([21602, 21609, 21620, 20001, 20422, 21266], "bad_request", OURS),
  ...all([21617, 21605, 30019], "too_big", "The text is too long for Twilio or the carrier: use a shorter link."),
};

/** Codes that {@link ringError} knows. */
export const KNOWN_CODES: readonly number[] = Object.keys(MEANINGS).map(Number);

/** Why a text was not taken. Answers without a known code go by their status. */
export function ringError(answer: VendorAnswer): RingError {
  const { data } = errorSchema.safeParse(answer.json);
  const meaning = (data && meaningOf(data.code)) ?? byStatus(answer.status);
  return toError(meaning, String(data?.code ?? answer.status), answer.retryAfterMs);
}

/** Why a message that Twilio made will not be sent: it answers 201 and says so in the message. */
export function failedMessage(errorCode: number): RingError {
  const message = `Twilio took the text and will not send it; see the code ${errorCode} in Twilio's documentation.`;
  return toError(meaningOf(errorCode) ?? { kind: "bad_request", message }, String(errorCode));
}

function toError({ kind, message, mayHaveRung = false }: Meaning, code: string, retryAfterMs?: number): RingError {
  return new RingError(kind, message, { code, retryAfterMs, mayHaveRung, isRepeatable: !mayHaveRung });
}

function meaningOf(code: number): Meaning | undefined {
  return Object.hasOwn(MEANINGS, code) ? MEANINGS[code] : undefined;
}

function byStatus(status: number): Meaning {
  const message = `Twilio answered with the status ${status}, and with nothing that it documents.`;
  if (status === 401 || status === 403) return { kind: "bad_credential", message };
  if (status === 404) return { kind: "bad_credential", message: "Twilio does not know this account_sid." };
  if (status === 429) return { kind: "quota", message };
  if (status === 503) return { kind: "transient", message };
  if (status >= 400 && status < 500) return { kind: "bad_request", message };
  // What took the text and answered nonsense, or lost the answer on its way, may have sent it.
  return { kind: "transient", message, mayHaveRung: true };
}

function all(codes: readonly number[], kind: RingErrorKind, message: string, mayHaveRung = false) {
  return Object.fromEntries(codes.map((code) => [code, { kind, message, mayHaveRung }]));
}
