/** The services whose rooms are measured: doubles that the vendors' clients connect to, and LiveKit's own server. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { randomId, roomCallbackSchema } from "@leafmesh/protocol";
import { ablyRoom, createRoomCallbackHub, livekitRoom, pubnubRoom, pusherRoom } from "@leafmesh/rooms";
import type { RoomCallbacks, RoomDefinition } from "@leafmesh/rooms/contract";
import { startAblyDouble } from "@leafmesh/testkit/ably";
import { livekitAvailable, startLiveKit } from "@leafmesh/testkit/livekit";
import { startPubNubDouble } from "@leafmesh/testkit/pubnub";
import { startPusherDouble } from "@leafmesh/testkit/pusher";
import type { RawPlace } from "./raw.ts";

export interface Service {
  readonly title: string;
  readonly room: RoomDefinition;
  /** The mesh's record, in flow style. */
  readonly record: string;
  readonly place: RawPlace;
  /** Where devices call the mesh back, for a provider that needs it. */
  readonly callbacks?: RoomCallbacks;
  readonly publicUrl?: string;
  /** Between two asks, where the service holds a connection to a rate. */
  readonly pauseMs?: number;
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
  pusher: {
    available: () => true,
    async open() {
      const double = await startPusherDouble();
      const { app, host } = double;
      const { callbacks, publicUrl, close } = await startCallbacks();
      return {
        title: "Pusher's double",
        room: pusherRoom,
        record: `{ provider: pusher, app_id: "${app.appId}", key: "${app.key}", secret: "${app.secret}", cluster: "${host}" }`,
        place: { provider: "pusher", app, host },
        callbacks,
        publicUrl,
        // Ten events a second from one connection is all that Pusher takes.
        pauseMs: 110,
        close: async () => {
          close();
          await double.close();
        },
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

/** The mesh's own route for it, without the rest of the mesh. */
async function startCallbacks(): Promise<{ callbacks: RoomCallbacks; publicUrl: string; close(): void }> {
  let publicUrl = "";
  const callbacks = createRoomCallbackHub({ newId: randomId, address: () => publicUrl });
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const id = request.url?.split("/").at(-1) ?? "";
    const token = request.headers.authorization?.replace("Bearer ", "");
    const answer = callbacks.answer(id, token, roomCallbackSchema.parse(JSON.parse(Buffer.concat(chunks).toString())));
    response.writeHead(answer?.status === "vouched" ? 200 : 404, { "content-type": "application/json" });
    response.end(answer?.status === "vouched" ? JSON.stringify(answer.voucher) : "{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  publicUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { callbacks, publicUrl, close: () => void server.close() };
}
