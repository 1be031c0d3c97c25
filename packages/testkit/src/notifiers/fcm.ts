/**
 * Plays Google's token service and Firebase Cloud Messaging: verifies the signed assertion, gives out access tokens that
 * end, and holds messages to FCM's format, reserved keys and size.
 */
import { createPublicKey, randomBytes, randomUUID, verify } from "node:crypto";
import type { Clock } from "@leafmesh/protocol";
import * as z from "zod";
import type { NotifierDouble, ReceivedRing } from "../suites/notifier/under-test.ts";
import type { VendorReply } from "./replies.ts";
import { startVendorServer, type VendorRequest } from "./vendor-server.ts";

export interface PlayedFirebase {
  /** The content of a service account's JSON file. */
  readonly serviceAccount: string;
  readonly projectId: string;
  /** Registration tokens: `gone` was unregistered, `other` is of another project. All others are none. */
  readonly tokens: Readonly<Record<string, "there" | "gone" | "other">>;
}

export interface FcmDouble extends NotifierDouble {
  /** Access tokens that were given out. */
  readonly issued: ReadonlyMap<string, { readonly endsAtMs: number }>;
}

const TOKEN_URL = "https://oauth2.googleapis.com/token";
const SCOPE = "https://www.googleapis.com/auth/firebase.messaging";
const LIFETIME_SECONDS = 3599;
const SKEW_SECONDS = 300;
const MAX_BYTES = 4096;
const MAX_TTL_SECONDS = 2_419_200;

const accountSchema = z.object({ client_email: z.string(), private_key_id: z.string(), private_key: z.string() });
/** Google's own client names no key; then any of the account's may have signed. */
const headerSchema = z.object({ alg: z.literal("RS256"), kid: z.string().optional() });
const claimsSchema = z.object({ iss: z.string(), scope: z.string(), aud: z.string(), iat: z.int(), exp: z.int() });

const texts = z.record(z.string(), z.string());
const duration = z
  .string()
  .regex(/^\d+(\.\d{1,9})?s$/)
  .refine((text) => Number.parseFloat(text) <= MAX_TTL_SECONDS);
const aps = z.looseObject({ alert: z.unknown().optional(), "content-available": z.literal(1).optional() });
const messageSchema = z
  .strictObject({
    token: z.string().optional(),
    topic: z
      .string()
      .regex(/^[a-zA-Z0-9-_.~%]+$/)
      .optional(),
    data: texts.optional(),
    notification: z.strictObject({ title: z.string().optional(), body: z.string().optional() }).optional(),
    android: z
      .strictObject({
        // Google's own client writes them small.
        priority: z.enum(["HIGH", "NORMAL", "high", "normal"]).optional(),
        ttl: duration.optional(),
        collapse_key: z.string().optional(),
        data: texts.optional(),
      })
      .optional(),
    apns: z.strictObject({ headers: texts.optional(), payload: z.looseObject({ aps }).optional() }).optional(),
    webpush: z.strictObject({ headers: texts.optional(), data: texts.optional() }).optional(),
  })
  .refine(({ token, topic }) => (token === undefined) !== (topic === undefined), "one target");
const bodySchema = z.strictObject({ validate_only: z.boolean().optional(), message: messageSchema });
type Message = z.output<typeof messageSchema>;

export async function startFcm(clock: Clock, played: PlayedFirebase): Promise<FcmDouble> {
  const account = accountSchema.parse(JSON.parse(played.serviceAccount));
  const publicKey = createPublicKey(account.private_key);
  const issued = new Map<string, { readonly endsAtMs: number }>();
  const rings: ReceivedRing[] = [];

  const isGenuine = (assertion: string): boolean => {
    const [header = "", claims = "", signature = ""] = assertion.split(".");
    const head = headerSchema.safeParse(decoded(header)).data;
    const said = claimsSchema.safeParse(decoded(claims)).data;
    if (!head || !said || said.iss !== account.client_email) return false;
    if (head.kid !== undefined && head.kid !== account.private_key_id) return false;
    if (said.aud !== TOKEN_URL || said.exp - said.iat > 3600 || said.exp <= said.iat) return false;
    const nowSeconds = clock.nowMs() / 1000;
    if (said.iat > nowSeconds + SKEW_SECONDS || said.exp < nowSeconds - SKEW_SECONDS) return false;
    return verify("sha256", Buffer.from(`${header}.${claims}`), publicKey, Buffer.from(signature, "base64url"));
  };

  const oauthError = (error: string): VendorReply => ({
    status: 400,
    headers: { date: new Date(clock.nowMs()).toUTCString() },
    body: { error, error_description: "Refused." },
  });

  const giveToken = ({ method, headers, text }: VendorRequest): VendorReply => {
    if (method !== "POST") return { status: 405 };
    const [mediaType] = headers["content-type"]?.split(";") ?? [];
    if (mediaType !== "application/x-www-form-urlencoded") return oauthError("invalid_request");
    const form = new URLSearchParams(text);
    if (form.get("grant_type") !== "urn:ietf:params:oauth:grant-type:jwt-bearer") {
      return oauthError("unsupported_grant_type");
    }
    const assertion = form.get("assertion") ?? "";
    if (!isGenuine(assertion)) return oauthError("invalid_grant");
    const { scope } = claimsSchema.parse(decoded(assertion.split(".")[1] ?? ""));
    if (!scope.split(" ").includes(SCOPE)) return oauthError("invalid_scope");
    const access_token = `ya29.${randomBytes(24).toString("base64url")}`;
    issued.set(access_token, { endsAtMs: clock.monotonicMs() + LIFETIME_SECONDS * 1000 });
    return { status: 200, body: { access_token, expires_in: LIFETIME_SECONDS, token_type: "Bearer" } };
  };

  const send = ({ method, path, headers, json }: VendorRequest): VendorReply => {
    const project = /^\/v1\/projects\/([^/]+)\/messages:send$/.exec(path)?.[1];
    if (project === undefined || method !== "POST") return { status: 404 };
    const bearer = issued.get(headers.authorization?.replace(/^Bearer /, "") ?? "");
    if (!bearer || bearer.endsAtMs <= clock.monotonicMs()) return fcmRefusal(401, "UNAUTHENTICATED");
    if (project !== played.projectId) return fcmRefusal(404, "NOT_FOUND");
    const body = bodySchema.safeParse(json);
    if (!body.success) {
      const field = ["message", ...(body.error.issues[0]?.path.slice(1) ?? [])].join(".");
      return fcmRefusal(400, "INVALID_ARGUMENT", { field });
    }
    const { message, validate_only } = body.data;
    const reserved = Object.keys(message.data ?? {}).find((key) => {
      return key === "from" || key === "message_type" || /^(google\.|gcm\.notification\.)/.test(key);
    });
    if (reserved !== undefined) return fcmRefusal(400, "INVALID_ARGUMENT", { field: "message.data" });
    if (Buffer.byteLength(JSON.stringify(message.data ?? {})) > MAX_BYTES) {
      return fcmRefusal(400, "INVALID_ARGUMENT", { message: "Android message is too big" });
    }
    if (message.token !== undefined) {
      const state = Object.hasOwn(played.tokens, message.token) ? played.tokens[message.token] : undefined;
      if (state === undefined) return fcmRefusal(400, "INVALID_ARGUMENT", { errorCode: "INVALID_ARGUMENT" });
      if (state === "gone") return fcmRefusal(404, "NOT_FOUND", { errorCode: "UNREGISTERED" });
      if (state === "other") return fcmRefusal(403, "PERMISSION_DENIED", { errorCode: "SENDER_ID_MISMATCH" });
    }
    if (!validate_only) {
      if (message.token === undefined) throw new Error("a topic was rung");
      rings.push(received(message.token, message, clock.nowMs()));
    }
    const id = validate_only ? "fake_message_id" : `0:${randomUUID()}`;
    return { status: 200, body: { name: `projects/${project}/messages/${id}` } };
  };

  const server = await startVendorServer({
    hosts: ["fcm.googleapis.com", "oauth2.googleapis.com"],
    handle: (request) => {
      if (request.host === "oauth2.googleapis.com")
        return request.path === "/token" ? giveToken(request) : { status: 404 };
      return send(request);
    },
  });
  return {
    server,
    rings,
    issued,
    purposeOf: ({ host, json }) => {
      if (host === "oauth2.googleapis.com") return "credential";
      return z.looseObject({ validate_only: z.literal(true) }).safeParse(json).success ? "check" : "ring";
    },
    close: () => server.close(),
  };
}

/** An answer of FCM's, in Google's shape of errors. https://firebase.google.com/docs/cloud-messaging/error-codes */
export function fcmRefusal(
  code: number,
  status: string,
  { errorCode, field, message = "Refused.", reason }: FcmRefusalDetails = {},
): VendorReply {
  const details = [
    ...(errorCode ? [{ "@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", errorCode }] : []),
    ...(field
      ? [
          {
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            fieldViolations: [{ field, description: "Invalid value" }],
          },
        ]
      : []),
    ...(reason ? [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason, domain: "googleapis.com" }] : []),
  ];
  return { status: code, body: { error: { code, status, message, details } } };
}

export interface FcmRefusalDetails {
  readonly errorCode?: string;
  /** A field that has a wrong value. */
  readonly field?: string;
  readonly message?: string;
  readonly reason?: string;
}

/** What each system gets: the same ring, whatever the device is. Throws when it is not. */
function received(to: string, { data, android, apns, webpush }: Message, nowMs: number): ReceivedRing {
  const expiration = Number(apns?.headers?.["apns-expiration"]);
  const each = [
    { ttl: Number.parseFloat(android?.ttl ?? ""), key: android?.collapse_key, isShown: data?.title !== undefined },
    {
      ttl: expiration - Math.floor(nowMs / 1000),
      key: apns?.headers?.["apns-collapse-id"],
      isShown: apns?.payload?.aps.alert !== undefined,
    },
    { ttl: Number(webpush?.headers?.TTL), key: webpush?.headers?.Topic, isShown: data?.title !== undefined },
  ];
  const [first] = each;
  if (
    !first ||
    each.some(
      ({ ttl, ...rest }) => Math.abs(ttl - first.ttl) > 1 || rest.key !== first.key || rest.isShown !== first.isShown,
    )
  ) {
    throw new Error(`the platforms get different rings: ${JSON.stringify(each)}`);
  }
  return {
    to,
    body: String(data?.leafmesh),
    isShown: first.isShown,
    ttlSeconds: first.ttl,
    collapseKey: first.key,
  };
}

function decoded(part: string): unknown {
  try {
    return JSON.parse(Buffer.from(part, "base64url").toString("utf8"));
  } catch {
    return undefined;
  }
}
