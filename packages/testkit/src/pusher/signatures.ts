/** What Pusher verifies. https://pusher.com/docs/channels/library_auth_reference/auth-signatures/ */
import { createHash, createHmac, timingSafeEqual } from "node:crypto";

export interface PusherApp {
  readonly appId: string;
  readonly key: string;
  readonly secret: string;
}

const CLOCK_LEEWAY_SECONDS = 600;

/** Of `socket_id:channel[:channel_data]`. */
export function isVouched({ key, secret }: PusherApp, text: string, auth: unknown): boolean {
  return typeof auth === "string" && same(auth, `${key}:${hmac(secret, text)}`);
}

/** Why the request is refused; `undefined` when it is signed as it should. */
export function requestFault(
  { key, secret }: PusherApp,
  request: { readonly method: string; readonly path: string; readonly query: URLSearchParams; readonly body: string },
): string | undefined {
  const { method, path, query, body } = request;
  const timestamp = Number(query.get("auth_timestamp"));
  if (query.get("auth_key") !== key) return "Unknown auth_key";
  if (query.get("auth_version") !== "1.0") return "Invalid auth_version";
  if (!(Math.abs(Date.now() / 1000 - timestamp) < CLOCK_LEEWAY_SECONDS)) return "Timestamp expired";
  const md5 = createHash("md5").update(body).digest("hex");
  if (body !== "" && query.get("body_md5") !== md5) return "Invalid body_md5";
  const signed = [...query]
    .filter(([name]) => name !== "auth_signature")
    .map(([name, value]) => `${name.toLowerCase()}=${value}`)
    .sort()
    .join("&");
  const isSigned = same(query.get("auth_signature") ?? "", hmac(secret, `${method}\n${path}\n${signed}`));
  return isSigned ? undefined : "Invalid signature: you should have sent HmacSHA256Hex of another text";
}

function hmac(secret: string, text: string): string {
  return createHmac("sha256", secret).update(text).digest("hex");
}

function same(left: string, right: string): boolean {
  const [one, other] = [Buffer.from(left), Buffer.from(right)];
  return one.length === other.length && timingSafeEqual(one, other);
}
