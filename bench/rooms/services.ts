/** The services whose rooms are measured: doubles that the vendors' clients connect to, and LiveKit's own server. */
import { ablyRoom, livekitRoom, pubnubRoom } from "@leafmesh/rooms";
import type { RoomDefinition } from "@leafmesh/rooms/contract";
import { startAblyDouble } from "@leafmesh/testkit/ably";
import { livekitAvailable, startLiveKit } from "@leafmesh/testkit/livekit";
import { startPubNubDouble } from "@leafmesh/testkit/pubnub";
import type { RawPlace } from "./raw.ts";

export interface Service {
  readonly title: string;
  readonly room: RoomDefinition;
  /** The mesh's record, in flow style. */
  readonly record: string;
  readonly place: RawPlace;
  close(): Promise<void>;
}

export const services: Readonly<Record<string, { available(): boolean; open(): Promise<Service> }>> = {
  ably: {
    available: () => true,
    async open() {
      const double = await startAblyDouble();
      const { key, endpoint } = double;
      return {
        title: "Ably's double",
        room: ablyRoom,
        record: `{ provider: ably, api_key: "${key}", endpoint: "${endpoint}" }`,
        place: { provider: "ably", key, endpoint },
        close: () => double.close(),
      };
    },
  },
  pubnub: {
    available: () => true,
    async open() {
      const double = await startPubNubDouble();
      const { keys, origin } = double;
      return {
        title: "PubNub's double",
        room: pubnubRoom,
        record:
          `{ provider: pubnub, publish_key: "${keys.publishKey}", subscribe_key: "${keys.subscribeKey}", ` +
          `secret_key: "${keys.secretKey}", origin: "${origin}" }`,
        place: { provider: "pubnub", keys, origin },
        close: () => double.close(),
      };
    },
  },
  livekit: {
    available: livekitAvailable,
    async open() {
      const server = await startLiveKit();
      const { url, httpUrl, apiKey, apiSecret } = server;
      return {
        title: "LiveKit's server",
        room: livekitRoom,
        record: `{ provider: livekit, url: "${url}", api_key: "${apiKey}", api_secret: "${apiSecret}" }`,
        place: { provider: "livekit", url, httpUrl, apiKey, apiSecret },
        close: () => server.stop(),
      };
    },
  },
};
