/** What Windows gets: a toast that asks, or bytes for the app alone. Pure. */
import type { RingRequest } from "../contract.ts";

export interface WindowsNotification {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** https://learn.microsoft.com/windows/apps/develop/notifications/push-notifications/push-request-response-headers */
export function toNotification(request: RingRequest): WindowsNotification {
  const isShown = request.approval === "ask";
  return {
    headers: {
      ...(isShown ? toast : raw),
      "x-wns-priority": "1",
      "x-wns-ttl": String(Math.max(1, Math.ceil(request.ttlMs / 1000))),
      "x-wns-requestforstatus": "true",
    },
    body: isShown ? toastXml(request) : request.body,
  };
}

const toast = { "x-wns-type": "wns/toast", "content-type": "text/xml" };
/** Bytes for the app are dropped while the device is offline, unless it is asked to keep them. */
const raw = {
  "x-wns-type": "wns/raw",
  "content-type": "application/octet-stream",
  "x-wns-cache-policy": "cache",
};

const UNNAMED = "A mesh";
const QUESTION = "Allow this connection?";

/** An app is told what was chosen and nothing else, so each choice carries the ring: `ask`, `allow` or `deny` before it. */
function toastXml({ ring, body }: RingRequest): string {
  const chosen = (word: string): string => `'${escaped(`${word} ${body}`)}'`;
  return [
    `<toast launch=${chosen("ask")} scenario='reminder'><visual><binding template='ToastGeneric'>`,
    `<text>${escaped(ring.mesh ?? UNNAMED)}</text><text>${QUESTION}</text></binding></visual>`,
    `<actions><action content='Allow' arguments=${chosen("allow")}/>`,
    `<action content='Deny' arguments=${chosen("deny")}/></actions></toast>`,
  ].join("");
}

const ESCAPES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", "'": "&apos;" };

/** For text, and for attributes in single quotes: a ring has many double ones. What XML cannot say becomes a space. */
function escaped(text: string): string {
  return text
    .toWellFormed()
    .replace(/[\p{Cc}\ufffe\uffff]/gu, " ")
    .replace(/[&<>']/g, (character) => ESCAPES[character] ?? "");
}
