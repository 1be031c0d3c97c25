/** What Azure checks of a shared access signature. Pure, and written apart from what signs. */
import { createHmac, timingSafeEqual } from "node:crypto";

export interface SignatureToJudge {
  /** The `authorization` header. */
  readonly header: string | undefined;
  /** What is asked for: host and path, without a scheme. */
  readonly target: string;
  /** The HMAC keys of the policies by their names: IoT Hub decodes a key, Notification Hubs takes its text. */
  readonly keys: ReadonlyMap<string, Uint8Array>;
  readonly nowMs: number;
}

export type SignatureVerdict =
  | { readonly policy: string }
  | { readonly flaw: "missing" | "malformed" | "expired" | "unknown_policy" | "signature" | "audience" };

/** Azure signs for hours; what is good for much longer is a mistake of units. */
const LONGEST_SECONDS = 7 * 86_400;

export function judgeSignature({ header, target, keys, nowMs }: SignatureToJudge): SignatureVerdict {
  if (!header) return { flaw: "missing" };
  const [scheme, fields = "", ...more] = header.split(" ");
  if (scheme !== "SharedAccessSignature" || more.length > 0) return { flaw: "malformed" };
  // Not URLSearchParams: a `+` in a base64 text that nobody encoded must fail, as it does at Azure.
  const found = new Map(fields.split("&").map((field) => splitOnce(field)));
  const [resource, signature, end, policy] = ["sr", "sig", "se", "skn"].map((name) => found.get(name));
  if (found.size !== 4 || !resource || !signature || !end || !policy) return { flaw: "malformed" };
  const seconds = Number(end) - nowMs / 1000;
  if (!/^\d{1,12}$/.test(end) || seconds > LONGEST_SECONDS) return { flaw: "malformed" };
  if (seconds <= 0) return { flaw: "expired" };
  const key = keys.get(decodeURIComponent(policy));
  if (!key) return { flaw: "unknown_policy" };
  const wanted = createHmac("sha256", key).update(`${resource}\n${end}`).digest();
  const given = Buffer.from(decodeURIComponent(signature), "base64");
  if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) return { flaw: "signature" };
  return covers(decodeURIComponent(resource), target) ? { policy: decodeURIComponent(policy) } : { flaw: "audience" };
}

/** Whether a resource is the target or above it, by whole segments, in any case and with or without a scheme. */
function covers(resource: string, target: string): boolean {
  const above = resource
    .toLowerCase()
    .replace(/^[a-z]+:\/\//, "")
    .replace(/\/+$/, "");
  const below = target.toLowerCase();
  return below === above || below.startsWith(`${above}/`);
}

function splitOnce(field: string): [string, string] {
  const at = field.indexOf("=");
  return at < 0 ? [field, ""] : [field.slice(0, at), field.slice(at + 1)];
}
