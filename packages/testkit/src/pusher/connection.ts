/** One client on the double's socket: Pusher protocol 7. */
import type { WebSocket } from "ws";
import { Channels, type Subscriber } from "./channels.ts";
import { type ClientEvent, clientEventMessage, MAX_DATA_BYTES, type PusherFault } from "./protocol.ts";
import { isVouched, type PusherApp } from "./signatures.ts";

export interface ConnectionRules {
  readonly app: PusherApp;
  readonly channels: Channels;
  readonly clientEvents: boolean;
  /** Who may not come back for now. */
  isGone(userId: string): boolean;
  onClientEvent(event: ClientEvent): void;
  onEnd(): void;
}

const MAX_USER_ID_CHARACTERS = 128;
const CLIENT_EVENTS_PER_SECOND = 10;
const CLIENT_EVENTS_OFF: PusherFault = {
  code: null,
  message: "To send client events, you must enable this feature in the Settings page of your dashboard.",
};

export class Connection implements Subscriber {
  readonly socketId: string;
  readonly #socket: WebSocket;
  readonly #rules: ConnectionRules;
  #sentAtMs: number[] = [];
  #removal: NodeJS.Timeout | undefined;
  #isCut = false;

  constructor(socket: WebSocket, socketId: string, rules: ConnectionRules) {
    this.#socket = socket;
    this.socketId = socketId;
    this.#rules = rules;
    socket.on("message", (text) => this.#take(String(text)));
    socket.on("error", () => socket.terminate());
    socket.on("close", () => {
      if (!this.#isCut) this.#remove();
    });
    const data = JSON.stringify({ socket_id: socketId, activity_timeout: 120 });
    this.send({ event: "pusher:connection_established", data });
  }

  userIds(): readonly string[] {
    const { channels } = this.#rules;
    return channels.names().flatMap((name) => channels.userOf(name, this) ?? []);
  }

  send(message: object): void {
    if (this.#socket.readyState === this.#socket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  fail(fault: PusherFault): void {
    this.send({ event: "pusher:error", data: fault });
  }

  end(fault: PusherFault & { readonly code: number }): void {
    this.fail(fault);
    this.#socket.close(fault.code, fault.message);
  }

  /** The network is gone without a word: the others hear of it when Pusher has noticed. */
  cut(lossSeenMs: number): void {
    this.#isCut = true;
    this.#socket.terminate();
    this.#removal = setTimeout(() => this.#remove(), lossSeenMs);
  }

  dispose(): void {
    clearTimeout(this.#removal);
    this.#socket.terminate();
  }

  #remove(): void {
    this.#rules.channels.gone(this);
    this.#rules.onEnd();
  }

  #take(text: string): void {
    const message = parsed(text);
    if (!message) {
      this.fail({ code: null, message: "Malformed message" });
      return;
    }
    const { event, data, channel } = message;
    if (event === "pusher:ping") this.send({ event: "pusher:pong", data: "{}" });
    else if (event === "pusher:subscribe") this.#subscribe(fields(data));
    else if (event === "pusher:unsubscribe") this.#rules.channels.unsubscribe(String(fields(data).channel), this);
    else if (typeof event === "string" && event.startsWith("client-")) this.#clientEvent(event, channel, data);
    else if (event !== "pusher:pong") this.fail({ code: null, message: "Unknown event" });
  }

  #subscribe({ channel, auth, channel_data: channelData }: Readonly<Record<string, unknown>>): void {
    if (!Channels.isName(channel)) {
      this.fail({ code: null, message: "Invalid channel name" });
      return;
    }
    const isPresence = channel.startsWith("presence-");
    const isOpen = !isPresence && !channel.startsWith("private-");
    const signed = `${this.socketId}:${channel}${isPresence ? `:${String(channelData)}` : ""}`;
    if (!isOpen && !isVouched(this.#rules.app, signed, auth)) {
      this.fail({ code: 4009, message: `Invalid signature: Expected HMAC SHA256 hex digest of ${signed}` });
      return;
    }
    const { user_id: userId } = fields(isPresence ? parsed(String(channelData)) : {});
    if (isPresence && (typeof userId !== "string" || userId === "" || userId.length > MAX_USER_ID_CHARACTERS)) {
      this.fail({ code: 4009, message: "Invalid channel_data: user_id" });
      return;
    }
    if (typeof userId === "string" && this.#rules.isGone(userId)) {
      this.#socket.terminate();
      return;
    }
    this.#rules.channels.subscribe(channel, this, isPresence ? String(userId) : undefined);
  }

  #clientEvent(name: string, channel: unknown, data: unknown): void {
    const { channels, clientEvents } = this.#rules;
    if (!clientEvents) {
      this.fail(CLIENT_EVENTS_OFF);
      return;
    }
    const isMember = typeof channel === "string" && channels.has(channel, this);
    if (!isMember || !/^(private|presence)-/.test(channel)) {
      this.fail({
        code: null,
        message: "Client event rejected - only supported on private and presence channels",
      });
      return;
    }
    if (Buffer.byteLength(JSON.stringify(data ?? null)) > MAX_DATA_BYTES) {
      this.fail({ code: 4301, message: "The data content of this event exceeds the allowed maximum" });
      return;
    }
    const nowMs = performance.now();
    this.#sentAtMs = this.#sentAtMs.filter((atMs) => nowMs - atMs < 1_000);
    if (this.#sentAtMs.length >= CLIENT_EVENTS_PER_SECOND) {
      this.fail({ code: 4301, message: "Client event rejected due to rate limit" });
      return;
    }
    this.#sentAtMs.push(nowMs);
    const userId = channels.userOf(channel, this);
    this.#rules.onClientEvent({ channel, name, data, userId });
    channels.relay(channel, clientEventMessage({ channel, name, data, userId }), this);
  }
}

function parsed(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    return fields(JSON.parse(text));
  } catch {
    return undefined;
  }
}

function fields(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}
