/**
 * The ways that need no account: the built-in room with the direct notifier, a room service, and one MQTT broker for both;
 * and rooms of providers whose doubles take the vendor's own client, where the device is rung over its socket to the mesh.
 */
import { type AddressInfo, createServer } from "node:net";
import { startAblyDouble } from "@leafmesh/testkit/ably";
import { livekitAvailable, startLiveKit } from "@leafmesh/testkit/livekit";
import { startPubNubDouble } from "@leafmesh/testkit/pubnub";
import { startPusherDouble } from "@leafmesh/testkit/pusher";
import { type DeviceOptions, startDevice, startMqttDevice } from "./device.ts";
import { type Broker, startBroker } from "./mosquitto.ts";
import { type RunningProcess, startLeafmesh } from "./process.ts";

export interface Transport {
  readonly name: string;
  /** The `connections:` section. `phones` is the notifier. */
  readonly connections: string;
  /** The `device:` block's connection and room, in flow style without its braces. */
  readonly block: string;
  /** What a request carries for this device. */
  device(id?: string): { id: string; push_token: string };
  /** Where the mesh has to listen, when it must have said so before it starts. */
  readonly port?: number;
  /** A simulated device that is rung this way. */
  start(meshUrl: string, options?: DeviceOptions): Promise<RunningProcess>;
  close(): Promise<void>;
}

const DIRECT_TOKEN = "direct-token-of";

/** `token` is part of every device's push token. */
export function direct(token = DIRECT_TOKEN): Promise<Transport> {
  const tokenOf = (id: string): string => `${token}-${id}`;
  return Promise.resolve({
    name: "the LeafMesh room",
    connections: "connections:\n  phones: { provider: direct }\n",
    block: "connection: phones",
    device: (id = "phone-7") => ({ id, push_token: tokenOf(id) }),
    start: (meshUrl, options = {}) => startDevice(meshUrl, { token: tokenOf(options.id ?? "phone-7"), ...options }),
    close: () => Promise.resolve(),
  });
}

export interface MqttTransportOptions {
  readonly meshPassword?: string;
  /** The login of every device, and so part of its ring topic; default: the device's id. */
  readonly login?: string;
}

export async function mqtt(options: MqttTransportOptions = {}): Promise<Transport & Pick<Broker, "freeze" | "thaw">> {
  const loginOf = (id: string): string => options.login ?? id;
  const broker = await startBroker({
    meshPassword: options.meshPassword ?? "mesh-broker-password",
    devices: [...new Set(["phone-7", "tablet-2", "intruder"].map(loginOf))],
  });
  const topicOf = (id: string): string => `leafmesh/${loginOf(id)}/${id}/connect`;
  return {
    name: "Mosquitto",
    connections:
      `connections:\n  phones: { provider: mqtt, url: "${broker.url}", username: mesh, ` +
      `password: "${broker.meshPassword}", room_topic_prefix: leafmesh }\n`,
    block: "connection: phones, room: phones",
    device: (id = "phone-7") => ({ id, push_token: topicOf(id) }),
    start: (_meshUrl, device = {}) => {
      const id = device.id ?? "phone-7";
      return startMqttDevice(
        [
          ...["--mqtt", broker.url, "--topic", topicOf(id)],
          ...["--username", loginOf(id), "--password", broker.devicePassword],
        ],
        device,
      );
    },
    freeze: broker.freeze,
    thaw: broker.thaw,
    close: () => broker.close(),
  };
}

/** Rooms of a service of one's own, in a process of its own. */
export async function roomService(): Promise<Transport> {
  const key = "key-of-the-room-service";
  const service = startLeafmesh(["rooms", "serve", "--port", "0", "--json"], { LEAFMESH_ROOM_KEYS: key });
  const { url } = await service.waitFor("ready");
  const rung = await direct();
  return {
    ...rung,
    name: "a room service",
    connections: `${rung.connections}  rooms: { provider: room, url: "${url}", api_key: "${key}" }\n`,
    block: "connection: phones, room: rooms",
    close: async () => void (await service.stop()),
  };
}

/** Rooms on Ably, which the double plays. */
export async function ably(): Promise<Transport> {
  const double = await startAblyDouble();
  const rung = await direct();
  return {
    ...rung,
    name: "Ably",
    connections: `${rung.connections}  rooms: { provider: ably, api_key: "${double.key}", endpoint: "${double.endpoint}" }\n`,
    block: "connection: phones, room: rooms",
    close: () => double.close(),
  };
}

/** Rooms on PubNub, which the double plays. */
export async function pubnub(): Promise<Transport> {
  const double = await startPubNubDouble({ presenceTimeoutMs: 1_000 });
  const { publishKey, subscribeKey, secretKey } = double.keys;
  const rung = await direct();
  return {
    ...rung,
    name: "PubNub",
    connections:
      `${rung.connections}  rooms: { provider: pubnub, publish_key: "${publishKey}", ` +
      `subscribe_key: "${subscribeKey}", secret_key: "${secretKey}", origin: "${double.origin}" }\n`,
    block: "connection: phones, room: rooms",
    close: () => double.close(),
  };
}

/** Rooms on Pusher Channels, which the double plays. Devices call the mesh back at its public address. */
export async function pusher(): Promise<Transport> {
  const double = await startPusherDouble({ lossSeenMs: 1_000 });
  const { appId, key, secret } = double.app;
  const port = await freePort();
  const rung = await direct();
  return {
    ...rung,
    name: "Pusher",
    port,
    connections:
      `server: { public_url: "http://127.0.0.1:${port}" }\n${rung.connections}  rooms: { provider: pusher, ` +
      `app_id: "${appId}", key: "${key}", secret: "${secret}", cluster: "${double.host}" }\n`,
    block: "connection: phones, room: rooms",
    close: () => double.close(),
  };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Rooms on a real LiveKit server. */
export async function livekit(): Promise<Transport> {
  const server = await startLiveKit();
  const rung = await direct();
  return {
    ...rung,
    name: "LiveKit",
    connections:
      `${rung.connections}  rooms: { provider: livekit, url: "${server.url}", api_key: "${server.apiKey}", ` +
      `api_secret: "${server.apiSecret}" }\n`,
    block: "connection: phones, room: rooms",
    close: () => server.stop(),
  };
}

/**
 * Every way that a device can be met: each outcome is shown over each of them, with the device in a process of its own.
 * A new provider is one entry here. It needs
 * - a double (or the real service) that `open` starts and `close` ends;
 * - `connections`: the notifier `phones`, and a record for the rooms that leads to the double;
 * - `block`: which of the two an agent's `device:` names;
 * - `device` and `start`: those of `direct()` do, where the device is rung over its socket to the mesh and the provider's
 *   connector is in packages/cli/src/simulated-device/room-connectors.ts.
 */
export const everyTransport = [
  { name: "the LeafMesh room", open: () => direct() },
  { name: "a room service", open: () => roomService() },
  { name: "Mosquitto", open: () => mqtt() },
  { name: "Ably", open: () => ably() },
  { name: "PubNub", open: () => pubnub() },
  { name: "Pusher", open: () => pusher() },
  ...(livekitAvailable() ? [{ name: "LiveKit", open: () => livekit() }] : []),
];

/** Those over which a device can also be cut off and come back. */
export const transports = [
  { name: "the LeafMesh room", open: () => direct() },
  { name: "Mosquitto", open: () => mqtt() },
] as const;
