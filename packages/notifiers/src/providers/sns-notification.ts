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
export function snsNotification(platform: SnsPlatform, request: RingRequest): SnsNotification {
  const payload = JSON.stringify(payloadOf(platform, request));
  assertFits(payload, MAX_BYTES);
  // A text, since SNS leaves out a value that is an object.
  return { message: JSON.stringify({ default: OTHERWISE, [platform]: payload }), attributes: of(platform, request) };
}

function payloadOf(platform: SnsPlatform, request: RingRequest): object {
  const { body, ring, approval, ttlMs, collapseKey } = request;
  const question = { title: ring.mesh ?? UNNAMED, body: QUESTION };
  // Data alone: a notification of Google's or Amazon's has no buttons, so the app shows its own.
  const data = { leafmesh: body, ...(approval === "ask" ? question : {}) };
  switch (platform) {
    case "GCM": {
      const android = { priority: "high", ttl: `${secondsOf(ttlMs)}s`, collapse_key: collapseKey };
      return { fcmV1Message: { message: { data, android } } };
    }
    case "ADM":
      return { data, consolidationKey: collapseKey, expiresAfter: secondsOf(ttlMs) };
    case "APNS":
    case "APNS_SANDBOX": {
      const shown = {
        alert: question,
        category: ASK_CATEGORY,
        sound: "default",
        "interruption-level": "time-sensitive",
        "mutable-content": 1,
      };
      return { aps: approval === "ask" ? shown : { "content-available": 1 }, leafmesh: body };
    }
  }
}

/** https://docs.aws.amazon.com/sns/latest/dg/sns-ttl.html counts from the publish, and drops what has no time left. */
function of(platform: SnsPlatform, { approval, ttlMs, collapseKey }: RingRequest): SnsNotification["attributes"] {
  const name = platform === "GCM" ? "FCM" : platform;
  const ttl = { [`AWS.SNS.MOBILE.${name}.TTL`]: String(secondsOf(ttlMs)) };
  if (platform === "GCM" || platform === "ADM") return ttl;
  const asks = approval === "ask";
  return {
    ...ttl,
    "AWS.SNS.MOBILE.APNS.PUSH_TYPE": asks ? "alert" : "background",
    "AWS.SNS.MOBILE.APNS.PRIORITY": asks ? "10" : "5",
    "AWS.SNS.MOBILE.APNS.COLLAPSE_ID": collapseKey,
  };
}

function secondsOf(ttlMs: number): number {
  return Math.max(1, Math.ceil(ttlMs / 1000));
}
