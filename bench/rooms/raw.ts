/**
 * The vendors' own clients over the hops of an ask, with nothing checked, sealed, stored or repeated: the device is told
 * of a room, joins it with a client of its own, says hello, gets a task and answers.
 */
import { Room } from "@livekit/rtc-node";
import { Realtime, type RealtimeChannel } from "ably";
import { AccessToken, RoomServiceClient } from "livekit-server-sdk";
import PubNub from "pubnub";
import Pusher from "pusher";
import PusherJs from "pusher-js";

/** What both processes have to know to meet, in JSON. */
export type RawPlace =
  | { readonly provider: "ably"; readonly key: string; readonly endpoint: string }
  | {
      readonly provider: "pubnub";
      readonly origin: string;
      readonly keys: { readonly publishKey: string; readonly subscribeKey: string; readonly secretKey: string };
    }
  | {
      readonly provider: "pusher";
      readonly host: string;
      readonly app: { readonly appId: string; readonly key: string; readonly secret: string };
    }
  | {
      readonly provider: "livekit";
      readonly url: string;
      readonly httpUrl: string;
      readonly apiKey: string;
      readonly apiSecret: string;
    };

/** One seat in one room. */
export interface RawSeat {
  say(text: string): Promise<void>;
  leave(): Promise<void>;
}

/** A vendor's client. The mesh's is kept from ask to ask; the device's is made for one. */
export interface RawClient {
  join(room: string, heard: (text: string) => void): Promise<RawSeat>;
  close(): Promise<void>;
}

/** `name` is who the client is in its rooms: `mesh` or `device`. */
export async function rawClient(place: RawPlace, name: "mesh" | "device"): Promise<RawClient> {
  if (place.provider === "ably") return ablyClient(place, name);
  if (place.provider === "pubnub") return pubnubClient(place, name);
  if (place.provider === "pusher") return pusherClient(place, name);
  return livekitClient(place, name);
}

async function ablyClient({ key, endpoint }: RawPlace & { provider: "ably" }, name: string): Promise<RawClient> {
  const { hostname, port } = new URL(`http://${endpoint}`);
  const client = new Realtime({
    ...{ key, endpoint: hostname, port: Number(port), tls: false, clientId: name },
    ...{ echoMessages: false, disableConnectivityCheck: true, useBinaryProtocol: false },
  });
  await client.connection.whenState("connected");
  return {
    async join(room, heard) {
      const channel: RealtimeChannel = client.channels.get(`leafmesh:${room}`);
      await channel.subscribe(({ data }) => heard(String(data)));
      return {
        say: async (text) => void (await channel.publish("said", text)),
        leave: async () => {
          await channel.detach();
          client.channels.release(channel.name);
        },
      };
    },
    close: async () => client.close(),
  };
}

async function pubnubClient({ origin, keys }: RawPlace & { provider: "pubnub" }, name: string): Promise<RawClient> {
  const client = new PubNub({ ...keys, origin, ssl: false, userId: name, enableEventEngine: true });
  const rooms = new Map<string, (text: string) => void>();
  let connected: (() => void) | undefined;
  client.addListener({
    message: ({ channel, message, publisher }) => publisher !== name && rooms.get(channel)?.(String(message)),
    status: ({ category }) => {
      if (category === "PNConnectedCategory" || category === "PNSubscriptionChangedCategory") connected?.();
    },
  });
  return {
    async join(room, heard) {
      rooms.set(room, heard);
      await new Promise<void>((resolve) => {
        connected = resolve;
        client.subscribe({ channels: [room] });
      });
      return {
        say: async (text) =>
          void (await client.publish({ channel: room, message: text, sendByPost: true, storeInHistory: false })),
        leave: async () => {
          rooms.delete(room);
          client.unsubscribe({ channels: [room] });
        },
      };
    },
    close: async () => client.destroy(),
  };
}

// Its declarations and its file do not agree on what a default import is.
const PusherClient = PusherJs as unknown as typeof PusherJs.default;
/** A client that disconnects at once takes with it what it has just sent. */
const LAST_WORDS_MS = 100;

/** Devices answer with events of their own; the mesh sends over HTTP, which no limit of a connection holds for. */
async function pusherClient({ host, app }: RawPlace & { provider: "pusher" }, name: string): Promise<RawClient> {
  const [wsHost = "", port = ""] = host.split(":");
  const server = new Pusher({ ...app, host: wsHost, port, useTLS: false });
  const client = new PusherClient(app.key, {
    ...{ cluster: "own", wsHost, wsPort: Number(port), forceTLS: false, enabledTransports: ["ws"] },
    channelAuthorization: {
      customHandler: ({ socketId, channelName }, done) => done(null, server.authorizeChannel(socketId, channelName)),
    },
  });
  return {
    async join(room, heard) {
      const channel = client.subscribe(`private-${room}`);
      channel.bind(name === "mesh" ? "client-up" : "down", ({ text }: { text: string }) => heard(text));
      await new Promise<void>((resolve) => channel.bind("pusher:subscription_succeeded", () => resolve()));
      return {
        async say(text) {
          if (name === "mesh") await server.trigger(channel.name, "down", { text });
          else channel.trigger("client-up", { text });
        },
        leave: async () => client.unsubscribe(channel.name),
      };
    },
    async close() {
      await new Promise((resolve) => setTimeout(resolve, LAST_WORDS_MS));
      client.disconnect();
    },
  };
}

async function livekitClient(place: RawPlace & { provider: "livekit" }, name: string): Promise<RawClient> {
  const control = new RoomServiceClient(place.httpUrl, place.apiKey, place.apiSecret);
  return {
    async join(room, heard) {
      if (name === "mesh") await control.createRoom({ name: room });
      const token = new AccessToken(place.apiKey, place.apiSecret, { identity: name });
      token.addGrant({ room, roomJoin: true, canPublishData: true });
      const seat = new Room();
      seat.on("dataReceived", (payload) => heard(new TextDecoder().decode(payload)));
      await seat.connect(place.url, await token.toJwt(), { autoSubscribe: false, dynacast: false });
      return {
        say: async (text) => {
          await seat.localParticipant?.publishData(new TextEncoder().encode(text), { reliable: true });
        },
        leave: async () => {
          await seat.disconnect();
          if (name === "mesh") await control.deleteRoom(room);
        },
      };
    },
    close: async () => {},
  };
}
