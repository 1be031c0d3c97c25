/**
 * A double of Pusher Channels that its official clients (`pusher-js`, `pusher`) use unmodified: protocol 7 over WebSocket and
 * the HTTP API, with the signatures, names, sizes and rates that Pusher holds them to.
 * https://pusher.com/docs/channels/library_auth_reference/pusher-websockets-protocol/
 */
import { randomInt } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { type WebSocket, WebSocketServer } from "ws";
import { Channels } from "./channels.ts";
import { Connection } from "./connection.ts";
import { type ClientEvent, clientEventMessage, MAX_DATA_BYTES, type PusherFault } from "./protocol.ts";
import { type PusherApp, requestFault } from "./signatures.ts";

export type { PusherApp } from "./signatures.ts";

/** As the HTTP API answers. */
export interface PusherRefusal {
  readonly status: number;
  readonly body: string;
}

export const PUSHER_REFUSALS = {
  badSignature: { status: 401, body: "Invalid signature" },
  disabled: { status: 403, body: "Application disabled" },
  quota: { status: 403, body: "API call failed since (daily) message quota exceeded" },
  rate: { status: 429, body: "Too many requests" },
  tooLarge: { status: 413, body: "The data content of this event exceeds the allowed maximum (10240 bytes)" },
  trouble: { status: 500, body: "Internal server error" },
} as const satisfies Record<string, PusherRefusal>;

export interface PusherDoubleOptions {
  readonly app?: PusherApp;
  /** "Enable client events" of App Settings; on unless told otherwise. */
  readonly clientEvents?: boolean;
  /** Until a lost client is seen as gone; Pusher takes up to 75 s. */
  readonly lossSeenMs?: number;
}

export interface PusherDouble {
  readonly app: PusherApp;
  /** `127.0.0.1:<port>`, for the connection's `cluster`. */
  readonly host: string;
  /** How every new connection ends from now on. */
  refuseConnections(fault: (PusherFault & { readonly code: number }) | undefined): void;
  /** How every event over HTTP is answered from now on. */
  refuseEvents(refusal: PusherRefusal | undefined): void;
  /** All connections end as when the app is disabled (4003). */
  disable(): void;
  /** The connections of this user are gone without a word; `forGood`: until {@link PusherDouble.restore}. */
  cut(userId: string, how?: { readonly forGood?: boolean; readonly lossSeenMs?: number }): void;
  restore(userId: string): void;
  /** Ids of who is present in a channel. */
  users(channel: string): readonly string[];
  /** Events taken over HTTP, in order. */
  readonly triggered: readonly { readonly channel: string; readonly name: string; readonly data: string }[];
  /** Client events relayed, in order. */
  readonly clientEvents: readonly ClientEvent[];
  /** Relays a client event as if a member had sent it: for tests of who is believed. */
  inject(event: ClientEvent): void;
  close(): Promise<void>;
}

const DEFAULT_APP: PusherApp = { appId: "1234567", key: "pusher-key", secret: "pusher-app-secret" };
const MAX_BODY_BYTES = 64 * 1024;
const MAX_CHANNELS = 100;
const MAX_EVENT_NAME_CHARACTERS = 200;
const LOSS_SEEN_MS = 75_000;

export async function startPusherDouble(options: PusherDoubleOptions = {}): Promise<PusherDouble> {
  const { app = DEFAULT_APP, clientEvents = true, lossSeenMs = LOSS_SEEN_MS } = options;
  const channels = new Channels();
  const connections = new Set<Connection>();
  const gone = new Set<string>();
  const triggered: { channel: string; name: string; data: string }[] = [];
  const relayed: ClientEvent[] = [];
  let connectionFault: (PusherFault & { readonly code: number }) | undefined;
  let eventRefusal: PusherRefusal | undefined;

  const takeEvent = (body: string): PusherRefusal => {
    if (eventRefusal) return eventRefusal;
    const { name, channel, channels: many, data } = JSON.parse(body) as Readonly<Record<string, unknown>>;
    const names: readonly unknown[] = Array.isArray(many) ? many : [channel];
    if (typeof name !== "string" || name.length > MAX_EVENT_NAME_CHARACTERS || typeof data !== "string") {
      return { status: 400, body: "Invalid event" };
    }
    if (Buffer.byteLength(data) > MAX_DATA_BYTES) return PUSHER_REFUSALS.tooLarge;
    if (names.length > MAX_CHANNELS || !names.every(Channels.isName)) return { status: 400, body: "Invalid channel" };
    for (const each of names) {
      triggered.push({ channel: each, name, data });
      channels.trigger(each, { event: name, channel: each, data });
    }
    return { status: 200, body: "{}" };
  };

  const answer = async (request: IncomingMessage): Promise<PusherRefusal> => {
    const { pathname: path, searchParams: query } = new URL(request.url ?? "/", "http://double");
    const { method = "GET" } = request;
    const body = await readBody(request);
    if (body === undefined) return PUSHER_REFUSALS.tooLarge;
    const [, apps, appId, what, channel, users] = path.split("/");
    if (apps !== "apps" || appId !== app.appId) return { status: 404, body: "Unknown app" };
    const fault = requestFault(app, { method, path, query, body });
    if (fault !== undefined) return { status: 401, body: fault };
    if (method === "POST" && what === "events") return takeEvent(body);
    if (method === "GET" && what === "channels" && users === "users" && channel) {
      return json({ users: channels.users(channel).map((id) => ({ id })) });
    }
    if (method === "GET" && what === "channels" && channel === undefined) {
      const prefix = query.get("filter_by_prefix") ?? "";
      const names = channels.names().filter((name) => name.startsWith(prefix));
      return json({ channels: Object.fromEntries(names.map((name) => [name, {}])) });
    }
    return { status: 404, body: "Not found" };
  };

  const http = createServer((request, response) => {
    answer(request).then(
      ({ status, body }) => response.writeHead(status, { "content-type": "application/json" }).end(body),
      () => response.writeHead(400).end("Bad request"),
    );
  });
  const sockets = new WebSocketServer({ server: http, maxPayload: 1024 * 1024 });
  sockets.on("connection", (socket: WebSocket, request: IncomingMessage) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://double");
    const fault = connectionFault ?? connectFault(pathname, searchParams, app);
    if (fault) {
      socket.send(JSON.stringify({ event: "pusher:error", data: fault }));
      socket.close(fault.code, fault.message);
      return;
    }
    const connection: Connection = new Connection(socket, `${randomInt(1e9)}.${randomInt(1e9)}`, {
      ...{ app, channels, clientEvents },
      isGone: (userId) => gone.has(userId),
      onClientEvent: (event) => relayed.push(event),
      onEnd: () => connections.delete(connection),
    });
    connections.add(connection);
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));

  return {
    app,
    host: `127.0.0.1:${(http.address() as AddressInfo).port}`,
    refuseConnections(fault) {
      connectionFault = fault;
    },
    refuseEvents(refusal) {
      eventRefusal = refusal;
    },
    disable() {
      for (const connection of connections) connection.end({ code: 4003, message: "Application disabled" });
    },
    cut(userId, how) {
      if (how?.forGood) gone.add(userId);
      for (const connection of connections)
        if (connection.userIds().includes(userId)) connection.cut(how?.lossSeenMs ?? lossSeenMs);
    },
    restore: (userId) => void gone.delete(userId),
    users: (channel) => channels.users(channel),
    triggered,
    clientEvents: relayed,
    inject: (event) => channels.relay(event.channel, clientEventMessage(event)),
    async close() {
      for (const connection of connections) connection.dispose();
      sockets.close();
      http.closeAllConnections();
      await new Promise((resolve) => http.close(resolve));
    },
  };
}

function connectFault(
  path: string,
  query: URLSearchParams,
  { key }: PusherApp,
): (PusherFault & { readonly code: number }) | undefined {
  if (path !== `/app/${key}`)
    return { code: 4001, message: "App key not in this cluster. Did you forget to specify the cluster?" };
  if (query.get("protocol") === null) return { code: 4008, message: "No protocol version supplied" };
  return query.get("protocol") === "7" ? undefined : { code: 4007, message: "Unsupported protocol version" };
}

function json(body: object): PusherRefusal {
  return { status: 200, body: JSON.stringify(body) };
}

async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += chunk.length;
    if (bytes > MAX_BODY_BYTES) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}
