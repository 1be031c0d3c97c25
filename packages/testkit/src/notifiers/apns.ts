/**
 * Plays Apple's push service, in production and in the sandbox: HTTP/2 alone, one request at once until a good provider
 * token has come, and everything that Apple checks of a token, a header and a payload.
 */
import { randomUUID } from "node:crypto";
import type { Clock } from "@leafmesh/protocol";
import type { NotifierDouble, ReceivedRing } from "../suites/notifier/under-test.ts";
import { judgeNotification } from "./apple-notification.ts";
import { type AppleEnvironment, type AppleKey, judgeProviderToken } from "./apple-provider-token.ts";
import type { VendorReply } from "./replies.ts";
import { startVendorServer, type VendorRequest } from "./vendor-server.ts";

export type { AppleEnvironment, AppleKey } from "./apple-provider-token.ts";

export interface PlayedApple {
  readonly keys: readonly AppleKey[];
  /** Bundle IDs that exist. */
  readonly topics: readonly string[];
  /** Devices: where their app comes from, which it is, and since when it is gone. Others have a bad token. */
  readonly devices: Readonly<Record<string, PlayedAppleDevice>>;
}

export interface PlayedAppleDevice {
  readonly environment: AppleEnvironment;
  readonly topic: string;
  readonly goneSinceMs?: number | undefined;
}

export interface ApnsDouble extends NotifierDouble {
  /** Different provider tokens that came. */
  readonly providerTokens: ReadonlySet<string>;
}

const ENVIRONMENTS: Readonly<Record<string, AppleEnvironment>> = {
  "api.push.apple.com": "production",
  "api.sandbox.push.apple.com": "sandbox",
};
const NO_DEVICE = `/3/device/${"0".repeat(64)}`;
const AT_ONCE_AFTER_A_TOKEN = 1000;
const TOKEN_MIN_AGE_MS = 20 * 60_000;

/** What Apple knows of one connection. */
interface Connection {
  teamId: string;
  providerToken: string;
  takenAtMs: number;
}

export async function startApns(clock: Clock, { keys, topics, devices }: PlayedApple): Promise<ApnsDouble> {
  const rings: ReceivedRing[] = [];
  const providerTokens = new Set<string>();
  const connections = new Map<number, Connection>();

  /** The key that signed the request, or Apple's refusal. */
  const judgeSender = (request: VendorRequest, environment: AppleEnvironment): AppleKey | VendorReply => {
    const { authorization = "" } = request.headers;
    const verdict = judgeProviderToken(request.headers.authorization, keys, environment, clock.nowMs());
    if (authorization) providerTokens.add(authorization);
    if ("refusal" in verdict) return refusal(403, verdict.refusal);
    const { teamId } = verdict.key;
    const before = connections.get(request.connection);
    if (!before) server.allowAtOnce(request.connection, AT_ONCE_AFTER_A_TOKEN);
    // A connection belongs to the team that used it first.
    else if (before.teamId !== teamId) return refusal(403, "InvalidProviderToken");
    else if (before.providerToken !== authorization && clock.nowMs() - before.takenAtMs < TOKEN_MIN_AGE_MS) {
      return refusal(429, "TooManyProviderTokenUpdates");
    }
    if (before?.providerToken !== authorization) {
      connections.set(request.connection, { teamId, providerToken: authorization, takenAtMs: clock.nowMs() });
    }
    return verdict.key;
  };

  const handle = (request: VendorRequest): VendorReply => {
    const { headers, body, json, path, method, host, httpVersion } = request;
    const environment = ENVIRONMENTS[host];
    if (httpVersion !== "2.0" || !environment) return { status: 505 };
    const [, to] = /^\/3\/device\/([^/]*)$/.exec(path) ?? [];
    if (to === undefined) return refusal(404, "BadPath");
    if (method !== "POST") return refusal(405, "MethodNotAllowed");
    const sender = judgeSender(request, environment);
    if ("status" in sender) return sender;

    const verdict = judgeNotification(headers, body, json);
    if ("refusal" in verdict) return refusal(verdict.status, verdict.refusal);
    const topic = String(headers["apns-topic"]);
    if (!topics.includes(topic)) return refusal(400, "BadTopic");
    if (sender.topics?.includes(topic) === false) return refusal(400, "TopicDisallowed");

    if (to === "") return refusal(400, "MissingDeviceToken");
    const device = Object.hasOwn(devices, to) ? devices[to] : undefined;
    if (device?.environment !== environment) return refusal(400, "BadDeviceToken");
    if (device.topic !== topic) return refusal(400, "DeviceTokenNotForTopic");
    const { goneSinceMs: timestamp } = device;
    if (timestamp !== undefined) return { status: 410, body: { reason: "Unregistered", timestamp } };

    const { custom, isShown, expiresAtSeconds, collapseId } = verdict.notification;
    rings.push({
      body: String(custom.leafmesh),
      to,
      isShown,
      ttlSeconds: expiresAtSeconds === undefined ? undefined : expiresAtSeconds - Math.floor(clock.nowMs() / 1000),
      collapseKey: collapseId,
    });
    return { status: 200, headers: { "apns-id": String(headers["apns-id"] ?? randomUUID()).toUpperCase() } };
  };

  const server = await startVendorServer({ hosts: Object.keys(ENVIRONMENTS), handle, atOnce: 1 });
  return {
    server,
    rings,
    providerTokens,
    purposeOf: ({ path }) => (path === NO_DEVICE ? "check" : "ring"),
    close: () => server.close(),
  };
}

function refusal(status: number, reason: string): VendorReply {
  return { status, headers: { "apns-id": randomUUID().toUpperCase() }, body: { reason } };
}
