/** `mqtt`: a ring is one message to the topic that the device listens on. */
import {
  checkMqtt,
  createMqttConnection,
  type MqttConnection,
  type MqttFailureKind,
  mqttOptionIssues,
  mqttOptions,
  type Published,
  SHARED_CONNECTION,
  topicIssue,
} from "@leafmesh/mqtt";
import * as z from "zod";
import { defineNotifier, type Notifier, RingError, type RingErrorKind } from "../contract.ts";

/** A ring is small; some brokers take no more. */
const MAX_BYTES = 4096;

const errorKinds: Readonly<Record<MqttFailureKind, RingErrorKind>> = {
  credential: "bad_credential",
  identity: "bad_credential",
  quota: "quota",
  rate: "quota",
  too_big: "too_big",
  bad_request: "bad_request",
  unsupported: "bad_request",
  unavailable: "transient",
  aborted: "transient",
};

export const mqttNotifier = defineNotifier({
  provider: "mqtt",
  title: "MQTT broker",
  description: "Rings devices that are connected to your MQTT broker, with a message to each device's own topic.",
  options: mqttOptions,
  packages: ["mqtt"],
  pushToken: z.string().superRefine((topic, context) => {
    const issue = topicIssue(topic);
    if (issue) context.addIssue({ code: "custom", message: `${issue}; for example leafmesh/phone-7/connect` });
  }),
  traits: { maxBytes: MAX_BYTES, ttl: true, collapse: false, silent: "yes", link: false, deadTokens: false },
  docs: {
    setUp: [
      "Make a login for the mesh that may write the devices' ring topics, and for each device one that may read its own " +
        "and no other. `infra/mosquitto` is a configuration that does both.",
    ],
    pushToken: "The device's ring topic, such as `leafmesh/phone-7/connect`: one exact topic, no wildcards.",
    onTheDevice:
      "Subscribes to its ring topic with the device kit's `listenForRings`, and hands each ring to " + "`handleRing`.",
    check:
      "Connects with the record's login and certificates; with a `room_topic_prefix` a message goes through a room's " +
      "topic and has to come back. `active` says that the broker lets the mesh in, not that its rules let the device read.",
    goodToKnow: [
      "For devices that hold a connection to a broker anyway: things, kiosks, desktops, apps in the foreground.",
      "A broker with MQTT 5 says when nobody is subscribed, which makes the ask `not_joined` at once. A device that " +
        "should be rung over a short loss of its connection asks the broker for a session that outlives it.",
      "With MQTT 3.1.1 a forbidden message vanishes without an error, and a ring does not expire in the broker.",
      "Whoever may read a ring topic can join that ring's room. Keep wildcard rights away from everybody but the mesh.",
      "[The page on MQTT](../mqtt.md) says more: access rules, certificates, and the same broker as the room.",
    ],
    links: ["https://docs.oasis-open.org/mqtt/mqtt/v5.0/mqtt-v5.0.html"],
  },
  validate: mqttOptionIssues,
  create(options, { clock, logger, scope }): Notifier {
    const connection = (): MqttConnection =>
      scope.share(SHARED_CONNECTION, () => createMqttConnection(options, { clock, logger }));
    return {
      async ring({ body, ttlMs }, to, signal) {
        const topic = to.reveal();
        if (isRoomTopic(topic, options.room_topic_prefix)) {
          throw new RingError("bad_request", "The push token is a topic of the rooms, not a device's ring topic.");
        }
        const published = await connection().publish(
          {
            topic,
            payload: new TextEncoder().encode(body),
            expirySeconds: Math.max(1, Math.ceil(ttlMs / 1000)),
            contentType: "application/json",
          },
          signal,
        );
        const error = ringError(published);
        if (error) throw error;
        return {};
      },
      check: (signal) => checkMqtt(options, clock, signal),
      // The connection is the record's, which may be a room as well: it is closed with the record's scope.
      close: async () => {},
    };
  },
});

function ringError(published: Published): RingError | undefined {
  if (published.status === "acknowledged") {
    if (published.reached) return undefined;
    return new RingError("offline", "Nobody is subscribed to the device's ring topic: the device is offline.", {
      code: "16",
    });
  }
  const { kind, message, code } = published.failure;
  return new RingError(errorKinds[kind], message, { code, cause: published.failure });
}

/** What a device's app names as its ring topic must not reach into the rooms of others. */
function isRoomTopic(topic: string, prefix: string | undefined): boolean {
  return prefix !== undefined && topic.startsWith(`${prefix}/room/`);
}
