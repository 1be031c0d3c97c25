/**
 * Rooms over LiveKit.
 *
 *   const device = createDevice({ id: "phone-7", handlers, meshKeys, connectors: [livekitConnector()] });
 *
 * In Node it needs the package `@livekit/rtc-node`. In a browser hand in LiveKit's client, whose parts that are used here
 * have the same names: `import * as livekit from "livekit-client"`, `livekitConnector({ livekit })`.
 */
import { type Clock, type Ring, systemClock } from "@leafmesh/protocol";
import { type Connector, JoinError } from "../connector.ts";
import { type LiveKitClientRoom, LiveKitSeat } from "./livekit-seat.ts";

/** What of LiveKit's library is used. */
export interface LiveKitModule {
  readonly Room: new () => LiveKitClientRoom;
}

export interface LiveKitConnectorOptions {
  /** LiveKit's library. `@livekit/rtc-node`, imported on first use, unless given. */
  readonly livekit?: LiveKitModule | undefined;
  readonly clock?: Clock | undefined;
}

/** Serves rings whose room is `livekit`. */
export function livekitConnector({ livekit, clock = systemClock }: LiveKitConnectorOptions = {}): Connector {
  const seatFor = async (ring: Ring): Promise<LiveKitSeat> => {
    const place = placeOf(ring);
    const { Room } = livekit ?? ((await import("@livekit/rtc-node")) as unknown as LiveKitModule);
    return new LiveKitSeat(place, new Room(), clock);
  };
  return {
    providers: ["livekit"],
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

function placeOf({ join }: Ring) {
  const { url, token, params: { mesh = "" } = {} } = join;
  if (url === undefined || token === undefined || mesh === "") {
    throw new JoinError("unsupported", "The ring lacks the address, the token or the names of a LiveKit room");
  }
  // Plain text to this machine alone.
  if (!/^wss:\/\/|^ws:\/\/(localhost|127\.[\d.]+)(:|\/|$)/.test(url)) {
    throw new JoinError("unsupported", "The ring's address is not a wss:// one");
  }
  return { url, token, mesh };
}
