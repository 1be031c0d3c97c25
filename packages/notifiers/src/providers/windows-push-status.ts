/**
 * What Windows says of a notification in headers beside a status of success, to apps and to Edge alike. Pure.
 *
 * https://learn.microsoft.com/windows/apps/develop/notifications/push-notifications/push-request-response-headers
 */
import { RingError } from "../contract.ts";
import type { VendorAnswer } from "../http/index.ts";

/** In lower case; pages of Microsoft's have either header. `undefined` when there is none. */
export function windowsPushStatus({ headers }: Pick<VendorAnswer, "headers">): string | undefined {
  const status = headers["x-wns-status"] ?? headers["x-wns-notificationstatus"];
  return typeof status === "string" ? status.trim().toLowerCase() : undefined;
}

/** Why an answer of success is none: `undefined` for `received`, and when nothing is said. */
export function windowsPushRefusal(answer: VendorAnswer): RingError | undefined {
  const status = windowsPushStatus(answer);
  if (status === undefined || status === "received") return undefined;
  if (status === "channelthrottled") {
    const message = "Windows throttles this device's channel: it got too many notifications.";
    return new RingError("quota", message, { code: status, retryAfterMs: answer.retryAfterMs });
  }
  if (status !== "dropped") {
    return new RingError("transient", "Windows says of the notification what it does not document.", { code: "200" });
  }
  const connection = answer.headers["x-wns-deviceconnectionstatus"];
  if (typeof connection === "string" && connection.toLowerCase() !== "connected") {
    return new RingError("offline", "Windows dropped the notification: the device is not connected.", { code: status });
  }
  const message =
    "Windows dropped the notification: the device is off, notifications of the app are switched off, or it cannot be woken.";
  return new RingError("transient", message, { code: status });
}
