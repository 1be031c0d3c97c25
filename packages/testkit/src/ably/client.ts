/** One connection of the double, which outlives its socket for a while as Ably's do. */
import { randomBytes } from "node:crypto";
import type { RawData, WebSocket } from "ws";
import type { Channels } from "./channels.ts";
import { ABLY_ERRORS, type AblyError, type AblyIdentity } from "./credentials.ts";
import { ACTION, type Frame, frameSchema } from "./wire.ts";

export interface AblyClientOptions {
  readonly channels: Channels;
  readonly maxMessageBytes: number;
  readonly connectionStateMs: number;
  readonly remainPresentMs: number;
  readonly echo: boolean;
  onGone(): void;
}

export class AblyClient {
  readonly connectionId = randomBytes(8).toString("base64url");
  readonly connectionKey = randomBytes(12).toString("base64url");
  readonly identity: AblyIdentity;
  readonly echo: boolean;
  readonly #options: AblyClientOptions;
  #socket: WebSocket | undefined;
  #ids = 0;
  #leaving: NodeJS.Timeout | undefined;
  #forgetting: NodeJS.Timeout | undefined;
  #expiry: NodeJS.Timeout | undefined;

  constructor(identity: AblyIdentity, options: AblyClientOptions) {
    this.identity = identity;
    this.echo = options.echo;
    this.#options = options;
    const leftMs = identity.expiresAtMs - Date.now();
    if (Number.isFinite(leftMs)) this.#expiry = setTimeout(() => this.end(ABLY_ERRORS.tokenExpired), leftMs);
  }

  get isConnected(): boolean {
    return this.#socket !== undefined;
  }

  nextId(): number {
    return this.#ids++;
  }

  start(socket: WebSocket): void {
    this.#socket = socket;
    socket.on("message", (data) => this.#receive(data));
    socket.on("close", () => {
      if (this.#socket === socket) this.#lost();
    });
    socket.on("error", () => {});
    this.send({
      action: ACTION.connected,
      connectionId: this.connectionId,
      connectionDetails: {
        ...(this.identity.clientId === undefined ? {} : { clientId: this.identity.clientId }),
        connectionKey: this.connectionKey,
        maxMessageSize: this.#options.maxMessageBytes,
        maxInboundRate: 250,
        maxFrameSize: 524_288,
        serverId: "double",
        connectionStateTtl: this.#options.connectionStateMs,
        maxIdleInterval: 15_000,
      },
    });
  }

  resume(socket: WebSocket): void {
    clearTimeout(this.#leaving);
    clearTimeout(this.#forgetting);
    this.#socket?.terminate();
    this.start(socket);
  }

  send(frame: Readonly<Record<string, unknown>>): void {
    this.#socket?.send(JSON.stringify(frame));
  }

  /** As when the network is gone. */
  cut(forGood: boolean): void {
    const socket = this.#socket;
    this.#lost();
    socket?.terminate();
    if (forGood) this.#options.onGone();
  }

  /** The service ends the connection and says why. */
  end(error: AblyError): void {
    const retryable = error.code === ABLY_ERRORS.tokenExpired.code || error.code === ABLY_ERRORS.tokenRevoked.code;
    this.send({ action: retryable ? ACTION.disconnected : ACTION.error, error: { ...error, href: "" } });
    this.#socket?.close();
    this.#socket = undefined;
    this.#forget();
  }

  dispose(): void {
    clearTimeout(this.#leaving);
    clearTimeout(this.#forgetting);
    clearTimeout(this.#expiry);
    this.#socket?.terminate();
    this.#socket = undefined;
  }

  #lost(): void {
    this.#socket = undefined;
    const { remainPresentMs, connectionStateMs, channels } = this.#options;
    clearTimeout(this.#leaving);
    this.#leaving = setTimeout(() => channels.forget(this), remainPresentMs);
    this.#forgetting = setTimeout(() => this.#forget(), Math.max(connectionStateMs, remainPresentMs));
  }

  #forget(): void {
    this.dispose();
    this.#options.channels.forget(this);
    this.#options.onGone();
  }

  #receive(data: RawData): void {
    const frame = frameSchema.safeParse(JSON.parse(data.toString())).data;
    if (frame) this.#handle(frame);
  }

  #handle(frame: Frame): void {
    const { channels } = this.#options;
    switch (frame.action) {
      case ACTION.heartbeat:
        this.send(frame);
        return;
      case ACTION.attach:
        channels.attach(this, frame);
        return;
      case ACTION.detach:
        channels.detach(this, frame.channel ?? "");
        return;
      case ACTION.message:
        this.#acknowledge(frame, channels.publish(this, frame));
        return;
      case ACTION.presence:
        this.#acknowledge(frame, channels.enter(this, frame));
        return;
      case ACTION.close:
        this.send({ action: ACTION.closed });
        this.#socket?.close();
        this.#socket = undefined;
        this.#forget();
        return;
      default:
    }
  }

  #acknowledge({ msgSerial = 0, messages = [] }: Frame, error: AblyError | undefined): void {
    if (error) {
      this.send({ action: ACTION.nack, msgSerial, count: 1, error: { ...error, href: "" } });
      return;
    }
    const res = [{ serials: messages.map((_message, index) => `${this.connectionId}@${msgSerial}:${index}`) }];
    this.send({ action: ACTION.ack, msgSerial, count: 1, res });
  }
}
