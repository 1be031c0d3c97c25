/** Plays the vendor of `example_push`: issues access tokens, and checks what the vendor checks of a message. */
import type { Clock } from "@leafmesh/protocol";
import { startVendorServer, type VendorReply, type VendorRequest } from "@leafmesh/testkit/notifiers";
import type { NotifierDouble, ReceivedRing } from "@leafmesh/testkit/suites";
import * as z from "zod";

export const TOKEN_LIFETIME_MS = 3_600_000;

const messageSchema = z.strictObject({
  to: z.string().regex(/^dev-[0-9a-f]{16}$/),
  data: z.strictObject({ leafmesh: z.string() }),
  ttl: z.int().min(1),
  collapse_key: z.string().max(32),
  notification: z.strictObject({ title: z.string(), buttons: z.array(z.string()).length(2) }).optional(),
});

export interface ExamplePushDouble extends NotifierDouble {
  /** Access tokens that it issued. */
  readonly issued: ReadonlyMap<string, { readonly endsAtMs: number }>;
}

export async function startExamplePush(
  clock: Clock,
  app: { readonly id: string; readonly key: string },
): Promise<ExamplePushDouble> {
  const rings: ReceivedRing[] = [];
  const issued = new Map<string, { endsAtMs: number }>();

  const issue = ({ text }: VendorRequest): VendorReply => {
    const form = new URLSearchParams(text);
    if (form.get("app_id") !== app.id || form.get("app_key") !== app.key) return refusal(401, "unknown_app");
    const access_token = `access-token-${issued.size + 1}`;
    issued.set(access_token, { endsAtMs: clock.nowMs() + TOKEN_LIFETIME_MS });
    return { status: 200, body: { access_token, expires_in: TOKEN_LIFETIME_MS / 1000 } };
  };

  const take = ({ headers, json, body }: VendorRequest): VendorReply => {
    const token = issued.get(headers.authorization?.replace(/^Bearer /, "") ?? "");
    if (!token || token.endsAtMs <= clock.nowMs()) return refusal(401, "token_expired");
    if (body.byteLength > 4096) return refusal(413, "payload_too_large");
    const message = messageSchema.safeParse(json);
    if (!message.success) return refusal(400, "bad_field");
    const { to, data, ttl, collapse_key, notification } = message.data;
    rings.push({
      body: data.leafmesh,
      to,
      isShown: notification !== undefined,
      ttlSeconds: ttl,
      collapseKey: collapse_key,
    });
    return { status: 200, body: { id: `message-${rings.length}` } };
  };

  const server = await startVendorServer({
    hosts: ["push.example.com", "auth.push.example.com"],
    handle: (request) => {
      if (request.method !== "POST") return refusal(405, "method");
      return request.host === "auth.push.example.com" ? issue(request) : take(request);
    },
  });
  return {
    server,
    rings,
    issued,
    purposeOf: ({ host }) => (host === "auth.push.example.com" ? "credential" : "ring"),
    close: () => server.close(),
  };
}

function refusal(status: number, error: string): VendorReply {
  return { status, body: { error } };
}
