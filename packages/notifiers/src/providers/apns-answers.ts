/** What Apple's answers mean. Pure. */
import * as z from "zod";
import { RingError, type RingErrorKind } from "../contract.ts";
import type { VendorAnswer } from "../http/index.ts";

const errorSchema = z.object({ reason: z.string(), timestamp: z.number().optional() });
/** Apple answers with the id that it gave to the notification, and without a body. */
const idSchema = z.guid();

interface Meaning {
  readonly kind: RingErrorKind;
  readonly message: string;
}

const ours = (what: string): Meaning => ({
  kind: "bad_request",
  message: `Apple does not understand the notification: ${what}. This is a fault of LeafMesh's.`,
});
const refusedKey = (message: string): Meaning => ({ kind: "bad_credential", message });
const dead = (message: string): Meaning => ({ kind: "dead_token", message });
const passing = (message: string): Meaning => ({ kind: "transient", message });

/** By Apple's reason, https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns */
const MEANINGS: Readonly<Record<string, Meaning>> = {
  BadDeviceToken: dead(
    "Apple does not know the push token in this environment: it belongs to no device, or `sandbox` is wrong for the " +
      "build of the app that sent it.",
  ),
  DeviceTokenNotForTopic: dead("The push token belongs to another app than the one that `bundle_id` names."),
  Unregistered: dead("The app was removed from the device, or its push token replaced."),
  ExpiredToken: dead("The push token has expired: the app has to register again."),
  InvalidProviderToken: refusedKey(
    "Apple refuses the key: `signing_key`, `key_id` and `team_id` do not belong together.",
  ),
  MissingProviderToken: refusedKey("Apple found no provider token in the request."),
  ExpiredProviderToken: refusedKey("Apple says that the provider token has expired: set this machine's clock."),
  UnrelatedKeyIdInToken: refusedKey("Apple refuses the key: `key_id` is not a key that may send for this team's app."),
  BadEnvironmentKeyIdInToken: refusedKey(
    "The key is not for this environment: make one for it in Apple's console, or change `sandbox`.",
  ),
  BadCertificate: refusedKey("Apple refuses the credential: make a new key for push notifications."),
  BadCertificateEnvironment: refusedKey("The credential is for the other environment: change `sandbox`."),
  Forbidden: refusedKey("Apple does not let this key send: look at its rights in Apple's console."),
  BadTopic: refusedKey("Apple does not know the app that `bundle_id` names."),
  TopicDisallowed: refusedKey("The key may not send to the app that `bundle_id` names: look at the key's topics."),
  TooManyProviderTokenUpdates: {
    kind: "quota",
    message: "Provider tokens of this key change more often than every 20 minutes: too many processes use the key.",
  },
  TooManyRequests: { kind: "quota", message: "Too many notifications were sent to this device in a row." },
  PayloadTooLarge: { kind: "too_big", message: "The notification is larger than the 4096 bytes that Apple takes." },
  IdleTimeout: passing("Apple closed a connection that had not been used."),
  InternalServerError: passing("Apple's push service had an internal error."),
  ServiceUnavailable: passing("Apple's push service is overloaded."),
  Shutdown: passing("Apple's push server is shutting down."),
  BadCollapseId: ours("the collapse id is too long"),
  BadExpirationDate: ours("the expiration is no number"),
  BadMessageId: ours("the id is no UUID"),
  BadPath: ours("the path is wrong"),
  BadPriority: ours("the priority is wrong"),
  DuplicateHeaders: ours("a header came twice"),
  InvalidPushType: ours("the push type is wrong"),
  MethodNotAllowed: ours("the method is not POST"),
  MissingDeviceToken: ours("it names no device"),
  MissingTopic: ours("it names no app"),
  PayloadEmpty: ours("it has no payload"),
};

/** What the same answers most likely mean before Apple ever took a notification of the record. */
const FIRST_MEANINGS: Readonly<Record<string, Meaning>> = {
  BadDeviceToken: refusedKey(
    "Apple does not know the push token in this environment: most likely `sandbox` is wrong for the build of the app " +
      "that sent it, or else it belongs to no device.",
  ),
  DeviceTokenNotForTopic: refusedKey("The push token belongs to another app: most likely `bundle_id` is wrong."),
};

/** Apple's id of a notification that it took; `undefined` for every other answer. */
export function acceptedId({ status, headers }: VendorAnswer): string | undefined {
  return status === 200 ? idSchema.safeParse(headers["apns-id"]).data : undefined;
}

/**
 * Why a ring was not taken; answers that nobody documents go by their status. `hasRung`: whether Apple ever took a ring of
 * this record. Before that, a token of the other environment or of another app says most likely that the record is wrong,
 * and no device must be forgotten for it.
 */
export function ringError(answer: VendorAnswer, hasRung: boolean): RingError {
  const { data } = errorSchema.safeParse(answer.json);
  const meanings = hasRung ? MEANINGS : { ...MEANINGS, ...FIRST_MEANINGS };
  const known = data && Object.hasOwn(meanings, data.reason) ? meanings[data.reason] : undefined;
  if (!data || !known) return undocumented(answer);
  const { kind, message } = known;
  const since = kind === "dead_token" ? sinceWhen(data.timestamp) : "";
  return new RingError(kind, message + since, { code: data.reason, retryAfterMs: answer.retryAfterMs });
}

/** Apple tells with a 410 when it last found the token dead; one that the app registered after that is alive. */
function sinceWhen(timestampMs: number | undefined): string {
  const date = new Date(timestampMs ?? Number.NaN);
  return Number.isNaN(date.getTime()) ? "" : ` Apple knows it since ${date.toISOString()}.`;
}

function undocumented({ status, retryAfterMs }: VendorAnswer): RingError {
  const message = `Apple's push service answered with the status ${status}, and nothing that it documents.`;
  const more = { code: String(status), retryAfterMs };
  if (status === 401 || status === 403) return new RingError("bad_credential", message, more);
  if (status === 413) return new RingError("too_big", message, more);
  if (status === 429) return new RingError("quota", message, more);
  // A page with the status 200 comes from something between the mesh and Apple.
  if (status >= 500) return new RingError("transient", message, more);
  if (status < 400) return new RingError("transient", message, { ...more, mayHaveRung: true });
  return new RingError("bad_request", message, more);
}
