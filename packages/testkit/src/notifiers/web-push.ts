/**
 * Plays the push services of browsers, and the browsers behind them: it verifies who sends, refuses what any of the real
 * ones refuses of a header, and a browser decrypts what was taken. Its refusals are Mozilla's, and Firebase's for a
 * subscription of another key.
 */
import { randomUUID } from "node:crypto";
import type { Clock } from "@leafmesh/protocol";
import type { NotifierDouble, ReceivedRing } from "../suites/notifier/under-test.ts";
import type { PlayedBrowser } from "./played-browser.ts";
import type { VendorReply } from "./replies.ts";
import { judgeVapid } from "./vapid-signature.ts";
import { startVendorServer, type VendorRequest } from "./vendor-server.ts";

const MAX_BODY_BYTES = 4096;
const MAX_TTL_SECONDS = 30 * 24 * 60 * 60;

export async function startWebPush(clock: Clock, browsers: readonly PlayedBrowser[]): Promise<NotifierDouble> {
  const rings: ReceivedRing[] = [];

  const handle = ({ method, host, target, headers, body }: VendorRequest): VendorReply => {
    const origin = `https://${host}`;
    const browser = browsers.find(({ endpoint }) => endpoint === origin + target);
    if (method !== "POST") return { status: 405 };
    if (!browser) return webPushRefusal(404, 102, "Request did not validate: invalid token");

    const header = (name: string): string | undefined => headers[name]?.toString();
    const ttl = header("ttl");
    if (ttl === undefined) return webPushRefusal(400, 111, "Missing TTL value");
    const ttlSeconds = /^\d{1,9}$/.test(ttl) ? Number(ttl) : -1;
    // 0 is for those who are there at once; Edge's service refuses it.
    const least = host.endsWith("notify.windows.com") ? 1 : 0;
    if (ttlSeconds < least || ttlSeconds > MAX_TTL_SECONDS) return webPushRefusal(400, 112, "Invalid TTL value");
    if (!/^(?:very-low|low|normal|high)$/.test(header("urgency") ?? "normal"))
      return webPushRefusal(400, 111, "Urgency");
    const topic = header("topic");
    // Apple's decodes it.
    const isTopic = topic === undefined || (/^[A-Za-z0-9_-]{1,32}$/.test(topic) && topic.length % 4 !== 1);
    if (!isTopic) return webPushRefusal(400, 113, "Topic must be URL and Filename safe Base64 alphabet");

    const verdict = judgeVapid({ authorization: header("authorization"), origin, nowMs: clock.nowMs() });
    if ("refusal" in verdict) return webPushRefusal(401, 109, verdict.refusal);
    if (verdict.publicKey !== browser.applicationServerKey) return otherKey();
    if (browser.isGone) return webPushRefusal(410, 106, "Invalid subscription");

    if (header("content-encoding") !== "aes128gcm") return webPushRefusal(400, 110, "Unknown Content-Encoding");
    if (body.byteLength > MAX_BODY_BYTES) return webPushRefusal(413, 104, "Data payload too large");
    rings.push({
      body: browser.read(body),
      to: browser.subscription,
      // That is the worker's work.
      isShown: false,
      ttlSeconds,
      collapseKey: topic,
    });
    return { status: 201, headers: { location: `${origin}/m/${randomUUID()}` }, body: "" };
  };

  const hosts = [...new Set(browsers.map(({ endpoint }) => new URL(endpoint).host))];
  const server = await startVendorServer({ hosts, handle });
  return { server, rings, purposeOf: () => "ring", close: () => server.close() };
}

/** As Mozilla's push service refuses, https://mozilla-services.github.io/autopush-rs/errors.html */
export function webPushRefusal(status: number, errno: number, message: string): VendorReply {
  const more_info = "http://autopush.readthedocs.io/en/latest/http.html#error-codes";
  return { status, body: { code: status, errno, error: "", message, more_info } };
}

function otherKey(): VendorReply {
  const said =
    "the VAPID credentials in the authorization header do not correspond to the credentials used to create the subscriptions.\n";
  return { status: 403, headers: { "content-type": "text/plain" }, body: said };
}
