/** Signatures of the app's secret. https://pusher.com/docs/channels/library_auth_reference/auth-signatures/ */
import { createHash, createHmac } from "node:crypto";
import type { RoomVoucher } from "@leafmesh/protocol";
import type { PusherOptions } from "./pusher.ts";

/** Lets one connection into one presence channel, as `userId`. */
export function signSubscription(
  { key, secret }: PusherOptions,
  { socketId, channel, userId }: { readonly socketId: string; readonly channel: string; readonly userId: string },
): RoomVoucher {
  const channelData = JSON.stringify({ user_id: userId });
  const signature = hmac(secret.reveal(), `${socketId}:${channel}:${channelData}`);
  return { auth: `${key}:${signature}`, channel_data: channelData };
}

/** The path with the query that signs it. https://pusher.com/docs/channels/library_auth_reference/rest-api/#authentication */
export function signedTarget({ key, secret }: PusherOptions, path: string, body: string, nowMs: number): string {
  const query = [
    `auth_key=${encodeURIComponent(key)}`,
    `auth_timestamp=${Math.floor(nowMs / 1000)}`,
    "auth_version=1.0",
    `body_md5=${createHash("md5").update(body).digest("hex")}`,
  ].join("&");
  return `${path}?${query}&auth_signature=${hmac(secret.reveal(), `POST\n${path}\n${query}`)}`;
}

function hmac(secret: string, text: string): string {
  return createHmac("sha256", secret).update(text).digest("hex");
}
