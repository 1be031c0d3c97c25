/**
 * Rooms and rings over an MQTT broker.
 *
 *   const broker = { url: "wss://broker.example.com/mqtt", username: "phone-7", password: "..." };
 *   const device = createDevice({ id: "phone-7", handlers, meshKeys, connectors: [mqttConnector({ broker })] });
 *   listenForRings({ broker, topic: "leafmesh/phone-7/connect", onRing: (ring) => void device.handleRing(ring, "mqtt") });
 *
 * Needs the package `mqtt`, and WebCrypto, which browsers have on pages that came over https.
 */
import { createSealer, importRoomKey, MqttFailure, openNewestLink, roomTopics, topicIssue } from "@leafmesh/mqtt/wire";
import { type Clock, type Logger, type Ring, silentLogger, systemClock } from "@leafmesh/protocol";
import { type Connector, JoinError } from "../connector.ts";
import { errorText } from "../error-text.ts";
import { type BrokerAccess, brokerAccess, clientMaker, type MqttBroker, type MqttModule } from "./mqtt-broker.ts";
import { REPLY_EXPIRY_SECONDS, type RoomPlace, takeMqttSeat } from "./mqtt-seat.ts";

export type { MqttBroker, MqttModule } from "./mqtt-broker.ts";
export { listenForRings, type RingListener, type RingListenerOptions, type RingListenerState } from "./mqtt-rings.ts";

export interface MqttConnectorOptions {
  /**
   * The broker as this device reaches it, and the only place that its login is sent to. Left out, the ring's address is
   * used, without a login.
   */
  readonly broker?: MqttBroker | undefined;
  /** MQTT.js: `import mqtt from "mqtt"`. Imported on first use unless given. */
  readonly mqtt?: MqttModule | undefined;
  readonly clock?: Clock | undefined;
  readonly logger?: Logger | undefined;
  /** Spreads reconnects; `Math.random` unless given. */
  readonly random?: (() => number) | undefined;
}

/** Serves rings whose room is `mqtt`. Throws a `TypeError` when `broker` is not usable. */
export function mqttConnector(options: MqttConnectorOptions = {}): Connector {
  const { clock = systemClock, logger = silentLogger, random = Math.random } = options;
  const configured = options.broker && brokerAccess(options.broker);

  return {
    providers: ["mqtt"],
    async join(ring, { capabilities, signal }) {
      const place = await placeOf(ring, configured);
      const createClient = await clientMaker(options.mqtt, place.access);
      return await takeMqttSeat({ ...place, capabilities }, { createClient, clock, logger, random }, signal);
    },
    async refuse(ring, signal) {
      const { access, key, base } = await placeOf(ring, configured);
      const { up } = roomTopics(base);
      const createClient = await clientMaker(options.mqtt, access);
      const payload = await createSealer(key, up).seal(JSON.stringify({ type: "refused", reason: "not_allowed" }));
      try {
        const link = await openNewestLink(
          { ...access, version: 5, clientId: refusalId(), clean: true, sessionSeconds: 0 },
          { createClient, clock, onMessage: () => {} },
          signal,
        );
        const published = await link.publish({ topic: up, payload, expirySeconds: REPLY_EXPIRY_SECONDS }, { signal });
        await link.end();
        if (published.status !== "acknowledged") throw published.failure;
        if (!published.reached) throw new JoinError("over", "The mesh does not listen to this room any more");
      } catch (error) {
        throw error instanceof MqttFailure ? new JoinError("unreachable", error.message, { cause: error }) : error;
      }
    },
  };
}

async function placeOf(ring: Ring, configured: BrokerAccess | undefined): Promise<RoomPlace> {
  const { url, params: { key: keyText = "", topic: base = "", client = "" } = {} } = ring.join;
  const issue = topicIssue(base);
  if (issue) throw new JoinError("unsupported", `The ring's room topic ${issue}`);
  if (!base.endsWith(`/d/${ring.device}`)) throw new JoinError("unsupported", "The ring's room is for another device");
  if (!/^[0-9a-f]{20}$/.test(client)) throw new JoinError("unsupported", "The ring names no connection");
  try {
    return { access: configured ?? accessOf(url), key: await importRoomKey(keyText), base, clientId: `lmd${client}` };
  } catch (cause) {
    if (cause instanceof JoinError) throw cause;
    throw new JoinError("unsupported", `The ring cannot be used: ${errorText(cause)}`, { cause });
  }
}

function accessOf(url: string | undefined): BrokerAccess {
  if (url === undefined) throw new JoinError("unsupported", "The ring holds no address, and no `broker` was given");
  return brokerAccess({ url });
}

/** At most 23 letters and digits, which every broker accepts. */
function refusalId(): string {
  return `lmn${crypto.randomUUID().replaceAll("-", "").slice(0, 20)}`;
}
