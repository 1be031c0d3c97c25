/** A device's access to an MQTT broker: where it is, and with which login. */
import { type BrokerAddress, type CreateClient, isLoopback, parseBrokerAddress } from "@leafmesh/mqtt/wire";
import { Secret } from "@leafmesh/protocol";
import type { IClientOptions, MqttClient } from "mqtt";
import { JoinError } from "../connector.ts";

/** The one function of MQTT.js that the kit uses: `import mqtt from "mqtt"` has it. */
export interface MqttModule {
  connect(options: IClientOptions): MqttClient;
}

export interface MqttBroker {
  /** `mqtts://`, `wss://`, or without TLS `mqtt://` and `ws://`. A browser has only the WebSocket ones. */
  readonly url: string;
  /** The device's own login, never the mesh's. */
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  /** PEM; not in a browser. */
  readonly clientCert?: string | undefined;
  readonly clientKey?: string | undefined;
  /** PEM of a private CA; not in a browser. */
  readonly caCert?: string | undefined;
}

/** What is needed to open links to one broker. */
export interface BrokerAccess {
  readonly address: BrokerAddress;
  readonly username?: string | undefined;
  readonly password?: Secret | undefined;
  readonly tls: Pick<IClientOptions, "ca" | "cert" | "key">;
}

/** Throws a `TypeError` that names the option when the broker cannot be used as it is described. */
export function brokerAccess(broker: MqttBroker): BrokerAccess {
  const { url, username, password, clientCert, clientKey, caCert } = broker;
  const parsed = parseBrokerAddress(url);
  if (!parsed.ok) throw new TypeError(`broker.url ${parsed.issue}`);
  const { address } = parsed;
  if ((username !== undefined || password !== undefined) && !address.secure && !isLoopback(address)) {
    throw new TypeError("broker.url would send the login in clear; use mqtts:// or wss://");
  }
  if ((clientCert === undefined) !== (clientKey === undefined)) {
    throw new TypeError("broker.clientCert and broker.clientKey belong together; give both");
  }
  if (!address.secure && (clientCert !== undefined || caCert !== undefined)) {
    throw new TypeError("broker.clientCert and broker.caCert have no effect without TLS; use mqtts:// or wss://");
  }
  return {
    address,
    username,
    password: password === undefined ? undefined : new Secret(password),
    tls: {
      ...(caCert === undefined ? {} : { ca: caCert }),
      ...(clientCert === undefined ? {} : { cert: clientCert }),
      ...(clientKey === undefined ? {} : { key: clientKey }),
    },
  };
}

/** MQTT.js on its own way to the broker. Throws {@link JoinError} that says what to install. */
export async function clientMaker(given: MqttModule | undefined, { tls }: BrokerAccess): Promise<CreateClient> {
  const mqtt = given ?? (await importMqtt());
  return (options, { scheme, host, port, path }) =>
    mqtt.connect({ ...options, ...tls, protocol: scheme, host, hostname: host, port, path, rejectUnauthorized: true });
}

async function importMqtt(): Promise<MqttModule> {
  try {
    return (await import("mqtt")).default;
  } catch (cause) {
    const sentence = 'The package "mqtt" is not installed. Run "npm install mqtt", or hand it in as the `mqtt` option';
    throw new JoinError("unsupported", sentence, { cause });
  }
}
