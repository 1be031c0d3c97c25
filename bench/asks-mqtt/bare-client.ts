import mqtt, { type IClientOptions, type MqttClient } from "mqtt";

export interface BareOptions extends IClientOptions {
  /** MQTT.js leaves Nagle's algorithm on; the measured baseline turns it off. */
  readonly noDelay?: boolean;
}

/** MQTT.js as it is, connected. */
export async function bareClient(url: string, { noDelay = true, ...options }: BareOptions = {}): Promise<MqttClient> {
  const client = await mqtt.connectAsync(url, { protocolVersion: 5, reconnectPeriod: 0, ...options });
  const { stream } = client;
  if (noDelay && "setNoDelay" in stream && typeof stream.setNoDelay === "function") stream.setNoDelay(true);
  return client;
}
