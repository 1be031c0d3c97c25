/**
 * A double of Ably that its official client connects to unmodified: token requests and JWTs with their signatures and
 * rights checked, channels with presence, rewind, resume and idempotent publishing, sizes, and the documented refusals.
 * JSON over WebSocket and REST; no message packing, no long polling, no history beyond two minutes' worth of messages.
 * https://ably.com/docs/api/realtime-sdk, https://github.com/ably/ably-js
 */
import { randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { WebSocketServer } from "ws";
import { createChannels } from "./channels.ts";
import { AblyClient } from "./client.ts";
import {
  ABLY_ERRORS,
  type AblyError,
  type AblyIdentity,
  type Capability,
  checkTokenRequest,
  identifyJwt,
  tokenRequestSchema,
} from "./credentials.ts";
import { ACTION } from "./wire.ts";

/** Where the double can be told to refuse. */
export type AblyPhase = "connect" | "attach" | "publish" | "requestToken";

export interface AblyDoubleOptions {
  /** The one key that it knows. */
  readonly key?: string;
  /** What the key may do; everything unless given. */
  readonly capability?: Capability;
  /** Whether tokens of the key can be revoked. */
  readonly revocable?: boolean;
  readonly maxMessageBytes?: number;
  /** How long a lost connection can be taken up again. */
  readonly connectionStateMs?: number;
  /** Replaces what clients ask for: how long a member stays present once its connection is lost. */
  readonly remainPresentMs?: number;
}

export interface AblyDouble {
  readonly key: string;
  /** `127.0.0.1:<port>`, for the connection's `endpoint`. */
  readonly endpoint: string;
  /** Answers with this at `phase` until told otherwise. */
  refuse(phase: AblyPhase, error: AblyError | undefined): void;
  /** Cuts the connections of a client without a word. With `forGood` it cannot come back. */
  cut(clientId: string, how?: { readonly forGood: boolean }): void;
  /** After a cut for good: the client may connect again. */
  restore(clientId: string): void;
  /** Client ids that are connected now. */
  readonly connected: readonly string[];
  /** Messages taken, in order. */
  readonly published: readonly { readonly channel: string; readonly clientId: string; readonly data: unknown }[];
  /** Sends as if another client had: for tests of who is believed. */
  inject(channel: string, message: { readonly clientId: string; readonly name?: string; readonly data: unknown }): void;
  close(): Promise<void>;
}

const DEFAULT_KEY = "appId.keyId:ably-key-secret";
const MAX_MESSAGE_BYTES = 65_536;
const MAX_BODY_BYTES = 64 * 1024;

export async function startAblyDouble(options: AblyDoubleOptions = {}): Promise<AblyDouble> {
  const { key: fullKey = DEFAULT_KEY, capability = { "*": ["*"] }, revocable = false } = options;
  const { maxMessageBytes = MAX_MESSAGE_BYTES, connectionStateMs = 120_000, remainPresentMs } = options;
  const [name = "", secret = ""] = fullKey.split(":");
  const key = { name, secret, capability };
  const refusals = new Map<AblyPhase, AblyError>();
  const gone = new Set<string>();
  const revoked = new Set<string>();
  const nonces = new Set<string>();
  const clients = new Map<string, AblyClient>();
  const channels = createChannels({ maxMessageBytes, refusal: (phase) => refusals.get(phase) });

  const identify = (query: URLSearchParams): AblyIdentity | AblyError => {
    const refusal = refusals.get("connect");
    if (refusal) return refusal;
    const token = query.get("accessToken") ?? query.get("access_token");
    if (token === null) {
      if (query.get("key") !== fullKey) return ABLY_ERRORS.badKey;
      const clientId = query.get("clientId") ?? undefined;
      return { capability, clientId, expiresAtMs: Number.POSITIVE_INFINITY, revocationKey: undefined };
    }
    const identity = identifyJwt(token, key, Date.now());
    if ("code" in identity) return identity;
    if (identity.revocationKey !== undefined && revoked.has(identity.revocationKey)) return ABLY_ERRORS.tokenRevoked;
    const wanted = query.get("clientId");
    if (wanted !== null && identity.clientId !== undefined && identity.clientId !== wanted) {
      return ABLY_ERRORS.clientIdMismatch;
    }
    if (identity.clientId !== undefined && gone.has(identity.clientId)) return ABLY_ERRORS.badToken;
    return identity;
  };

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { pathname } = new URL(request.url ?? "/", "http://double");
    const [, first, second, third] = pathname.split("/").map(decodeURIComponent);
    if (pathname === "/time") return send(response, 200, [Date.now()]);
    if (request.method !== "POST" || first !== "keys" || second !== name) return fail(response, ABLY_ERRORS.badKey);
    const body = await readJson(request);
    if (third === "requestToken") {
      const refusal = refusals.get("requestToken");
      if (refusal) return fail(response, refusal);
      const parsed = tokenRequestSchema.safeParse(body).data;
      if (!parsed) return fail(response, ABLY_ERRORS.badToken);
      const granted = checkTokenRequest(parsed, key);
      if ("code" in granted && typeof granted.code === "number") return fail(response, granted as AblyError);
      if (nonces.has(parsed.nonce)) return fail(response, ABLY_ERRORS.replayed);
      nonces.add(parsed.nonce);
      const issued = Date.now();
      return send(response, 201, {
        token: `${name}.${randomBytes(24).toString("base64url")}`,
        ...{ keyName: name, issued, expires: issued + (parsed.ttl ?? 3_600_000), capability: JSON.stringify(granted) },
      });
    }
    if (third === "revokeTokens") {
      if (!isBasic(request, fullKey)) return fail(response, ABLY_ERRORS.badKey);
      if (!revocable) return fail(response, ABLY_ERRORS.notRevocable);
      const targets = (body as { targets?: readonly string[] } | undefined)?.targets ?? [];
      for (const target of targets) revoke(target);
      return send(response, 201, { successCount: targets.length, failureCount: 0, results: [] });
    }
    return fail(response, ABLY_ERRORS.badToken);
  };

  const revoke = (target: string): void => {
    const [kind = "", value = ""] = target.split(/:(.*)/s);
    if (kind !== "revocationKey") return;
    revoked.add(value);
    for (const client of clients.values()) {
      if (client.identity.revocationKey === value) client.end(ABLY_ERRORS.tokenRevoked);
    }
  };

  const http = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy());
  });
  const sockets = new WebSocketServer({ server: http, maxPayload: 1024 * 1024 });
  sockets.on("connection", (socket, request) => {
    const query = new URL(request.url ?? "/", "http://double").searchParams;
    const identity = identify(query);
    if ("code" in identity) {
      // What may pass is no end of the connection: the client tries again.
      const action = identity.code >= 50_000 ? ACTION.disconnected : ACTION.error;
      socket.send(JSON.stringify({ action, error: { ...identity, href: "" } }));
      socket.close();
      return;
    }
    const resumed = [...clients.values()].find(({ connectionKey }) => connectionKey === query.get("resume"));
    if (resumed) return resumed.resume(socket);
    const remain = remainPresentMs ?? Number(query.get("remainPresentFor") ?? 15_000);
    const client = new AblyClient(identity, {
      channels,
      maxMessageBytes,
      connectionStateMs,
      remainPresentMs: remain,
      echo: query.get("echo") !== "false",
      onGone: () => clients.delete(client.connectionId),
    });
    clients.set(client.connectionId, client);
    client.start(socket);
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));

  return {
    key: fullKey,
    endpoint: `127.0.0.1:${(http.address() as AddressInfo).port}`,
    refuse(phase, error) {
      if (error) refusals.set(phase, error);
      else refusals.delete(phase);
    },
    cut(clientId, how) {
      if (how?.forGood) gone.add(clientId);
      for (const client of clients.values())
        if (client.identity.clientId === clientId) client.cut(how?.forGood === true);
    },
    restore: (clientId) => void gone.delete(clientId),
    get connected() {
      return [...clients.values()].flatMap(({ identity, isConnected }) =>
        isConnected ? (identity.clientId ?? []) : [],
      );
    },
    published: channels.published,
    inject: (channel, message) => channels.inject(channel, message),
    async close() {
      for (const client of clients.values()) client.dispose();
      sockets.close();
      http.closeAllConnections();
      await new Promise((resolve) => http.close(resolve));
    },
  };
}

function isBasic(request: IncomingMessage, key: string): boolean {
  return request.headers.authorization === `Basic ${Buffer.from(key).toString("base64")}`;
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += chunk.length;
    if (bytes > MAX_BODY_BYTES) throw new Error("too large");
    chunks.push(chunk);
  }
  return JSON.parse(Buffer.concat(chunks).toString("utf8"));
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}

function fail(response: ServerResponse, error: AblyError): void {
  response.writeHead(error.statusCode, {
    "content-type": "application/json",
    ...{ "x-ably-errorcode": `${error.code}`, "x-ably-errormessage": error.message },
  });
  response.end(JSON.stringify({ error: { ...error, href: "" } }));
}
