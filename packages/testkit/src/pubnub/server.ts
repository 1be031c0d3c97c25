/**
 * A double of PubNub that its official client connects to unmodified: signed grants of tokens and their enforcement,
 * publishing with its size limit, long polls with catch-up, presence with heartbeats. https://www.pubnub.com/docs/sdks/rest-api
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createAccessManager, type PubNubKeys, RIGHT } from "./access.ts";
import { Channels } from "./channels.ts";
import { type ParsedRequest, parseRequest } from "./request.ts";

/** Where the double can be told to refuse. */
export type PubNubPhase = "grant" | "publish" | "subscribe" | "presence";

/** As the service answers. */
export interface PubNubRefusal {
  readonly status: number;
  readonly message: string;
}

export const PUBNUB_REFUSALS = {
  forbidden: { status: 403, message: "Forbidden" },
  badKey: { status: 400, message: "Invalid Key" },
  quota: { status: 403, message: "Account quota exceeded (2/1000000)" },
  rate: { status: 429, message: "Too many requests" },
  tooLarge: { status: 413, message: "Message Too Large" },
  trouble: { status: 500, message: "Internal Server Error" },
  presenceOff: { status: 400, message: "Presence is not enabled for this subscribe key" },
} as const satisfies Record<string, PubNubRefusal>;

export interface PubNubDoubleOptions {
  readonly keys?: PubNubKeys;
  /** Access Manager is on unless told otherwise: without it everybody may do everything. */
  readonly accessManager?: boolean;
  /** Whether tokens can be revoked; PubNub leaves it off by default. */
  readonly revocable?: boolean;
  readonly presenceTimeoutMs?: number;
}

export interface PubNubDouble {
  readonly keys: PubNubKeys;
  /** `127.0.0.1:<port>`, for the connection's `origin`. */
  readonly origin: string;
  refuse(phase: PubNubPhase, refusal: PubNubRefusal | undefined): void;
  /** Ends the client's polls without an answer and takes no request of it any more, until {@link PubNubDouble.restore}. */
  cut(uuid: string): void;
  restore(uuid: string): void;
  members(channel: string): readonly string[];
  /** Messages taken, in order. */
  readonly published: readonly { readonly channel: string; readonly publisher: string; readonly payload: unknown }[];
  /** Sends as if another client had: for tests of who is believed. */
  inject(channel: string, publisher: string, payload: unknown): void;
  close(): Promise<void>;
}

const DEFAULT_KEYS: PubNubKeys = {
  publishKey: "pub-c-double",
  subscribeKey: "sub-c-double",
  secretKey: "sec-c-pubnub-secret",
};
const MAX_MESSAGE_BYTES = 32 * 1024;
const POLL_MS = 20_000;
const DEFAULT_PRESENCE_SECONDS = 300;
const REGION = 7;

class Refused extends Error {
  readonly refusal: PubNubRefusal;

  constructor(refusal: PubNubRefusal) {
    super(refusal.message);
    this.refusal = refusal;
  }
}

export async function startPubNubDouble(options: PubNubDoubleOptions = {}): Promise<PubNubDouble> {
  const { keys = DEFAULT_KEYS, accessManager = true, revocable = false, presenceTimeoutMs } = options;
  const access = createAccessManager(keys);
  const channels = new Channels({ presenceTimeoutMs });
  const refusals = new Map<PubNubPhase, PubNubRefusal>();
  const gone = new Set<string>();
  const polls = new Map<ServerResponse, string>();
  const published: { channel: string; publisher: string; payload: unknown }[] = [];

  const check = (phase: PubNubPhase): void => {
    const refusal = refusals.get(phase);
    if (refusal) throw new Refused(refusal);
  };
  const allow = (request: ParsedRequest, channel: string, right: number): void => {
    if (accessManager && !access.allows(request, channel, right)) throw new Refused(PUBNUB_REFUSALS.forbidden);
  };
  const isOurs = (key: string | undefined, expected: string): void => {
    if (key !== expected) throw new Refused(PUBNUB_REFUSALS.badKey);
  };

  const grant = (request: ParsedRequest): unknown => {
    const [, , key, , token] = request.parts;
    isOurs(key, keys.subscribeKey);
    check("grant");
    if (!accessManager || !access.isSigned(request)) throw new Refused(PUBNUB_REFUSALS.forbidden);
    if (request.method === "DELETE") {
      if (!revocable) throw new Refused({ status: 400, message: "Revocation is not enabled" });
      return { status: 200, data: { message: access.revoke(token ?? "") ? "Success" : "unknown" } };
    }
    const granted = access.grant(request.body);
    if (granted === undefined) throw new Refused({ status: 400, message: "Invalid grant" });
    return { status: 200, data: { message: "Success", token: granted }, service: "Access Manager" };
  };

  const publish = (request: ParsedRequest): unknown => {
    const [, publishKey, subscribeKey, , channel = "", , inPath] = request.parts;
    isOurs(publishKey, keys.publishKey);
    isOurs(subscribeKey, keys.subscribeKey);
    check("publish");
    allow(request, channel, RIGHT.write);
    const text = inPath ?? request.body;
    if (Buffer.byteLength(text) > MAX_MESSAGE_BYTES) throw new Refused(PUBNUB_REFUSALS.tooLarge);
    const publisher = request.query.values.uuid ?? "";
    const payload: unknown = JSON.parse(text);
    published.push({ channel, publisher, payload });
    return [1, "Sent", String(channels.publish(channel, publisher, payload))];
  };

  const subscribe = async (request: ParsedRequest, response: ServerResponse): Promise<unknown> => {
    const [, , subscribeKey, list = ""] = request.parts;
    const { uuid = "", tt, heartbeat = DEFAULT_PRESENCE_SECONDS } = request.query.values;
    isOurs(subscribeKey, keys.subscribeKey);
    check("subscribe");
    const wanted = list.split(",");
    for (const channel of wanted) allow(request, channel.replace(/-pnpres$/, ""), RIGHT.read);
    const end = channels.enter(wanted, uuid, Number(heartbeat) * 1000);
    polls.set(response, uuid);
    try {
      if (tt === undefined || tt === "0") return { t: { t: String(channels.now()), r: REGION }, m: [] };
      const since = BigInt(tt);
      if (channels.since(wanted, since).length === 0) {
        await channels.next(POLL_MS, (giveUp) => response.once("close", giveUp));
        while (channels.since(wanted, since).length === 0 && !response.destroyed && polls.has(response)) {
          await channels.next(POLL_MS, (giveUp) => response.once("close", giveUp));
        }
      }
      const found = channels.since(wanted, since);
      const last = found.at(-1)?.timetoken ?? since;
      return {
        t: { t: String(last), r: REGION },
        m: found.map(({ timetoken, channel, publisher, payload }) => ({
          ...{ a: "1", f: 0, i: publisher, p: { t: String(timetoken), r: REGION }, k: keys.subscribeKey },
          ...{ c: channel, d: payload, b: channel },
        })),
      };
    } finally {
      end();
      polls.delete(response);
    }
  };

  const presence = (request: ParsedRequest): unknown => {
    const [, , , subscribeKey, , list = "", operation] = request.parts;
    const { uuid = "", heartbeat = DEFAULT_PRESENCE_SECONDS } = request.query.values;
    isOurs(subscribeKey, keys.subscribeKey);
    check("presence");
    const wanted = list.split(",");
    for (const channel of wanted) allow(request, channel.replace(/-pnpres$/, ""), RIGHT.read);
    if (operation === "heartbeat") channels.heartbeat(wanted, uuid, Number(heartbeat) * 1000);
    else if (operation === "leave") for (const channel of wanted) channels.leave(channel, uuid, "leave");
    else {
      const uuids = wanted.flatMap((channel) => channels.members(channel));
      return { status: 200, message: "OK", occupancy: uuids.length, uuids, service: "Presence" };
    }
    return { status: 200, message: "OK", service: "Presence" };
  };

  const route = (request: ParsedRequest, response: ServerResponse): unknown => {
    const [first, second] = request.parts;
    if (first === "time") return [Number(channels.now())];
    if (first === "v3" && second === "pam") return grant(request);
    if (first === "publish") return publish(request);
    if (first === "v2" && second === "subscribe") return subscribe(request, response);
    if (first === "v2" && second === "presence") return presence(request);
    throw new Refused({ status: 404, message: "Not Found" });
  };

  const answer = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const request = await parseRequest(incoming);
    if (gone.has(request.query.values.uuid ?? "")) {
      response.destroy();
      return;
    }
    try {
      send(response, 200, await route(request, response));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      const { status, message } = error.refusal;
      send(response, status, { status, error: true, message, service: "double" });
    }
  };

  const http = createServer((incoming, response) => {
    answer(incoming, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));

  return {
    keys,
    origin: `127.0.0.1:${(http.address() as AddressInfo).port}`,
    refuse(phase, refusal) {
      if (refusal) refusals.set(phase, refusal);
      else refusals.delete(phase);
    },
    cut(uuid) {
      gone.add(uuid);
      for (const [response, poller] of polls) if (poller === uuid) response.destroy();
    },
    restore: (uuid) => void gone.delete(uuid),
    members: (channel) => channels.members(channel),
    published,
    inject: (channel, publisher, payload) => void channels.publish(channel, publisher, payload),
    async close() {
      for (const response of polls.keys()) response.destroy();
      channels.close();
      http.closeAllConnections();
      await new Promise((resolve) => http.close(resolve));
    },
  };
}

function send(response: ServerResponse, status: number, body: unknown): void {
  if (response.destroyed) return;
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}
