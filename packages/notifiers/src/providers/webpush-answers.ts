/** What the answers of push services mean. Pure. */
import * as z from "zod";
import { RingError, type RingErrorKind } from "../contract.ts";
import type { VendorAnswer } from "../http/index.ts";
import { windowsPushRefusal } from "./windows-push-status.ts";

interface Meaning {
  readonly kind: RingErrorKind;
  readonly message: string;
}

const OTHER_KEY: Meaning = {
  kind: "bad_credential",
  message:
    "The browser subscribed with another public key than that of `vapid_private_key`: the page has to subscribe again.",
};
const REFUSED: Meaning = {
  kind: "bad_credential",
  message:
    "The push service refuses the signature: look at `contact` and at this machine's clock, and let the page subscribe " +
    "with the public key of `vapid_private_key`.",
};
const DEAD: Meaning = { kind: "dead_token", message: "The push service knows no such subscription, or no more." };
const TOO_BIG: Meaning = { kind: "too_big", message: "The message is larger than this browser's push service takes." };
const TOO_MANY: Meaning = { kind: "quota", message: "The push service takes no more messages for now." };
const ours = (what: string): Meaning => ({
  kind: "bad_request",
  message: `The push service does not understand the message: ${what}. This is a fault of LeafMesh's.`,
});

/** Apple's, https://developer.apple.com/documentation/usernotifications/sending-web-push-notifications-in-web-apps-and-browsers */
const APPLE: Readonly<Record<string, Meaning>> = {
  BadJwtToken: REFUSED,
  BadVapidPublicKey: REFUSED,
  BadAuthorizationHeader: ours("the authorization header"),
  VapidPkHashMismatch: OTHER_KEY,
  Unregistered: DEAD,
  ExpiredToken: DEAD,
  BadTtl: ours("its time to live"),
  BadUrgency: ours("its urgency"),
  BadWebPushTopic: ours("its topic"),
  BadWebPushRequest: ours("the request"),
  PayloadTooLarge: TOO_BIG,
  TooManyRequests: TOO_MANY,
  InternalServerError: { kind: "transient", message: "Apple's push service had an internal error." },
  ServiceUnavailable: { kind: "transient", message: "Apple's push service is overloaded." },
  Shutdown: { kind: "transient", message: "Apple's push server is shutting down." },
};
const appleSchema = z.object({ reason: z.string() });

/** Mozilla's, https://mozilla-services.github.io/autopush-rs/errors.html; the others go by their status. */
const MOZILLA: Readonly<Record<number, Meaning>> = {
  101: ours("a key is missing"),
  108: { kind: "bad_request", message: "The endpoint of the subscription is not one of Mozilla's." },
  109: REFUSED,
  110: { kind: "bad_request", message: "Mozilla's push service refuses the keys of the subscription." },
  111: ours("a header is missing"),
  112: ours("its time to live"),
  113: ours("its topic"),
};
const mozillaSchema = z.object({ errno: z.int() });

/** Firebase's, for Chrome: a text, or a page of HTML around it. */
const FIREBASE_OTHER_KEY = /UnauthorizedRegistration|do(?:es)? not correspond to/i;

/** Whether it was taken: 201, or 202 where receipts are asked for (https://www.rfc-editor.org/rfc/rfc8030#section-5). */
export function assertAccepted(answer: VendorAnswer): void {
  if (answer.status !== 201 && answer.status !== 202) throw pushRefusal(answer);
  const dropped = windowsPushRefusal(answer);
  if (dropped) throw dropped;
}

/** For a support desk. The `location` of a message is left out: who has it can delete the message. */
export function messageId({ headers }: VendorAnswer): string | undefined {
  const id = headers["apns-id"] ?? headers["x-wns-msg-id"];
  return typeof id === "string" && /^[0-9A-Za-z-]{1,64}$/.test(id) ? id : undefined;
}

function pushRefusal(answer: VendorAnswer): RingError {
  const { code, kind, message } = meaning(answer);
  // A page with the status 200 comes from something between the mesh and the push service.
  const mayHaveRung = answer.status >= 200 && answer.status < 300;
  return new RingError(kind, message, { code, retryAfterMs: answer.retryAfterMs, mayHaveRung });
}

function meaning(answer: VendorAnswer): Meaning & { readonly code: string } {
  const { status, json, text } = answer;
  const reason = appleSchema.safeParse(json).data?.reason;
  const apple = reason !== undefined && Object.hasOwn(APPLE, reason) ? APPLE[reason] : undefined;
  if (reason !== undefined && apple) return { ...apple, code: reason };
  const errno = mozillaSchema.safeParse(json).data?.errno;
  const mozilla = errno === undefined ? undefined : MOZILLA[errno];
  const code = String(errno !== undefined && status >= 400 && errno > 0 && errno < 1000 ? errno : status);
  if (mozilla) return { ...mozilla, code };
  const isKeyRefused = status === 400 || status === 401 || status === 403;
  if (isKeyRefused && FIREBASE_OTHER_KEY.test(text)) return { ...OTHER_KEY, code };
  return { ...byStatus(answer), code };
}

function byStatus({ status, headers }: VendorAnswer): Meaning {
  const undocumented = `The push service answered with the status ${status}, and nothing that it documents.`;
  switch (status) {
    case 401:
    case 403:
      return REFUSED;
    case 410:
      // Edge's subscriptions are channels of Windows, which says with the same status that it shuts a sender out.
      return /blocked/i.test(String(headers["x-wns-error-description"])) ? BLOCKED : DEAD;
    case 404:
      return DEAD;
    case 413:
      return TOO_BIG;
    case 406: // Edge's
    case 429:
      return TOO_MANY;
    default:
  }
  if (status >= 500) return { kind: "transient", message: "The push service is overloaded or down." };
  if (status >= 300 && status < 400) {
    return { kind: "transient", message: "The push service sends the ring elsewhere, which is not followed." };
  }
  return { kind: status < 300 ? "transient" : "bad_request", message: undocumented };
}

const BLOCKED: Meaning = { kind: "bad_credential", message: "Windows has blocked this sender's domain." };
