/** The subscription of a browser, which an app sends as its push token. Pure. */
import { ECDH } from "node:crypto";
import { judgeListedUrl } from "@leafmesh/guarded-fetch";
import * as z from "zod";

/**
 * Where the push services of browsers are: Chrome and most of its family, Firefox, Safari, Edge. A subscription is what
 * a device says, so a ring goes to no other host, whatever it says.
 */
export const PUSH_SERVICE_HOSTS: readonly string[] = [
  "fcm.googleapis.com",
  "jmt17.google.com",
  "updates.push.services.mozilla.com",
  "web.push.apple.com",
  "notify.windows.com",
];

export interface Subscription {
  readonly endpoint: string;
  /** Of the push service: what a signature is made for. */
  readonly origin: string;
  /** The browser's key, a point of P-256 in 65 bytes. */
  readonly publicKey: Uint8Array;
  /** 16 bytes that the browser shares with those who may send to it. */
  readonly authSecret: Uint8Array;
}

const MAX_LENGTH = 4096;
const PUBLIC_KEY_BYTES = 65;
const AUTH_SECRET_BYTES = 16;

/** What `JSON.stringify` makes of a browser's `PushSubscription`; what else is in it does not matter. */
const subscriptionSchema = z.object({
  endpoint: z.string(),
  keys: z.object({ p256dh: z.string(), auth: z.string() }),
});

/** The shape of a push token. Its sentences repeat nothing of it. */
export const subscriptionText = z.string().superRefine((text, { addIssue }) => {
  const read = readSubscription(text);
  if ("issue" in read) addIssue({ code: "custom", message: read.issue });
});

/** What is in a push token, or what is wrong with it. */
export function readSubscription(text: string): { readonly subscription: Subscription } | { readonly issue: string } {
  if (text.length > MAX_LENGTH) return { issue: `must have at most ${MAX_LENGTH} characters` };
  const { data } = subscriptionSchema.safeParse(parsed(text));
  if (!data) return { issue: "must be a PushSubscription as JSON, with endpoint, keys.p256dh and keys.auth" };
  const { endpoint, keys } = data;
  if (judgeListedUrl(endpoint, PUSH_SERVICE_HOSTS)) {
    return { issue: "must have an https endpoint of the push service of Chrome, Firefox, Safari or Edge" };
  }
  const publicKey = decoded(keys.p256dh, PUBLIC_KEY_BYTES);
  if (!publicKey || !isPoint(publicKey)) return { issue: "must have a public key of P-256 in keys.p256dh" };
  const authSecret = decoded(keys.auth, AUTH_SECRET_BYTES);
  if (!authSecret) return { issue: "must have a secret of 16 bytes in keys.auth" };
  return { subscription: { endpoint, origin: new URL(endpoint).origin, publicKey, authSecret } };
}

function decoded(text: string, length: number): Uint8Array | undefined {
  if (!/^[A-Za-z0-9_-]+={0,2}$/.test(text)) return undefined;
  const bytes = Buffer.from(text, "base64url");
  return bytes.byteLength === length ? bytes : undefined;
}

/** A point that is not on the curve would give parts of a key away. */
function isPoint(bytes: Uint8Array): boolean {
  if (bytes[0] !== 0x04) return false;
  try {
    ECDH.convertKey(bytes, "prime256v1");
    return true;
  } catch {
    return false;
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
