/**
 * Rooms over Pusher Channels.
 *
 *   const device = createDevice({ id: "phone-7", handlers, meshKeys, connectors: [pusherConnector()] });
 *
 * Needs the package `pusher-js`. The ring brings a token with which the mesh is asked to sign for each connection to Pusher;
 * the device has no secret of the app. A page in a browser needs its origin in the mesh's `server.cors_origins`.
 */
import { type Clock, isLoopbackHost, type Ring, systemClock } from "@leafmesh/protocol";
import type PusherJs from "pusher-js";
import { isAllowedHttpAddress } from "../addresses.ts";
import { type Connector, JoinError } from "../connector.ts";
import { PusherSeat } from "./pusher-seat.ts";
import { createVouching, type Fetch } from "./pusher-vouching.ts";

export type PusherClass = typeof PusherJs.default;
/** Pusher's library: `import Pusher from "pusher-js"`. Bundlers differ in what they make of that. */
export type PusherModule = PusherClass | { readonly default: PusherClass };

export interface PusherConnectorOptions {
  /** Pusher's library. Imported on first use unless given. */
  readonly pusher?: PusherModule | undefined;
  /** The runtime's own unless given. */
  readonly fetch?: Fetch | undefined;
  readonly clock?: Clock | undefined;
}

/** Serves rings whose room is `pusher`. */
export function pusherConnector(options: PusherConnectorOptions = {}): Connector {
  const { pusher, clock = systemClock, fetch = (...request) => globalThis.fetch(...request) } = options;
  return {
    providers: ["pusher"],
    async join(ring, { capabilities, signal }) {
      const { app, place, vouch, token } = placeIn(ring);
      const Client = classOf(pusher ?? (await import("pusher-js")).default);
      const vouching = createVouching({ url: vouch, token, channel: ring.join.room }, { fetch, clock });
      const seat = new PusherSeat({ app, place, channel: ring.join.room }, { Client, vouching, clock });
      await seat.enter(capabilities, signal);
      return seat;
    },
    async refuse(ring, signal) {
      const { vouch, token } = placeIn(ring);
      await createVouching({ url: vouch, token, channel: ring.join.room }, { fetch, clock }).refuse(signal);
    },
  };
}

/** Where the app is, as Pusher's client takes it. */
export interface PusherAppPlace {
  readonly cluster: string;
  readonly forceTLS: boolean;
  readonly wsHost?: string;
  readonly wsPort?: number;
  readonly wssPort?: number;
}

function placeIn({ join }: Ring): { app: string; place: PusherAppPlace; vouch: string; token: string } {
  const { token, url, params: { app = "", cluster = "", vouch = "" } = {} } = join;
  if (token === undefined || !app || !/^presence-[A-Za-z0-9_\-=@,.;]{1,150}$/.test(join.room)) {
    throw new JoinError("unsupported", "The ring lacks the token, the key or the channel of a Pusher room");
  }
  if (!isAllowedHttpAddress(vouch)) {
    throw new JoinError(
      "unsupported",
      "The mesh's address must start with https://; http:// is for this machine alone",
    );
  }
  return { app, token, vouch, place: url === undefined ? clusterPlace(cluster) : ownPlace(url) };
}

function clusterPlace(cluster: string): PusherAppPlace {
  if (/^[a-z][a-z0-9-]{0,31}$/.test(cluster)) return { cluster, forceTLS: true };
  throw new JoinError("unsupported", "The ring names no cluster of Pusher");
}

/** Plain text to this machine alone. */
function ownPlace(url: string): PusherAppPlace {
  const [, host, port] = /^([A-Za-z0-9.-]{1,253})(?::(\d{1,5}))?$/.exec(url) ?? [];
  if (host === undefined) throw new JoinError("unsupported", "The ring's address is not one of a Pusher server");
  const isPlain = isLoopbackHost(host);
  const socketPort = Number(port ?? (isPlain ? 80 : 443));
  return {
    cluster: "own",
    forceTLS: !isPlain,
    wsHost: host,
    wsPort: socketPort,
    wssPort: socketPort,
  };
}

function classOf(pusher: PusherModule): PusherClass {
  return "default" in pusher ? pusher.default : pusher;
}
