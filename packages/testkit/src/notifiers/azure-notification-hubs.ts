/**
 * Plays a namespace of Azure Notification Hubs with one hub: it checks the signature, the headers and the body of each
 * send, and gives it to whom the hub would. https://learn.microsoft.com/rest/api/notificationhubs/direct-send
 */
import type { Clock } from "@leafmesh/protocol";
import * as z from "zod";
import type { NotifierDouble, ReceivedRing } from "../suites/notifier/under-test.ts";
import type { VendorReply } from "./replies.ts";
import { judgeSignature } from "./shared-access-signature.ts";
import { startVendorServer, type VendorRequest } from "./vendor-server.ts";

export interface PlayedNotificationHub {
  /** The namespace's host. */
  readonly host: string;
  readonly hub: string;
  /** By name; the key is the text that stands in the connection string. */
  readonly policies: Readonly<Record<string, { readonly key: string; readonly rights: readonly HubRight[] }>>;
  /** Ids of installations, which template sends reach by their tags. */
  readonly installations?: readonly string[] | undefined;
}

type HubRight = "Send" | "Listen" | "Manage";

export interface NotificationHubDouble extends NotifierDouble {
  /** Tags that were sent to and that no installation has. */
  readonly unheard: readonly string[];
}

const API_VERSIONS = ["2015-01", "2015-04", "2015-08", "2016-07", "2020-06"];
const JSON_TYPE = /^application\/json; ?charset=utf-8$/;
const HUB_MAX_BYTES = 64 * 1024;
const PUSH_MAX_BYTES = 4096;
/** Both names are documented for Firebase; `gcm` is its old protocol, which Google switched off. */
const FORMATS = new Set(["fcmv1", "apple", "template"]);
const PROBE_TAG = /^leafmesh-probe/;

/** https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages without what a hub fills in. */
const firebaseSchema = z.strictObject({
  message: z.strictObject({
    data: z.record(z.string().regex(/^(?!from$|message_type$|google\.|gcm\.)/), z.string()),
    android: z.strictObject({
      priority: z.enum(["high", "HIGH", "normal", "NORMAL"]),
      ttl: z.string().regex(/^\d+s$/),
      collapse_key: z.string().max(64).optional(),
    }),
  }),
});

const alertSchema = z.strictObject({
  alert: z.strictObject({ title: z.string(), body: z.string() }),
  category: z.string(),
  sound: z.string(),
  "interruption-level": z.enum(["passive", "active", "time-sensitive"]),
  "mutable-content": z.literal(1),
});
const appleSchema = z.strictObject({
  aps: z.union([alertSchema, z.strictObject({ "content-available": z.literal(1) })]),
  leafmesh: z.string(),
});
const templateSchema = z.record(z.string(), z.string());

type Taken = ReceivedRing | { readonly refused: string };

export async function startAzureNotificationHubs(
  clock: Clock,
  { host, hub, policies, installations = [] }: PlayedNotificationHub,
): Promise<NotificationHubDouble> {
  const rings: ReceivedRing[] = [];
  const unheard: string[] = [];
  const keys = new Map(Object.entries(policies).map(([name, { key }]) => [name, Buffer.from(key, "utf8")]));
  let queued = 0;

  const refusalOf = ({ method, path, headers, query, body }: VendorRequest): VendorReply | undefined => {
    const target = host + path;
    const verdict = judgeSignature({ header: headers.authorization, target, keys, nowMs: clock.nowMs() });
    if ("flaw" in verdict) return notificationHubRefusal(401, FLAWS[verdict.flaw]);
    if (!policies[verdict.policy]?.rights.includes("Send")) {
      return notificationHubRefusal(401, "Unauthorized: Unauthorized access for 'PushNotificationSend' operation");
    }
    if (method !== "POST" || !new RegExp(`^/${hub}/messages/?$`, "i").test(path))
      return notificationHubRefusal(404, "NotFound");
    const version = query.get("api-version") ?? "";
    if (!API_VERSIONS.includes(version) || headers["x-ms-version"] !== version) {
      return notificationHubRefusal(400, "UnsupportedApiVersion");
    }
    if (!JSON_TYPE.test(headers["content-type"] ?? "")) return notificationHubRefusal(400, "InvalidContentType");
    if (body.byteLength > HUB_MAX_BYTES) return notificationHubRefusal(413, "RequestEntityTooLarge");
    return undefined;
  };

  const take = (request: VendorRequest): VendorReply => {
    const refusal = refusalOf(request);
    if (refusal) return refusal;
    const format = header(request, "format").toLowerCase();
    if (!FORMATS.has(format))
      return notificationHubRefusal(400, `'ServiceBusNotification-Format' is invalid: '${format}'`);
    const taken = request.query.has("direct") ? direct(request, format) : tagged(request, format);
    if (taken && "refused" in taken) return notificationHubRefusal(400, taken.refused);
    if (taken) rings.push(taken);
    const id = `${++queued}-0123456789-5`;
    const location = `https://${host}/${hub}/messages/${id}?api-version=2015-04`;
    return { status: 201, headers: { trackingid: "b6a1f6b4-3d9f-4d5e-8f53-0f1f5e1c9a0e_G1", location } };
  };

  const direct = (request: VendorRequest, format: string): Taken => {
    const handle = header(request, "devicehandle");
    if (!handle) return { refused: "'ServiceBusNotification-DeviceHandle' is missing" };
    if (format === "template") return { refused: "a template cannot be sent to a device handle" };
    // The hub queues more; Firebase and Apple would not take it.
    if (request.body.byteLength > PUSH_MAX_BYTES) throw new Error("it is larger than Firebase or Apple take");
    return format === "apple" ? fromApple(request, handle, clock.nowMs()) : fromFirebase(request, handle);
  };

  const tagged = (request: VendorRequest, format: string): Taken | undefined => {
    const tag = header(request, "tags");
    // The hub would send to every device that is registered with it.
    if (!tag) throw new Error("a send without a tag is a broadcast");
    if (format !== "template") return { refused: "the hub has registrations with templates alone" };
    const [, id] = /^\$InstallationId:\{(.+)\}$/.exec(tag) ?? [];
    if (id === undefined && !/^[\w@#.:-]{1,120}$/.test(tag)) return { refused: "the tag expression is invalid" };
    const properties = templateSchema.safeParse(request.json);
    if (!properties.success) return { refused: "the properties of a template have to be strings" };
    if (id === undefined || !installations.includes(id)) {
      unheard.push(tag);
      return undefined;
    }
    const { leafmesh = "", title, ttl = "", collapse_key } = properties.data;
    const rung = { body: leafmesh, to: id, isShown: title !== undefined, collapseKey: collapse_key };
    return { ...rung, ttlSeconds: Number.parseInt(ttl, 10) };
  };

  const server = await startVendorServer({ hosts: [host], handle: take });
  return {
    server,
    rings,
    unheard,
    purposeOf: (request) => (PROBE_TAG.test(header(request, "tags")) ? "check" : "ring"),
    close: () => server.close(),
  };
}

const FLAWS = {
  missing: "MissingToken: The authorization header was not found.",
  malformed: "MalformedToken: The credentials contained in the authorization header are malformed.",
  expired: "ExpiredToken: ",
  unknown_policy: "InvalidSignature: The token has an invalid signature.",
  signature: "InvalidSignature: The token has an invalid signature.",
  audience: "InvalidAudience: The authorization header contains a token with a wrong audience.",
};

/** As the hub words a refusal. */
export function notificationHubRefusal(status: number, detail: string): VendorReply {
  const traced = `${detail}.TrackingId:b6a1f6b4-3d9f-4d5e-8f53-0f1f5e1c9a0e_G1,TimeStamp:1/15/2027 8:00:00 AM`;
  const body = `<Error><Code>${status}</Code><Detail>${traced}</Detail></Error>`;
  return { status, headers: { "content-type": "application/xml; charset=utf-8" }, body };
}

function fromFirebase({ json }: VendorRequest, to: string): Taken {
  const parsed = firebaseSchema.safeParse(json);
  if (!parsed.success) return { refused: "the payload is not one of Firebase" };
  const { data, android } = parsed.data.message;
  const { leafmesh: body = "", title } = data;
  const ttlSeconds = Number.parseInt(android.ttl, 10);
  // Firebase shows nothing of data: the app does, when it is given what to show.
  return { body, to, isShown: title !== undefined, ttlSeconds, collapseKey: android.collapse_key };
}

function fromApple({ json, headers }: VendorRequest, to: string, nowMs: number): Taken {
  const parsed = appleSchema.safeParse(json);
  if (!parsed.success) return { refused: "the payload is not one of Apple" };
  const { aps, leafmesh } = parsed.data;
  const isShown = "alert" in aps;
  const kind = { type: headers["apns-push-type"], priority: headers["apns-priority"] };
  const fits = isShown ? kind.type === "alert" : kind.type === "background" && kind.priority === "5";
  const expiration = String(headers["apns-expiration"]);
  const collapseId = headers["apns-collapse-id"];
  if (!fits || !/^\d{10}$/.test(expiration) || typeof collapseId !== "string" || collapseId.length > 64) {
    return { refused: "the headers are not those of Apple" };
  }
  const ttlSeconds = Number(expiration) - Math.floor(nowMs / 1000);
  return { body: leafmesh, to, isShown, ttlSeconds, collapseKey: collapseId };
}

function header({ headers }: VendorRequest, name: "format" | "devicehandle" | "tags"): string {
  return String(headers[`servicebusnotification-${name}`] ?? "");
}
