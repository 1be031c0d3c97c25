/** The two ways that need no account: the built-in room with the direct notifier, and one MQTT broker for both. */
import { type DeviceOptions, startDevice, startMqttDevice } from "./device.ts";
import { type Broker, startBroker } from "./mosquitto.ts";
import type { RunningProcess } from "./process.ts";

export interface Transport {
  readonly name: string;
  /** The `connections:` section. `phones` is the notifier. */
  readonly connections: string;
  /** The `device:` block's connection and room, in flow style without its braces. */
  readonly block: string;
  /** What a request carries for this device. */
  device(id?: string): { id: string; push_token: string };
  /** A simulated device that is rung this way. */
  start(meshUrl: string, options?: DeviceOptions): Promise<RunningProcess>;
  close(): Promise<void>;
}

const DIRECT_TOKEN = "direct-token-of-";

export function direct(): Promise<Transport> {
  return Promise.resolve({
    name: "the LeafMesh room",
    connections: "connections:\n  phones: { provider: direct }\n",
    block: "connection: phones",
    device: (id = "phone-7") => ({ id, push_token: DIRECT_TOKEN + id }),
    start: (meshUrl, options = {}) =>
      startDevice(meshUrl, { token: DIRECT_TOKEN + (options.id ?? "phone-7"), ...options }),
    close: () => Promise.resolve(),
  });
}

export async function mqtt(): Promise<Transport & { readonly broker: Broker }> {
  const broker = await startBroker();
  const topic = (id: string): string => `leafmesh/${id}/connect`;
  return {
    name: "Mosquitto",
    broker,
    connections:
      `connections:\n  phones: { provider: mqtt, url: "${broker.url}", username: mesh, ` +
      `password: "${broker.meshPassword}", room_topic_prefix: leafmesh }\n`,
    block: "connection: phones, room: phones",
    device: (id = "phone-7") => ({ id, push_token: topic(id) }),
    start: (_meshUrl, options = {}) => {
      const id = options.id ?? "phone-7";
      return startMqttDevice(
        ["--mqtt", broker.url, "--topic", topic(id), "--username", id, "--password", broker.devicePassword],
        options,
      );
    },
    close: () => broker.close(),
  };
}

export const transports = [
  { name: "the LeafMesh room", open: direct },
  { name: "Mosquitto", open: mqtt },
] as const;
