/** MQTT.js, imported on first use, on a stream that is made here. */
import type * as Vendor from "mqtt";
import type { BrokerAddress } from "./address.ts";
import { MqttFailure } from "./failure.ts";
import type { CreateClient } from "./link.ts";
import type { MqttOptions } from "./options.ts";
import { streamOpener } from "./stream.ts";

/** Throws {@link MqttFailure} that says what to install. */
export async function loadClient(options: MqttOptions, address: BrokerAddress): Promise<CreateClient> {
  const { MqttClient } = await importVendor();
  const openStream = await streamOpener(address.scheme, {
    ca: options.ca_cert,
    cert: options.client_cert,
    key: options.client_key,
  });
  return (clientOptions, to) => new MqttClient(() => openStream(to), clientOptions);
}

/**
 * MQTT.js reads DEBUG once, when it is imported, and then prints whole messages, with the tokens and passwords in them.
 * https://github.com/mqttjs/MQTT.js/blob/main/README.md#debug
 */
async function importVendor(): Promise<typeof Vendor> {
  const { DEBUG } = process.env;
  delete process.env.DEBUG;
  try {
    return await import("mqtt");
  } catch (cause) {
    const sentence = 'The package "mqtt" is not installed. Install it where LeafMesh is installed: npm install mqtt';
    throw new MqttFailure("unavailable", sentence, { code: "missing_package", cause });
  } finally {
    if (DEBUG !== undefined) process.env.DEBUG = DEBUG;
  }
}
