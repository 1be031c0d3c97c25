/**
 * Plays Twilio's Messages API: Basic authentication with the auth token or an API key and its rights, form fields and
 * their sizes, the documented JSON. https://www.twilio.com/docs/messaging/api/message-resource
 */
import type { NotifierDouble, ReceivedRing } from "../suites/notifier/under-test.ts";
import type { VendorReply } from "./replies.ts";
import { startVendorServer, type VendorRequest } from "./vendor-server.ts";

export interface TwilioKey {
  readonly sid: string;
  readonly secret: string;
  /** What a restricted key may do; left out, it is a standard one: all but accounts and keys. */
  readonly may?: readonly ("create_messages" | "list_messages" | "list_numbers")[];
}

export interface TwilioAccount {
  readonly sid: string;
  readonly authToken: string;
  readonly keys?: readonly TwilioKey[];
  /** Phone numbers of the account. */
  readonly numbers: readonly string[];
  /** Messaging services, short codes and names that may send. */
  readonly otherSenders?: readonly string[];
  readonly status?: "active" | "suspended" | "closed";
}

/** A text as it would reach the phone. */
export interface TwilioText {
  readonly to: string;
  readonly from: string;
  readonly body: string;
  readonly segments: number;
}

export interface TwilioSmsDouble extends NotifierDouble {
  readonly texts: readonly TwilioText[];
}

type Right = NonNullable<TwilioKey["may"]>[number] | "read_account";

const HOST = "api.twilio.com";
const MAX_BODY_CHARACTERS = 1600;
const MAX_VALIDITY_SECONDS = 36_000;
const FIELDS: ReadonlySet<string> = new Set(["To", "From", "MessagingServiceSid", "Body", "ValidityPeriod"]);
/** https://www.twilio.com/docs/glossary/what-is-gsm-7-character-encoding: the second row counts as two. */
const GSM_7 =
  "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà";
const GSM_7_DOUBLE = "\f^{}\\[~]|€";

export async function startTwilioSms(account: TwilioAccount): Promise<TwilioSmsDouble> {
  const rings: ReceivedRing[] = [];
  const texts: TwilioText[] = [];
  const base = `/2010-04-01/Accounts/${account.sid}`;

  const create = (request: VendorRequest): VendorReply => {
    if (request.headers["content-type"]?.split(";")[0] !== "application/x-www-form-urlencoded") {
      return refusal(400, 21604, "A 'To' phone number is required.");
    }
    const form = new URLSearchParams(request.text);
    const unknown = [...form.keys()].filter((name) => !FIELDS.has(name) || form.getAll(name).length > 1);
    if (unknown.length > 0) return refusal(400, 20001, `Unexpected parameter ${unknown[0]}`);
    const { To: to = "", Body: body = "", ValidityPeriod: validity } = Object.fromEntries(form);
    const sender = form.get("From") ?? form.get("MessagingServiceSid") ?? "";
    const refused = refusedFields({ to, body, validity, sender }, form, account);
    if (refused) return refused;
    const ttlSeconds = validity === undefined ? undefined : Number(validity);
    rings.push({ body, to, isShown: true, ttlSeconds });
    texts.push({ to, from: sender, body, segments: segmentsOf(body) });
    return { status: 201, body: messageOf(account, form, texts.length) };
  };

  const answer = (request: VendorRequest): VendorReply => {
    const { method, path, query } = request;
    const found = routeOf(method, path.startsWith(base) ? path.slice(base.length) : undefined);
    const refused = refusedCredential(request, found, account);
    if (refused) return refused;
    switch (found) {
      case "create_messages":
        return account.status === "suspended" ? refusal(403, 30002, "Account suspended") : create(request);
      case "read_account":
        // As documented, the account's own secret stands in the answer.
        return {
          status: 200,
          body: { sid: account.sid, status: account.status ?? "active", auth_token: account.authToken },
        };
      case "list_messages":
        return { status: 200, body: { messages: texts.slice(-1), page: 0, page_size: Number(query.get("PageSize")) } };
      case "list_numbers": {
        const numbers = account.numbers.filter((number) => number === query.get("PhoneNumber"));
        return { status: 200, body: { incoming_phone_numbers: numbers.map((phone_number) => ({ phone_number })) } };
      }
      case undefined:
        return refusal(404, 20404, `The requested resource ${path} was not found`);
      default:
        return found satisfies never;
    }
  };

  const server = await startVendorServer({ hosts: [HOST], handle: answer });
  return {
    server,
    rings,
    texts,
    purposeOf: ({ method }) => (method === "POST" ? "ring" : "check"),
    close: () => server.close(),
  };
}

/** https://www.twilio.com/docs/usage/twilios-response#response-formats-exceptions */
export function refusal(status: number, code: number, message: string): VendorReply {
  return { status, body: { code, message, more_info: `https://www.twilio.com/docs/errors/${code}`, status } };
}

function routeOf(method: string, path: string | undefined): Right | undefined {
  if (method === "POST" && path === "/Messages.json") return "create_messages";
  if (method !== "GET") return undefined;
  if (path === ".json") return "read_account";
  if (path === "/Messages.json") return "list_messages";
  return path === "/IncomingPhoneNumbers.json" ? "list_numbers" : undefined;
}

function refusedCredential(
  { headers }: VendorRequest,
  right: Right | undefined,
  account: TwilioAccount,
): VendorReply | undefined {
  const encoded = /^Basic ([A-Za-z0-9+/]+=*)$/.exec(headers.authorization ?? "")?.[1] ?? "";
  const [user, ...password] = Buffer.from(encoded, "base64").toString("utf8").split(":");
  const given = password.join(":");
  if (user === account.sid && given === account.authToken) return undefined;
  const key = account.keys?.find(({ sid, secret }) => sid === user && secret === given);
  if (!key) return refusal(401, 20003, "Authenticate");
  const isAllowed = key.may ? key.may.some((each) => each === right) : right !== "read_account";
  if (isAllowed || right === undefined) return undefined;
  return key.may ? refusal(401, 70051, "Authorization failed") : refusal(401, 20003, "Authenticate");
}

function refusedFields(
  given: { readonly to: string; readonly body: string; readonly validity: string | undefined; readonly sender: string },
  form: URLSearchParams,
  { numbers, otherSenders = [] }: TwilioAccount,
): VendorReply | undefined {
  const { to, body, validity, sender } = given;
  if (to === "") return refusal(400, 21604, "A 'To' phone number is required.");
  if (!/^\+[1-9]\d{6,14}$/.test(to)) return refusal(400, 21211, `The 'To' number ${to} is not a valid phone number.`);
  if (sender === "") return refusal(400, 21603, "A 'From' phone number is required.");
  if (form.has("From") && form.has("MessagingServiceSid")) return refusal(400, 20001, "Give one sender.");
  if (form.has("MessagingServiceSid") !== sender.startsWith("MG")) return refusal(400, 21701, "Invalid service.");
  if (![...numbers, ...otherSenders].includes(sender)) {
    const message = `Mismatch between the 'From' number ${sender} and the account`;
    return sender.startsWith("MG")
      ? refusal(400, 21701, "The Messaging Service does not exist")
      : refusal(400, 21660, message);
  }
  if (body === "") return refusal(400, 21602, "Message body is required.");
  if (body.length > MAX_BODY_CHARACTERS) {
    return refusal(400, 21617, "The concatenated message body exceeds the 1600 character limit");
  }
  const seconds = Number(validity ?? MAX_VALIDITY_SECONDS);
  if (!Number.isInteger(seconds) || seconds < 1 || seconds > MAX_VALIDITY_SECONDS) {
    return refusal(400, 20001, "Invalid ValidityPeriod");
  }
  return undefined;
}

/** Sixteen bits a character as soon as one is not in the carriers' alphabet. */
function segmentsOf(body: string): number {
  const characters = [...body];
  const isPlain = characters.every((each) => GSM_7.includes(each) || GSM_7_DOUBLE.includes(each));
  const length = isPlain
    ? characters.reduce((sum, each) => sum + (GSM_7_DOUBLE.includes(each) ? 2 : 1), 0)
    : body.length;
  const [one, several] = isPlain ? [160, 153] : [70, 67];
  return length <= one ? 1 : Math.ceil(length / several);
}

function messageOf({ sid: account_sid }: TwilioAccount, form: URLSearchParams, nth: number): object {
  const body = form.get("Body") ?? "";
  const sid = `SM${nth.toString(16).padStart(32, "0")}`;
  const uri = `/2010-04-01/Accounts/${account_sid}/Messages/${sid}`;
  return {
    account_sid,
    api_version: "2010-04-01",
    body,
    date_created: "Thu, 24 Aug 2023 05:01:45 +0000",
    date_sent: null,
    date_updated: "Thu, 24 Aug 2023 05:01:45 +0000",
    direction: "outbound-api",
    error_code: null,
    error_message: null,
    from: form.get("From"),
    messaging_service_sid: form.get("MessagingServiceSid"),
    num_media: "0",
    num_segments: String(segmentsOf(body)),
    price: null,
    price_unit: null,
    sid,
    status: form.has("MessagingServiceSid") ? "accepted" : "queued",
    subresource_uris: { media: `${uri}/Media.json` },
    to: form.get("To"),
    uri: `${uri}.json`,
  };
}
