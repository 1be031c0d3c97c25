/**
 * Plays OneSignal with one app: it checks key, target and fields of each notification as OneSignal does, and knows
 * which subscriptions are subscribed.
 * https://documentation.onesignal.com/reference/push-notification
 */
import * as z from "zod";
import type { NotifierDouble, ReceivedRing } from "../suites/notifier/under-test.ts";
import type { VendorReply } from "./replies.ts";
import { startVendorServer, type VendorRequest } from "./vendor-server.ts";

export interface PlayedOneSignalApp {
  readonly appId: string;
  /** Keys of the app that are not disabled. */
  readonly apiKeys: readonly string[];
  /** IDs of subscriptions that are subscribed; all others are not, or not of this app. */
  readonly subscribed: readonly string[];
  /** Takes notifications to subscriptions without a key, as older descriptions of the API say. */
  readonly takesWithoutKey?: boolean | undefined;
}

const HOST = "api.onesignal.com";
const MAX_DATA_BYTES = 2048;
const MAX_TTL_S = 2_419_200;
const TARGETS = ["include_subscription_ids", "include_aliases", "included_segments", "filters"];
/** OneSignal would send to more than one device that the mesh asked for. */
const BROADCASTS = ["included_segments", "filters"];

const uuid = z.guid();
const texts = z.looseObject({ en: z.string().min(1) });
const buttons = z.array(z.object({ id: z.string().min(1), text: z.string(), icon: z.string().optional() })).max(3);
const messageSchema = z.looseObject({
  app_id: uuid,
  include_subscription_ids: z.array(uuid).min(1).max(20_000).optional(),
  contents: texts.optional(),
  headings: texts.optional(),
  data: z.record(z.string(), z.unknown()).optional(),
  buttons: buttons.optional(),
  web_buttons: buttons.optional(),
  content_available: z.boolean().optional(),
  ttl: z.int().min(0).max(MAX_TTL_S).optional(),
  priority: z.union([z.literal(5), z.literal(10)]).optional(),
  collapse_id: z.string().max(64).optional(),
  web_push_topic: z.string().max(32).optional(),
  idempotency_key: uuid.optional(),
  ios_interruption_level: z.enum(["active", "passive", "time_sensitive", "critical"]).optional(),
  huawei_msg_type: z.enum(["data", "message"]).optional(),
});
type Message = z.output<typeof messageSchema>;

export async function startOneSignal(app: PlayedOneSignalApp): Promise<NotifierDouble> {
  const rings: ReceivedRing[] = [];
  /** Answers by idempotency key. */
  const answered = new Map<string, object>();
  let made = 0;

  const answer = (request: VendorRequest): VendorReply => {
    const { method, path } = request;
    if (path !== "/notifications") return refusal(404, "Not found");
    if (method === "GET") return list(request);
    return method === "POST" ? take(request) : refusal(405, "Method not allowed");
  };

  const hasKey = ({ headers }: VendorRequest): boolean => {
    const [, key] = /^Key (\S+)$/.exec(headers.authorization ?? "") ?? [];
    return key !== undefined && app.apiKeys.includes(key);
  };

  const list = (request: VendorRequest): VendorReply => {
    const { query } = request;
    if (!hasKey(request)) return refusal(403, DENIED);
    if (query.get("app_id") !== app.appId) return refusal(400, "app_id not found");
    const limit = Math.min(Number(query.get("limit") ?? 50), 50);
    const notifications = [...Array(made)].map((_, nth) => ({ id: idOf(made - nth), app_id: app.appId }));
    const body = { total_count: made, offset: 0, limit, notifications: notifications.slice(0, limit) };
    return { status: 200, body };
  };

  const take = (request: VendorRequest): VendorReply => {
    if (!/^application\/json\b/.test(request.headers["content-type"] ?? "")) {
      return refusal(400, "app_id not found. You may be missing a Content-Type: application/json header.");
    }
    const parsed = messageSchema.safeParse(request.json);
    if (!parsed.success) {
      const [issue] = parsed.error.issues;
      return refusal(400, `${issue?.path.join(".")} is not valid: ${issue?.message}`);
    }
    const message = parsed.data;
    if (!app.takesWithoutKey && !hasKey(request)) return refusal(403, DENIED);
    // Without a look at the key, a subscription of another app is only one that this app does not have.
    if (message.app_id !== app.appId && !app.takesWithoutKey) return refusal(400, "app_id not found");
    const flaw = flawOf(message);
    if (flaw !== undefined) return refusal(400, flaw);
    return deliver(message, message.app_id === app.appId ? app.subscribed : []);
  };

  const deliver = (message: Message, subscribed: readonly string[]): VendorReply => {
    const { include_subscription_ids: ids = [], idempotency_key: key } = message;
    const earlier = key === undefined ? undefined : answered.get(key);
    if (earlier) return { status: 200, headers: { "idempotent-replayed": "true" }, body: earlier };
    const gone = ids.filter((id) => !subscribed.includes(id));
    const there = ids.filter((id) => subscribed.includes(id));
    if (there.length === 0)
      return { status: 200, body: { id: "", errors: ["All included players are not subscribed"] } };
    for (const to of there) rings.push(toRing(message, to));
    const body = {
      id: idOf(++made),
      external_id: key ?? null,
      ...(gone.length > 0 ? { errors: { invalid_player_ids: gone } } : {}),
    };
    if (key !== undefined) answered.set(key, body);
    return { status: 200, body };
  };

  const server = await startVendorServer({ hosts: [HOST], handle: answer });
  return {
    server,
    rings,
    purposeOf: ({ method }) => (method === "POST" ? "ring" : "check"),
    close: () => server.close(),
  };
}

const DENIED =
  "Access denied.  Please include an 'Authorization: ...' header with a valid API key (https://documentation.onesignal.com/docs/accounts-and-keys).";

function refusal(status: number, text: string): VendorReply {
  return { status, body: { errors: [text] } };
}

function idOf(nth: number): string {
  return `10000000-0000-4000-8000-${String(nth).padStart(12, "0")}`;
}

function flawOf(message: Message): string | undefined {
  const targets = TARGETS.filter((name) => message[name] !== undefined);
  if (BROADCASTS.some((name) => targets.includes(name))) throw new Error("this would ring more than one device");
  if (targets.length !== 1 || !message.include_subscription_ids) {
    return "You must include which players, segments, or tags you wish to send this notification to.";
  }
  const { contents, content_available, data } = message;
  if (!contents && !content_available) return "Message Notifications must have English language content";
  if (data && Buffer.byteLength(JSON.stringify(data)) > MAX_DATA_BYTES) {
    return "Data Data must be no more than 2048 bytes long";
  }
  return undefined;
}

function toRing({ contents, headings, buttons: shown, data, ttl, collapse_id }: Message, to: string): ReceivedRing {
  if (!contents && (headings || shown)) throw new Error("a notification without contents has nothing to show in it");
  return {
    body: String(data?.leafmesh),
    to,
    isShown: contents !== undefined,
    ttlSeconds: ttl,
    collapseKey: collapse_id,
  };
}
