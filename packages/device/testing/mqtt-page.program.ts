/** A web page that is a device on a broker: the program of the page that the browser test opens. */
import mqtt from "mqtt";
import { listenForRings, mqttConnector } from "../src/connectors/mqtt.ts";
import { createDevice } from "../src/index.ts";

declare global {
  var startMqttDevice: (url: string, topic: string) => Promise<void>;
}

globalThis.startMqttDevice = async (url, topic) => {
  const broker = { url };
  const device = createDevice({
    id: "phone-7",
    connectors: [mqttConnector({ broker, mqtt })],
    handlers: { "battery.read": () => ({ level: 71, browser: navigator.userAgent.includes("Chrom") }) },
  });
  const onRing = (ring: string): void => void device.handleRing(ring, "mqtt");
  await listenForRings({ broker, topic, mqtt, onRing }).ready();
};
