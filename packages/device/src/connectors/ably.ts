/**
 * Rooms over Ably.
 *
 *   const device = createDevice({ id: "phone-7", handlers, meshKeys, connectors: [ablyConnector()] });
 *
 * Needs the package `ably`. The ring brings a token for one channel; the device has no key.
 */
import { type Clock, isLoopbackHost, type Ring, systemClock } from "@leafmesh/protocol";
import type * as Ably from "ably";
import { type Connector, JoinError } from "../connector.ts";
import { type AblyPlace, AblySeat } from "./ably-seat.ts";

/** What of Ably's library is used: `import * as Ably from "ably"`. */
export interface AblyModule {
  readonly Realtime: new (options: Ably.ClientOptions) => Ably.Realtime;
}

export interface AblyConnectorOptions {
  /** Ably's library. Imported on first use unless given. */
  readonly ably?: AblyModule | undefined;
  readonly clock?: Clock | undefined;
}

const RETRY_AFTER_MS = 2_000;

/** Serves rings whose room is `ably`. */
export function ablyConnector(options: AblyConnectorOptions = {}): Connector {
  const seatFor = async (ring: Ring): Promise<AblySeat> => {
    const place = placeOf(ring);
    const { Realtime } = options.ably ?? (await import("ably"));
    return new AblySeat(place, new Realtime(clientOptions(ring, place)), options.clock ?? systemClock);
  };
  return {
    providers: ["ably"],
    async join(ring, { capabilities, signal }) {
      const seat = await seatFor(ring);
      await seat.enter(capabilities, signal);
      return seat;
    },
    async refuse(ring, signal) {
      const seat = await seatFor(ring);
      await seat.refuse(signal);
    },
  };
}

function placeOf(ring: Ring): AblyPlace {
  const { room, token, params: { client = "", mesh = "" } = {} } = ring.join;
  if (token === undefined || client === "" || mesh === "") {
    throw new JoinError("unsupported", "The ring lacks the token or the names of an Ably room");
  }
  return { channel: room, client, mesh };
}

function clientOptions({ join }: Ring, { client }: AblyPlace): Ably.ClientOptions {
  return {
    token: join.token ?? "",
    clientId: client,
    echoMessages: false,
    useBinaryProtocol: false,
    // Ably's client would look again after 15 s only.
    disconnectedRetryTimeout: RETRY_AFTER_MS,
    logLevel: 0,
    // The mesh is to see soon that a device is gone. https://ably.com/docs/presence-occupancy/presence#unstable-connections
    transportParams: { remainPresentFor: 5_000, heartbeatInterval: 5_000 },
    ...endpointOptions(join.url),
  };
}

/** Plain text to this machine alone. */
function endpointOptions(url: string | undefined): Ably.ClientOptions {
  if (url === undefined) return {};
  const [, host, port] = /^([A-Za-z0-9.-]{1,253})(?::(\d{1,5}))?$/.exec(url) ?? [];
  if (host === undefined) throw new JoinError("unsupported", "The ring's address is not one of an Ably endpoint");
  const tls = !isLoopbackHost(host);
  const ports = port === undefined ? {} : { port: Number(port), tlsPort: Number(port) };
  return { endpoint: host, tls, disableConnectivityCheck: true, ...ports };
}
