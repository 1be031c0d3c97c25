/** Ably's keys, and the tokens that are signed with them. https://ably.com/docs/auth/token#jwt */
import { createHmac } from "node:crypto";
import { Secret } from "@leafmesh/protocol";

export interface AblyKey {
  /** `appId.keyId`: not a secret. */
  readonly name: string;
  readonly secret: Secret;
}

/** `undefined` when the text is not a whole key. */
export function parseAblyKey(text: string): AblyKey | undefined {
  const [, name, secret] = /^([\w-]+\.[\w-]+):(\S+)$/.exec(text) ?? [];
  return name === undefined || secret === undefined ? undefined : { name, secret: new Secret(secret) };
}

/** Rights by channel. */
export type AblyCapability = Readonly<Record<string, readonly ("publish" | "subscribe" | "presence")[]>>;

/** All that the mesh, or a device in its room, does. */
export const ROOM_RIGHTS = ["publish", "subscribe", "presence"] as const;

export interface AblyTokenRequest {
  readonly clientId: string;
  readonly capability: AblyCapability;
  /** Wall clock. */
  readonly nowMs: number;
  readonly lifetimeMs: number;
}

/** Ably refuses a token that is issued in its future. */
const CLOCK_LEEWAY_SECONDS = 30;

export function signAblyToken({ name, secret }: AblyKey, request: AblyTokenRequest): string {
  const { clientId, capability, nowMs, lifetimeMs } = request;
  const claims = {
    iat: Math.floor(nowMs / 1000) - CLOCK_LEEWAY_SECONDS,
    exp: Math.ceil((nowMs + lifetimeMs) / 1000),
    "x-ably-capability": JSON.stringify(capability),
    "x-ably-clientId": clientId,
  };
  const text = `${encoded({ typ: "JWT", alg: "HS256", kid: name })}.${encoded(claims)}`;
  return `${text}.${createHmac("sha256", secret.reveal()).update(text).digest("base64url")}`;
}

function encoded(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString("base64url");
}
