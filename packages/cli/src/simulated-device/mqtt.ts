/** The simulated device over an MQTT broker. Imported only when it is asked for. */
import type { Connector } from "@leafmesh/device";
import { listenForRings, type MqttModule, mqttConnector } from "@leafmesh/device/mqtt";
import mqtt, { type MqttClient } from "mqtt";
import { EXIT } from "../context.ts";
import { CommandFailure } from "../failure.ts";
import type { RingSource, SimulatedDeviceEvent } from "../simulated-device.ts";

export interface MqttRingOptions {
  /** The broker's address. */
  readonly url: string;
  /** The device's ring topic, which the app gives the mesh as push token. */
  readonly topic: string;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
}

export interface MqttRoom {
  readonly connector: Connector;
  /** Cuts the link to the room, and lets no new one through for `ms`, or for ever. */
  cut(ms: number | undefined): void;
}

/** The discard port (RFC 863), where nobody listens. */
const NOWHERE = { host: "127.0.0.1", hostname: "127.0.0.1", port: 9 };

export function mqttRoom({ url, username, password }: MqttRingOptions): MqttRoom {
  const clients = new Set<MqttClient>();
  let downUntilMs = 0;
  const cuttable: MqttModule = {
    connect(options) {
      const client = mqtt.connect(performance.now() < downUntilMs ? { ...options, ...NOWHERE } : options);
      clients.add(client);
      client.on("close", () => clients.delete(client));
      return client;
    },
  };
  return {
    connector: usable(() => mqttConnector({ broker: { url, username, password }, mqtt: cuttable })),
    cut(ms) {
      downUntilMs = ms === undefined ? Number.POSITIVE_INFINITY : performance.now() + ms;
      for (const client of clients) client.stream.destroy();
    },
  };
}

export interface MqttListener {
  readonly id: string;
  readonly onRing: (ring: string) => void;
  readonly report: (event: SimulatedDeviceEvent) => void;
  readonly signal: AbortSignal;
}

/** Resolves once the mesh can ring the device. Throws a {@link CommandFailure}. */
export async function listenOverMqtt(
  { url, topic, username, password }: MqttRingOptions,
  { id, onRing, report, signal }: MqttListener,
): Promise<RingSource> {
  const ended = Promise.withResolvers<string>();
  const listener = usable(() =>
    listenForRings({
      broker: { url, username, password },
      topic,
      onRing,
      mqtt,
      onState(state, detail) {
        if (state === "ready") report({ type: "ready", device: id, via: "mqtt" });
        else if (state === "waiting") report({ type: "unready", detail });
        else if (state !== "connecting") ended.resolve(`${state}: ${detail}`);
      },
    }),
  );
  const stop = (): void => void listener.close();
  signal.addEventListener("abort", stop, { once: true });
  try {
    await listener.ready();
  } catch (cause) {
    if (signal.aborted) throw cause;
    throw new CommandFailure(`The broker does not let the device in: ${await ended.promise}`, { cause });
  }
  return {
    ended: ended.promise,
    async close() {
      signal.removeEventListener("abort", stop);
      await listener.close();
    },
  };
}

/** What the kit says of its options is what the person got wrong on the command line. */
function usable<Value>(make: () => Value): Value {
  try {
    return make();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new CommandFailure(`--mqtt cannot be used: ${reason}`, { exitCode: EXIT.usage, cause });
  }
}
