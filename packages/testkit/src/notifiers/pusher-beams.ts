/** Plays one instance of Pusher Beams: its key, its limits, the formats of its platforms, and users that have devices or not. */
import { createHash, randomUUID, timingSafeEqual } from "node:crypto";
import type { Clock } from "@leafmesh/protocol";
import * as z from "zod";
import type { NotifierDouble, ReceivedRing } from "../suites/notifier/under-test.ts";
import type { VendorReply } from "./replies.ts";
import { startVendorServer, type VendorRequest } from "./vendor-server.ts";

export interface PlayedBeamsInstance {
  readonly instanceId: string;
  readonly primaryKey: string;
  /** Users that have a device. Pusher takes notifications for all others too, and sends them to nobody. */
  readonly users: readonly string[];
}

const MAX_BODY_BYTES = 200 * 1024;
const MAX_PLATFORM_BYTES = 4096;
const MAX_TTL_SECONDS = 2_419_200;

const data = z.record(z.string(), z.unknown());
const fcmSchema = z.strictObject({
  time_to_live: z.int().min(0).max(MAX_TTL_SECONDS).optional(),
  collapse_key: z.string().optional(),
  priority: z.enum(["normal", "high"]).optional(),
  notification: z.looseObject({ title: z.string().optional(), body: z.string().optional() }).optional(),
  // Firebase takes texts alone.
  data: z.record(z.string(), z.string()).optional(),
});
const apnsSchema = z.strictObject({
  collapse_id: z.string().max(64).optional(),
  expiration: z.int().min(0).optional(),
  priority: z.literal([5, 10]).optional(),
  aps: z.looseObject({ alert: z.unknown().optional(), "content-available": z.literal(1).optional() }),
  data: data.optional(),
});
const webSchema = z.strictObject({
  time_to_live: z.int().min(0).max(MAX_TTL_SECONDS).optional(),
  notification: z.looseObject({ title: z.string().optional(), body: z.string().optional() }).optional(),
  data: data.refine((fields) => !("pusher" in fields), "the key pusher is Pusher's").optional(),
});
const publishSchema = z
  .strictObject({
    users: z
      .array(z.string().refine((user) => user !== "" && Buffer.byteLength(user) <= 164))
      .min(1)
      .max(1000),
    fcm: fcmSchema.optional(),
    apns: apnsSchema.optional(),
    web: webSchema.optional(),
  })
  .refine(({ fcm, apns, web }) => fcm ?? apns ?? web, "no platform");
type Publish = z.output<typeof publishSchema>;

export async function startPusherBeams(
  clock: Clock,
  { instanceId, primaryKey, users }: PlayedBeamsInstance,
): Promise<NotifierDouble> {
  const rings: ReceivedRing[] = [];
  const path = `/publish_api/v1/instances/${instanceId}/publishes/users`;

  const handle = (request: VendorRequest): VendorReply => {
    const { headers, method, body, json } = request;
    if (request.path !== path) return refusal(404, "Not found", "Could not find the instance");
    if (method !== "POST") return refusal(405, "Method not allowed", "Only POST");
    if (!isSame(headers.authorization ?? "", `Bearer ${primaryKey}`)) {
      return refusal(401, "Unauthorized", "Incorrect API Key");
    }
    if (!headers["content-type"]?.startsWith("application/json")) {
      return refusal(400, "Bad request", "The Content-Type has to be application/json");
    }
    if (body.byteLength > MAX_BODY_BYTES) return refusal(400, "Bad request", "Request body size is too large");
    if (json === undefined) return refusal(400, "Bad request", "The body is no JSON");
    const publish = publishSchema.safeParse(json);
    if (!publish.success) return refusal(422, "Unprocessable entity", "The body has not the format of a publish");
    const { users: to, ...platforms } = publish.data;
    const isOver = Object.values(platforms).some((platform) => {
      return Buffer.byteLength(JSON.stringify(platform)) > MAX_PLATFORM_BYTES;
    });
    if (isOver) return refusal(422, "Unprocessable entity", "A payload is over 4096 bytes");
    for (const user of to) if (users.includes(user)) rings.push(received(user, platforms, clock.nowMs()));
    return { status: 200, body: { publishId: `pubid-${randomUUID()}` } };
  };

  const server = await startVendorServer({ hosts: [`${instanceId}.pushnotifications.pusher.com`], handle });
  return {
    server,
    rings,
    purposeOf: ({ json }) => (namesOnly(json, users) ? "ring" : "check"),
    close: () => server.close(),
  };
}

/** What each of the user's devices gets: the same, whatever its system is. Throws when it is not. */
function received(to: string, { fcm, apns, web }: Omit<Publish, "users">, nowMs: number): ReceivedRing {
  const android: ReceivedRing = {
    to,
    body: String(fcm?.data?.leafmesh),
    isShown: fcm?.notification !== undefined || fcm?.data?.title !== undefined,
    ttlSeconds: fcm?.time_to_live,
    collapseKey: fcm?.collapse_key,
  };
  const apple: ReceivedRing = {
    to,
    body: String(apns?.data?.leafmesh),
    isShown: apns?.aps.alert !== undefined,
    ttlSeconds: apns?.expiration === undefined ? undefined : apns.expiration - Math.floor(nowMs / 1000),
    collapseKey: apns?.collapse_id,
  };
  const browser: ReceivedRing = {
    to,
    body: String(web?.data?.leafmesh),
    isShown: web?.notification !== undefined,
    ttlSeconds: web?.time_to_live,
    // Pusher has none for browsers.
    collapseKey: android.collapseKey,
  };
  for (const other of [apns && apple, web && browser]) {
    if (fcm && other && !isAlike(android, other)) {
      throw new Error(`the platforms get different rings: ${JSON.stringify([android, other])}`);
    }
  }
  return fcm ? android : apns ? apple : browser;
}

/** On a clock that runs, the end of a time to live and an expiration may be a second apart. */
function isAlike(one: ReceivedRing, other: ReceivedRing): boolean {
  const { ttlSeconds: ttl = 0, ...rest } = one;
  const { ttlSeconds: otherTtl = 0, ...otherRest } = other;
  return JSON.stringify(rest) === JSON.stringify(otherRest) && Math.abs(ttl - otherTtl) <= 1;
}

function namesOnly(json: unknown, users: readonly string[]): boolean {
  const { data: named } = z.object({ users: z.array(z.string()) }).safeParse(json);
  return named?.users.every((user) => users.includes(user)) ?? true;
}

function isSame(one: string, other: string): boolean {
  const [left, right] = [one, other].map((text) => createHash("sha256").update(text).digest());
  return left !== undefined && right !== undefined && timingSafeEqual(left, right);
}

function refusal(status: number, error: string, description: string): VendorReply {
  return { status, body: { error, description } };
}
