/** The mesh's connections to Ably: made on first use, shared by the rooms of one record, closed with it. */
import { type Clock, isLoopbackHost, type Logger } from "@leafmesh/protocol";
import type * as Ably from "ably";
import { type Closable, RoomError } from "../contract.ts";
import { untilAborted } from "../patience.ts";
import { ablyRoomError } from "./ably-errors.ts";
import { type AblyKey, ROOM_RIGHTS, signAblyToken } from "./ably-token.ts";

/** Ably lets a connection hold 200 channels. https://ably.com/docs/platform/pricing/limits */
const ROOMS_PER_CONNECTION = 180;
/** The mesh's own token; Ably's client asks for the next one in time. */
const TOKEN_LIFETIME_MS = 3_600_000;
const RETRY_AFTER_MS = 2_000;
/** By this a device knows the mesh: no token of a device may use it. */
export const MESH_CLIENT_ID = "leafmesh-mesh";

export interface AblyEndpoint {
  readonly host: string;
  readonly port: number | undefined;
}

/** A host name with or without a port; `undefined` for anything else. */
export function parseEndpoint(text: string): AblyEndpoint | undefined {
  const [, host, port] = /^([A-Za-z0-9.-]{1,253})(?::(\d{1,5}))?$/.exec(text) ?? [];
  if (host === undefined) return undefined;
  return { host, port: port === undefined ? undefined : Number(port) };
}

/** What tells Ably's client where to go. Plain text to this machine alone. */
export function placeOptions(place: AblyEndpoint | undefined): Ably.ClientOptions {
  if (!place) return {};
  const { host, port } = place;
  const isLoopback = isLoopbackHost(host);
  return {
    endpoint: host,
    tls: !isLoopback,
    disableConnectivityCheck: true,
    ...(port === undefined ? {} : { port, tlsPort: port }),
  };
}

export interface AblyLinksOptions {
  readonly key: AblyKey;
  readonly place: AblyEndpoint | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}

interface Link {
  readonly client: Ably.Realtime;
  rooms: number;
}

/** A channel of one room, attached. */
export interface AblyChannel {
  readonly client: Ably.Realtime;
  readonly channel: Ably.RealtimeChannel;
  /** Gives the channel's place back. Never throws. */
  release(): Promise<void>;
}

export class AblyLinks implements Closable {
  readonly #options: AblyLinksOptions;
  readonly #links = new Set<Link>();
  #closed = false;

  constructor(options: AblyLinksOptions) {
    this.#options = options;
  }

  /** Connects if it has to. Throws {@link RoomError}. */
  async channel(name: string, signal: AbortSignal): Promise<AblyChannel> {
    const ably = await import("ably");
    if (this.#closed) throw new RoomError("unavailable", "The connection to Ably is closed.");
    const link = this.#freeLink(ably);
    link.rooms++;
    const { client } = link;
    const channel = client.channels.get(name, { attachOnSubscribe: false });
    const release = async (): Promise<void> => {
      link.rooms--;
      await channel.detach().catch(() => {});
      client.channels.release(name);
    };
    try {
      await untilAborted(connected(client), signal, "Ably");
      return { client, channel, release };
    } catch (error) {
      void release().catch(() => {});
      throw error instanceof RoomError ? error : ablyRoomError(error);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const { client } of this.#links) client.close();
    this.#links.clear();
  }

  #freeLink(ably: typeof Ably): Link {
    for (const link of this.#links) if (link.rooms < ROOMS_PER_CONNECTION) return link;
    const link: Link = { client: this.#connect(ably), rooms: 0 };
    this.#links.add(link);
    // A connection that Ably has refused stays refused: the next room starts afresh.
    link.client.connection.on("failed", ({ reason }) => {
      this.#links.delete(link);
      this.#options.logger.warn("the connection to Ably failed", { code: reason?.code });
    });
    return link;
  }

  #connect(ably: typeof Ably): Ably.Realtime {
    const { key, place, clock } = this.#options;
    return new ably.Realtime({
      ...placeOptions(place),
      clientId: MESH_CLIENT_ID,
      authCallback: (_params, done) =>
        done(
          null,
          signAblyToken(key, {
            clientId: MESH_CLIENT_ID,
            capability: { "leafmesh:*": ROOM_RIGHTS },
            nowMs: clock.nowMs(),
            lifetimeMs: TOKEN_LIFETIME_MS,
          }),
        ),
      // What cannot leave now must not leave later.
      queueMessages: false,
      echoMessages: false,
      useBinaryProtocol: false,
      // Ably's client would look again after 15 s only.
      disconnectedRetryTimeout: RETRY_AFTER_MS,
      logLevel: 0,
    });
  }
}

/** Resolves once it is; rejects when Ably says no. While the network is away it waits on. */
async function connected({ connection }: Ably.Realtime): Promise<void> {
  if (connection.state === "connected") return;
  await new Promise<void>((resolve, reject) => {
    const look = ({ current, reason }: Pick<Ably.ConnectionStateChange, "current" | "reason">): void => {
      if (current === "connected") resolve();
      else if (current === "failed" || current === "closed") reject(ablyRoomError(reason ?? {}));
      else return;
      connection.off(look);
    };
    connection.on(look);
    look({ current: connection.state, reason: connection.errorReason ?? undefined });
  });
}
