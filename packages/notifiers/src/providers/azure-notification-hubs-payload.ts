/** A ring as the formats of notification hubs carry it. Pure. */
import type { RingRequest } from "../contract.ts";

export type PayloadFormat = "fcmv1" | "apple" | "template";

/** What the request says beside its body, and where it is sent. */
export interface Payload {
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Straight to the handle of Firebase or Apple; else to whoever is registered under the tag. */
  readonly isDirect: boolean;
}

/** Push tokens of each format. Each goes into a header, and the last into a tag expression, where `||` would reach others. */
export const TOKEN_SHAPES: Readonly<Record<PayloadFormat, { readonly shape: RegExp; readonly what: string }>> = {
  fcmv1: { shape: /^[A-Za-z0-9_:-]{20,4096}$/, what: "a registration token of Firebase" },
  apple: { shape: /^(?:[0-9A-Fa-f]{2}){32,100}$/, what: "a device token of Apple, in hexadecimal digits" },
  template: { shape: /^[A-Za-z0-9_@#.:-]{1,120}$/, what: "the id of an installation" },
};

/** The category whose actions, Allow and Deny, an app for Apple's devices registers. */
const ASK_CATEGORY = "LEAF_ALLOW";
const UNNAMED = "A mesh";
const QUESTION = "Allow this connection?";

/** The notification for one ring. `to` must have the shape of the format. */
export function payloadOf(format: PayloadFormat, request: RingRequest, to: string, nowMs: number): Payload {
  switch (format) {
    case "fcmv1":
      return { ...firebasePayload(request), isDirect: true, headers: direct(format, to) };
    case "apple": {
      const { body, headers } = applePayload(request, nowMs);
      return { body, isDirect: true, headers: { ...direct(format, to), ...headers } };
    }
    case "template":
      return { ...templatePayload(request, nowMs), isDirect: false, headers: tagged(`$InstallationId:{${to}}`) };
  }
}

/** A notification to a tag that no device has: the hub takes it, and sends it to nobody. */
export function probePayload(tag: string): Payload {
  return { body: JSON.stringify({ probe: "1" }), isDirect: false, headers: tagged(tag) };
}

function direct(format: PayloadFormat, handle: string): Record<string, string> {
  return { "servicebusnotification-format": format, "servicebusnotification-devicehandle": handle };
}

/** Without this header the hub would send to every device that it knows: it has this one place. */
function tagged(tag: string): Record<string, string> {
  return { "servicebusnotification-format": "template", "servicebusnotification-tags": tag };
}

/**
 * Data alone, since a notification of Firebase has no buttons: the app shows its own, with Allow and Deny.
 * https://learn.microsoft.com/azure/notification-hubs/firebase-migration-rest
 */
function firebasePayload({ body, ring, approval, ttlMs, collapseKey }: RingRequest): { readonly body: string } {
  const data = { leafmesh: body, ...(approval === "ask" ? question(ring.mesh) : {}) };
  const android = { priority: "high", ttl: `${secondsOf(ttlMs)}s`, collapse_key: collapseKey };
  return { body: JSON.stringify({ message: { data, android } }) };
}

/** https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns */
function applePayload({ body, ring, approval, ttlMs, collapseKey }: RingRequest, nowMs: number) {
  const asks = approval === "ask";
  const shown = {
    alert: question(ring.mesh),
    category: ASK_CATEGORY,
    sound: "default",
    "interruption-level": "time-sensitive",
    "mutable-content": 1,
  };
  return {
    body: JSON.stringify({ aps: asks ? shown : { "content-available": 1 }, leafmesh: body }),
    headers: {
      "apns-push-type": asks ? "alert" : "background",
      "apns-priority": asks ? "10" : "5",
      "apns-expiration": String(expiresAt(nowMs, ttlMs)),
      "apns-collapse-id": collapseKey,
    },
  };
}

/**
 * Properties, all of them text, that the templates of the device's installation put where they want them.
 * https://learn.microsoft.com/azure/notification-hubs/notification-hubs-templates-cross-platform-push-messages
 */
function templatePayload(request: RingRequest, nowMs: number): { readonly body: string } {
  const { body, ring, approval, ttlMs, collapseKey } = request;
  const shown = approval === "ask" ? question(ring.mesh) : {};
  const times = { ttl: `${secondsOf(ttlMs)}s`, expires: String(expiresAt(nowMs, ttlMs)) };
  return { body: JSON.stringify({ leafmesh: body, approval, ...shown, ...times, collapse_key: collapseKey }) };
}

function question(mesh = UNNAMED): { readonly title: string; readonly body: string } {
  return { title: mesh, body: QUESTION };
}

function secondsOf(ttlMs: number): number {
  return Math.max(1, Math.ceil(ttlMs / 1000));
}

function expiresAt(nowMs: number, ttlMs: number): number {
  return Math.ceil((nowMs + Math.max(ttlMs, 1)) / 1000);
}
