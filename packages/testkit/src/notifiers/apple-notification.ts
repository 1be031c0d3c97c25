/** Judges the headers and the payload of a notification as Apple does. Pure. */
import type { IncomingHttpHeaders } from "node:http";
import * as z from "zod";

/** A notification that Apple would deliver. */
export interface AppleNotification {
  /** Custom keys of the payload, without `aps`. */
  readonly custom: Readonly<Record<string, unknown>>;
  readonly isShown: boolean;
  /** Seconds since the epoch; 0 for one try. */
  readonly expiresAtSeconds: number | undefined;
  readonly collapseId: string | undefined;
}

export type NotificationVerdict =
  | { readonly notification: AppleNotification }
  | { readonly status: number; readonly refusal: string };

const MAX_BYTES = 4096;
const MAX_COLLAPSE_BYTES = 64;
const PUSH_TYPES = new Set([
  "alert",
  "background",
  "location",
  "voip",
  "complication",
  "fileprovider",
  "mdm",
  "liveactivity",
  "pushtotalk",
  "widgets",
  "controls",
]);
const SINGLE = ["apns-id", "apns-expiration", "apns-priority", "apns-topic", "apns-collapse-id", "apns-push-type"];
const uuid = z.guid();
const payloadSchema = z.looseObject({
  aps: z.looseObject({
    alert: z.unknown().optional(),
    sound: z.unknown().optional(),
    badge: z.unknown().optional(),
    "content-available": z.literal(1).optional(),
  }),
});

/** https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns */
export function judgeNotification(headers: IncomingHttpHeaders, body: Uint8Array, json: unknown): NotificationVerdict {
  const field = (name: string): string | undefined => headers[name]?.toString();
  const refuse = (refusal: string, status = 400): NotificationVerdict => ({ status, refusal });

  if (SINGLE.some((name) => field(name)?.includes(","))) return refuse("DuplicateHeaders");
  const id = field("apns-id");
  if (id !== undefined && !uuid.safeParse(id).success) return refuse("BadMessageId");
  const expiration = field("apns-expiration");
  if (expiration !== undefined && !/^\d{1,10}$/.test(expiration)) return refuse("BadExpirationDate");
  const collapseId = field("apns-collapse-id");
  if (collapseId !== undefined && Buffer.byteLength(collapseId) > MAX_COLLAPSE_BYTES) return refuse("BadCollapseId");
  if (field("apns-topic") === undefined) return refuse("MissingTopic");
  const type = field("apns-push-type") ?? "alert";
  if (!PUSH_TYPES.has(type)) return refuse("InvalidPushType");
  const priority = field("apns-priority") ?? "10";
  if (!["1", "5", "10"].includes(priority)) return refuse("BadPriority");
  if (type === "background" && priority !== "5") return refuse("BadPriority");

  if (body.byteLength === 0) return refuse("PayloadEmpty");
  if (body.byteLength > MAX_BYTES) return refuse("PayloadTooLarge", 413);
  const payload = payloadSchema.safeParse(json);
  // Apple has no reason of its own for a payload that is no dictionary with `aps`.
  if (!payload.success) return refuse("PayloadEmpty");
  const { aps, ...custom } = payload.data;
  const isShown = aps.alert !== undefined || aps.sound !== undefined || aps.badge !== undefined;
  if (type === "background" && (isShown || aps["content-available"] !== 1)) return refuse("InvalidPushType");
  // An alert without a text reaches nobody's eyes.
  if (type === "alert" && aps.alert === undefined) return refuse("InvalidPushType");
  const expiresAtSeconds = expiration === undefined ? undefined : Number(expiration);
  return { notification: { custom, isShown, expiresAtSeconds, collapseId } };
}
