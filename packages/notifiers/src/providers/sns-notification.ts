/** A ring as the platforms behind SNS take it. Pure. */
import type { RingRequest } from "../contract.ts";
import { assertFits } from "../http/index.ts";

export type SnsPlatform = "GCM" | "APNS" | "APNS_SANDBOX" | "ADM";

/** Google and Apple take 4096 bytes with what SNS adds, and say so too late: SNS has taken the ring by then. */
export const MAX_BYTES = 3072;

/** What goes into the fields `Message` and `MessageAttributes` of a publish. */
export interface SnsNotification {
  readonly message: string;
  readonly attributes: Readonly<Record<string, string>>;
}

/** The category whose actions, Allow and Deny, an app for Apple's devices registers. */
const ASK_CATEGORY = "LEAF_ALLOW";
const UNNAMED = "A mesh";
const QUESTION = "Allow this connection?";
/** SNS wants one, and would send it where it does not like the platform's own. */
const OTHERWISE = "A device is asked for.";

/**
 * The notification for one ring. Throws `RingError` (`too_big`) for one that the platform would not take.
 * https://docs.aws.amazon.com/sns/latest/dg/sns-send-custom-platform-specific-payloads-mobile-devices.html
 */
export function snsNotification(platform: SnsPlatform, request: RingRequest, nowMs: number): SnsNotification {
  const payload = JSON.stringify(payloadOf(platform, request, nowMs));
  assertFits(payload, MAX_BYTES);
  // A text, since SNS leaves out a value that is an object.
  const message = JSON.stringify({ default: OTHERWISE, [platform]: payload });
  return { message, attributes: attributesOf(platform, request) };
}

function payloadOf(platform: SnsPlatform, request: RingRequest, nowMs: number): object {
  const { body, ttlMs, collapseKey } = request;
  // Data alone: a notification of Google's or Amazon's has no buttons, so the app shows its own.
  const data = { leafmesh: body, ...(request.approval === "ask" ? questionOf(request) : {}) };
  switch (platform) {
    case "GCM":
      return { fcmV1Message: { message: { data, ...firebaseParts(request, nowMs) } } };
    case "ADM":
      return { data, consolidationKey: collapseKey, expiresAfter: secondsOf(ttlMs) };
    case "APNS":
    case "APNS_SANDBOX":
      return { aps: applePayload(request), leafmesh: body };
  }
}

/** Firebase reaches Apple's devices and browsers as well, each with its own of these. */
function firebaseParts(request: RingRequest, nowMs: number) {
  const { ttlMs, collapseKey } = request;
  const ttl = secondsOf(ttlMs);
  const { type, priority } = appleKind(request);
  return {
    android: { priority: "high", ttl: `${ttl}s`, collapse_key: collapseKey },
    apns: {
      headers: {
        "apns-push-type": type,
        "apns-priority": priority,
        "apns-expiration": String(Math.ceil((nowMs + ttlMs) / 1000)),
        "apns-collapse-id": collapseKey,
      },
      payload: { aps: applePayload(request) },
    },
    webpush: { headers: { TTL: String(ttl), Urgency: "high", Topic: collapseKey } },
  };
}

/** Apple takes a background notification with the lower priority alone. */
function appleKind({ approval }: RingRequest) {
  return approval === "ask" ? { type: "alert", priority: "10" } : { type: "background", priority: "5" };
}

function applePayload(request: RingRequest): object {
  if (request.approval !== "ask") return { "content-available": 1 };
  return {
    alert: questionOf(request),
    category: ASK_CATEGORY,
    sound: "default",
    "interruption-level": "time-sensitive",
    "mutable-content": 1,
  };
}

function questionOf({ ring }: RingRequest) {
  return { title: ring.mesh ?? UNNAMED, body: QUESTION };
}

/** https://docs.aws.amazon.com/sns/latest/dg/sns-ttl.html counts from the publish, and drops what has no time left. */
function attributesOf(platform: SnsPlatform, request: RingRequest): SnsNotification["attributes"] {
  const name = platform === "GCM" ? "FCM" : platform;
  const ttl = { [`AWS.SNS.MOBILE.${name}.TTL`]: String(secondsOf(request.ttlMs)) };
  if (platform === "GCM" || platform === "ADM") return ttl;
  const { type, priority } = appleKind(request);
  return {
    ...ttl,
    "AWS.SNS.MOBILE.APNS.PUSH_TYPE": type,
    "AWS.SNS.MOBILE.APNS.PRIORITY": priority,
    "AWS.SNS.MOBILE.APNS.COLLAPSE_ID": request.collapseKey,
  };
}

function secondsOf(ttlMs: number): number {
  return Math.max(1, Math.ceil(ttlMs / 1000));
}
