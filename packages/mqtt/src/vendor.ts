import type { MqttClient } from "mqtt";

type VendorBytes = Exclude<Parameters<MqttClient["publish"]>[1], string>;

/** MQTT.js writes any bytes, in browsers too; only its types ask for Node's `Buffer`. */
export function toBuffer(bytes: Uint8Array): VendorBytes {
  return bytes as VendorBytes;
}
