/**
 * Rooms over PubNub.
 *
 *   const device = createDevice({ id: "phone-7", handlers, meshKeys, connectors: [pubnubConnector()] });
 *
 * Needs the package `pubnub`. The ring brings a token for two channels; the device has no secret key.
 */
import { type Clock, isLoopbackHost, type Ring, systemClock } from "@leafmesh/protocol";
import type PubNub from "pubnub";
import { type Connector, JoinError } from "../connector.ts";
import { PubNubSeat } from "./pubnub-seat.ts";

/** What of PubNub's library is used: `import PubNub from "pubnub"`. */
export type PubNubModule = new (configuration: PubNub.PubNubConfiguration) => PubNub;

export interface PubNubConnectorOptions {
  /** PubNub's library. Imported on first use unless given. */
  readonly pubnub?: PubNubModule | undefined;
  readonly clock?: Clock | undefined;
}

/** Seconds of silence after which PubNub says that the device is gone; its client speaks up every nine then. */
const PRESENCE_TIMEOUT_SECONDS = 20;
const RETRY_AFTER_MS = 2_000;
/** What trying again does not help against. */
const REFUSED: ReadonlySet<string> = new Set(["PNAccessDeniedCategory", "PNBadRequestCategory"]);

/** Serves rings whose room is `pubnub`. */
export function pubnubConnector({ pubnub, clock = systemClock }: PubNubConnectorOptions = {}): Connector {
  const seatFor = async (ring: Ring): Promise<PubNubSeat> => {
    const configuration = configurationFor(ring);
    const Client = pubnub ?? (await import("pubnub")).default;
    const client = new Client(configuration);
    client.setToken(ring.join.token);
    const { mesh = "", since = "" } = ring.join.params ?? {};
    return new PubNubSeat({ room: ring.join.room, mesh, since }, client, clock);
  };
  return {
    providers: ["pubnub"],
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

function configurationFor({ join }: Ring): PubNub.PubNubConfiguration {
  const { token, url, params: { publish = "", subscribe = "", user = "", mesh = "", since = "" } = {} } = join;
  if (token === undefined || !publish || !subscribe || !user || !mesh || !/^\d+$/.test(since)) {
    throw new JoinError("unsupported", "The ring lacks the token, the keys or the names of a PubNub room");
  }
  if (url !== undefined && !/^[A-Za-z0-9.-]{1,253}(:\d{1,5})?$/.test(url)) {
    throw new JoinError("unsupported", "The ring's address is not one of a PubNub origin");
  }
  // Plain text to this machine alone.
  const place = url === undefined ? {} : { origin: url, ssl: !isLoopbackHost(url.replace(/:\d+$/, "")) };
  return {
    publishKey: publish,
    subscribeKey: subscribe,
    userId: user,
    ...place,
    enableEventEngine: true,
    presenceTimeout: PRESENCE_TIMEOUT_SECONDS,
    // Listening goes on over a lost network. What is sent is repeated by the seat, which knows when the room is over.
    retryConfiguration: {
      shouldRetry: ({ path }, _response, category) => path.startsWith("/v2/subscribe") && !REFUSED.has(category ?? ""),
      getDelay: () => RETRY_AFTER_MS,
      validate: () => {},
    },
  };
}
