/**
 * Plays Expo's push service: it takes messages as Expo does, answers with tickets, and has a receipt for each. What is
 * found out by Apple and Google alone is in the receipt.
 * https://docs.expo.dev/push-notifications/sending-notifications/
 */
import { gunzipSync } from "node:zlib";
import type { Clock } from "@leafmesh/protocol";
import * as z from "zod";
import type { NotifierDouble, ReceivedRing } from "../suites/notifier/under-test.ts";
import type { VendorReply } from "./replies.ts";
import { startVendorServer, type VendorRequest } from "./vendor-server.ts";

export interface PlayedExpo {
  /** Push tokens of devices, and the project of each, such as `@acme/phones`. */
  readonly devices: Readonly<Record<string, string>>;
  /** Access tokens, and the projects that their owners may push for. */
  readonly accessTokens?: Readonly<Record<string, readonly string[]>> | undefined;
  /** Projects with enhanced security for push. */
  readonly secured?: readonly string[] | undefined;
}

export interface ExpoReceipt {
  readonly status: "ok" | "error";
  readonly message?: string | undefined;
  readonly details?: { readonly error: string; readonly expoPushToken?: string } | undefined;
}

export interface ExpoDouble extends NotifierDouble {
  /** By the id of the ticket. A test changes them, or takes them away. */
  readonly receipts: Map<string, ExpoReceipt>;
}

const HOST = "exp.host";
const PATH = "/--/api/v2/push";
const MAX_MESSAGES = 100;
const MAX_RECEIPTS = 1000;
const MAX_PAYLOAD_BYTES = 4096;
const pushToken = z
  .string()
  .regex(/^(?:Expo(?:nent)?PushToken\[[^\]]+\]|[a-z\d]{8}-(?:[a-z\d]{4}-){3}[a-z\d]{12})$/i, "not an Expo push token");

const messageSchema = z.strictObject({
  to: z.union([pushToken, z.array(pushToken).min(1)]),
  data: z.record(z.string(), z.unknown()).optional(),
  title: z.string().optional(),
  subtitle: z.string().optional(),
  body: z.string().optional(),
  sound: z.union([z.string(), z.null(), z.object({ name: z.string().optional() })]).optional(),
  ttl: z.int().min(0).optional(),
  expiration: z.int().min(0).optional(),
  priority: z.enum(["default", "normal", "high"]).optional(),
  interruptionLevel: z.enum(["active", "critical", "passive", "time-sensitive"]).optional(),
  badge: z.int().min(0).optional(),
  channelId: z.string().optional(),
  icon: z.string().optional(),
  richContent: z.object({ image: z.string().optional() }).optional(),
  categoryId: z.string().optional(),
  mutableContent: z.boolean().optional(),
  collapseId: z.string().max(64).optional(),
  tag: z.string().optional(),
  threadId: z.string().optional(),
  targetContentId: z.string().optional(),
  relevanceScore: z.number().min(0).max(1).optional(),
  filterCriteria: z.string().optional(),
  contentAvailable: z.boolean().optional(),
  _contentAvailable: z.boolean().optional(),
});
type Message = z.output<typeof messageSchema>;

const idsSchema = z.object({ ids: z.array(z.string()) });

export async function startExpo(
  clock: Clock,
  { devices, accessTokens = {}, secured = [] }: PlayedExpo,
): Promise<ExpoDouble> {
  const rings: ReceivedRing[] = [];
  const receipts = new Map<string, ExpoReceipt>();
  let tickets = 0;

  const answer = (request: VendorRequest): VendorReply => {
    const { method, path, headers } = request;
    if (method !== "POST" || !path.startsWith(`${PATH}/`)) return failure(404, "NOT_FOUND", "Not found");
    if (!/^application\/json\b/.test(headers["content-type"] ?? "")) {
      return failure(400, "VALIDATION_ERROR", "The body must be JSON");
    }
    const bearer = bearerOf(request);
    if (bearer !== undefined && !Object.hasOwn(accessTokens, bearer)) {
      return { status: 401, body: { error: "invalid_token", error_description: "The bearer token is invalid" } };
    }
    const body = bodyOf(request);
    if (path === `${PATH}/getReceipts`) return tell(body);
    return path === `${PATH}/send` ? take(body, bearer) : failure(404, "NOT_FOUND", "Not found");
  };

  const take = (body: unknown, bearer: string | undefined): VendorReply => {
    const isList = Array.isArray(body);
    const parsed = z
      .array(messageSchema)
      .min(1)
      .safeParse(isList ? body : [body]);
    if (!parsed.success) {
      const [issue] = parsed.error.issues;
      return failure(400, "VALIDATION_ERROR", `"${issue?.path.slice(1).join(".")}" is invalid: ${issue?.message}`);
    }
    const sends = parsed.data.flatMap((message) => [message.to].flat().map((to) => ({ message, to })));
    if (sends.length > MAX_MESSAGES) return failure(400, "PUSH_TOO_MANY_NOTIFICATIONS", "More than 100 messages");
    const projects = new Set(sends.flatMap(({ to }) => devices[to] ?? []));
    if (projects.size > 1) {
      return failure(400, "PUSH_TOO_MANY_EXPERIENCE_IDS", "All messages must be of one project");
    }
    for (const project of projects) {
      if (bearer === undefined && secured.includes(project)) {
        return failure(401, "UNAUTHORIZED", "The project wants an access token with each push request");
      }
      if (bearer !== undefined && !accessTokens[bearer]?.includes(project)) {
        return failure(403, "FORBIDDEN", `Insufficient permissions to send push notifications to ${project}.`);
      }
    }
    const answers = sends.map(({ message, to }) => ticket(message, to));
    return { status: 200, body: { data: isList || answers.length > 1 ? answers : answers[0] } };
  };

  const ticket = (message: Message, to: string): object => {
    if (!Object.hasOwn(devices, to)) {
      const said = `"${to}" is not a registered push notification recipient`;
      return { status: "error", message: said, details: { error: "DeviceNotRegistered", expoPushToken: to } };
    }
    const id = `00000000-0000-4000-8000-${String(++tickets).padStart(12, "0")}`;
    receipts.set(id, deliver(message, to));
    return { status: "ok", id };
  };

  const deliver = (message: Message, to: string): ExpoReceipt => {
    const { to: _, ...payload } = message;
    if (Buffer.byteLength(JSON.stringify(payload)) > MAX_PAYLOAD_BYTES) {
      return { status: "error", message: "The payload is too big", details: { error: "MessageTooBig" } };
    }
    const { title, body, data, ttl, expiration, collapseId } = message;
    const isShown = title !== undefined || body !== undefined;
    // Such a push is no background push, and shows nothing: no app hears of it.
    if (!isShown && !message.contentAvailable && !message._contentAvailable) return { status: "ok" };
    const isHeadless = message.tag === undefined && message.sound === undefined && message.categoryId === undefined;
    if (!isShown && !isHeadless) throw new Error("a background notification has nothing to show in it");
    rings.push({
      body: String(data?.leafmesh),
      to,
      isShown,
      ttlSeconds: ttl ?? (expiration === undefined ? undefined : expiration - Math.floor(clock.nowMs() / 1000)),
      collapseKey: collapseId,
    });
    return { status: "ok" };
  };

  const tell = (body: unknown): VendorReply => {
    const { data } = idsSchema.safeParse(body);
    if (!data) return failure(400, "VALIDATION_ERROR", '"ids" must be a list of ids');
    if (data.ids.length > MAX_RECEIPTS) return failure(400, "PUSH_TOO_MANY_RECEIPTS", "More than 1000 receipts");
    const known = data.ids.flatMap((id) => {
      const receipt = receipts.get(id);
      return receipt ? [[id, receipt] as const] : [];
    });
    return { status: 200, body: { data: Object.fromEntries(known) } };
  };

  const server = await startVendorServer({ hosts: [HOST], handle: answer });
  return {
    server,
    rings,
    receipts,
    purposeOf: ({ path }) => (path === `${PATH}/send` ? "ring" : "check"),
    close: () => server.close(),
  };
}

function failure(status: number, code: string, message: string): VendorReply {
  return { status, body: { errors: [{ code, message, isTransient: false }] } };
}

function bearerOf({ headers }: VendorRequest): string | undefined {
  const { authorization } = headers;
  return authorization === undefined ? undefined : authorization.replace(/^Bearer /, "");
}

/** Expo takes compressed bodies, and its own client compresses long ones. */
function bodyOf({ headers, body, json }: VendorRequest): unknown {
  return headers["content-encoding"] === "gzip" ? JSON.parse(gunzipSync(body).toString("utf8")) : json;
}
