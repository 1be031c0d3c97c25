/**
 * Plays Huawei's account service and Push Kit: gives out access tokens that end, and says what it thinks of a message by
 * a code, with the HTTP status 200 for all of them.
 */
import { randomBytes, randomUUID } from "node:crypto";
import type { Clock } from "@leafmesh/protocol";
import * as z from "zod";
import type { NotifierDouble, ReceivedRing } from "../suites/notifier/under-test.ts";
import type { VendorReply } from "./replies.ts";
import { startVendorServer, type VendorRequest } from "./vendor-server.ts";

export interface PlayedHuaweiApp {
  readonly clientId: string;
  readonly clientSecret: string;
  /** Push tokens that a device has. */
  readonly tokens: readonly string[];
  /** False for an app for which Push Kit is not enabled. Default true. */
  readonly isEnabled?: boolean;
}

export interface HmsDouble extends NotifierDouble {
  /** Access tokens that were given out. */
  readonly issued: ReadonlyMap<string, { readonly endsAtMs: number }>;
}

const LIFETIME_SECONDS = 3600;
const MAX_BYTES = 4096;

const messageSchema = z.strictObject({
  token: z.array(z.string()),
  data: z.string().optional(),
  android: z
    .strictObject({
      urgency: z.enum(["HIGH", "NORMAL"]).optional(),
      ttl: z
        .string()
        .regex(/^\d+s$/)
        .refine((text) => Number.parseInt(text, 10) <= 1_296_000)
        .optional(),
      collapse_key: z.int().min(-1).max(100).optional(),
      notification: z
        .strictObject({
          title: z.string().max(200),
          body: z.string().max(1024),
          click_action: z.strictObject({ type: z.literal([1, 2, 3]) }),
          tag: z.string().optional(),
          foreground_show: z.boolean().optional(),
        })
        .optional(),
    })
    .optional(),
});
const bodySchema = z.strictObject({ validate_only: z.boolean().optional(), message: messageSchema });

export async function startHms(clock: Clock, played: PlayedHuaweiApp): Promise<HmsDouble> {
  const issued = new Map<string, { readonly endsAtMs: number }>();
  const rings: ReceivedRing[] = [];

  const giveToken = ({ method, headers, text }: VendorRequest): VendorReply => {
    if (method !== "POST" || headers["content-type"] !== "application/x-www-form-urlencoded") return { status: 404 };
    const form = new URLSearchParams(text);
    if (form.get("grant_type") !== "client_credentials") return hmsTokenRefusal(20182);
    if (form.get("client_id") !== played.clientId) return hmsTokenRefusal(20003);
    if (form.get("client_secret") !== played.clientSecret) return hmsTokenRefusal(12304);
    // Huawei's have slashes in them, which come escaped.
    const token = `DQE/${randomBytes(24).toString("base64url")}/=`;
    issued.set(token, { endsAtMs: clock.monotonicMs() + LIFETIME_SECONDS * 1000 });
    const body = JSON.stringify({ access_token: token, expires_in: LIFETIME_SECONDS, token_type: "Bearer" });
    return { status: 200, body: body.replaceAll("/", "\\/"), headers: { "content-type": "application/json" } };
  };

  const send = ({ method, path, headers, json }: VendorRequest): VendorReply => {
    if (method !== "POST" || path !== `/v1/${played.clientId}/messages:send`) return { status: 404 };
    const bearer = issued.get(headers.authorization?.replace(/^Bearer /, "") ?? "");
    if (!bearer) return hmsAnswer("80200001");
    if (bearer.endsAtMs <= clock.monotonicMs()) return hmsAnswer("80200003");
    if (played.isEnabled === false) return hmsAnswer("80300002");
    const body = bodySchema.safeParse(json);
    if (!body.success) return hmsAnswer("80100003");
    const { validate_only, message } = body.data;
    const { token, ...rest } = message;
    if (token.length === 0 || token.length > 1000) return hmsAnswer("80300010");
    if (Buffer.byteLength(JSON.stringify(rest)) > MAX_BYTES) return hmsAnswer("80300008");
    if (message.android?.urgency === "HIGH") return hmsAnswer("80300011");
    const reached = token.filter((each) => played.tokens.includes(each));
    if (reached.length === 0) return hmsAnswer("80300007");
    if (!validate_only) for (const to of reached) rings.push(received(to, message));
    return hmsAnswer("80000000");
  };

  const server = await startVendorServer({
    hosts: ["oauth-login.cloud.huawei.com", "push-api.cloud.huawei.com"],
    handle: (request) => {
      if (request.host === "push-api.cloud.huawei.com") return send(request);
      return request.path === "/oauth2/v3/token" ? giveToken(request) : { status: 404 };
    },
  });
  return {
    server,
    rings,
    issued,
    purposeOf: ({ host, json }) => {
      if (host === "oauth-login.cloud.huawei.com") return "credential";
      return z.looseObject({ validate_only: z.literal(true) }).safeParse(json).success ? "check" : "ring";
    },
    close: () => server.close(),
  };
}

/** Push Kit's way of saying anything. */
export function hmsAnswer(code: string, msg = "Said."): VendorReply {
  return { status: 200, body: { code, msg, requestId: randomUUID() } };
}

/** The account service's way of refusing. */
export function hmsTokenRefusal(sub_error: number): VendorReply {
  return { status: 400, body: { error: 1101, sub_error, error_description: "Refused." } };
}

function received(to: string, { data = "", android }: z.output<typeof messageSchema>): ReceivedRing {
  const { leafmesh } = z.object({ leafmesh: z.string() }).parse(JSON.parse(data));
  return {
    to,
    body: leafmesh,
    isShown: android?.notification !== undefined,
    ttlSeconds: android?.ttl === undefined ? undefined : Number.parseInt(android.ttl, 10),
    collapseKey: undefined,
  };
}
