/**
 * `mqtt`: a room is three topics of a broker, below `<room_topic_prefix>/room/<random>/d/<device>`. One record can be
 * the notifier and the room; both then share one connection.
 *
 * On the broker's side: a login for the mesh that may read and write below `<prefix>/room/`, and for each device one
 * that may read `down` and write `up` and `presence` on its own level. `infra/mosquitto` is a configuration that does so.
 *
 * Good to know:
 * - MQTT has no credential for one room. The device uses its own login of the broker; what makes a message belong to
 *   this room is a random key in the ring, with which everything is sealed both ways.
 * - The device's last will tells the mesh of an unclean loss: after 1.5 × 15 s of silence and 5 s more for a quick return.
 * - The broker must allow retained messages and QoS 1. With MQTT 3.1.1 nothing expires in the broker, so nothing is
 *   retained there, and replies that come while the mesh's own connection is down are lost.
 */
import {
  checkMqtt,
  createMqttConnection,
  type MqttConnection,
  type MqttOptions,
  mqttOptions,
  mqttRoomIssues,
  SHARED_CONNECTION,
} from "@leafmesh/mqtt";
import { defineRoom, type RoomProvider } from "../contract.ts";
import { AWAY_GRACE_MS, LOSS_SEEN_WITHIN_MS, openMqttRoom } from "./mqtt-room.ts";

export const mqttRoom = defineRoom({
  provider: "mqtt",
  title: "MQTT broker",
  description: "Rooms on your MQTT broker. Its access rules must let the mesh and the devices use the room topics.",
  options: mqttOptions,
  packages: ["mqtt"],
  traits: {
    credential: "the device's own broker login, and a key for this room",
    joinSignal: "retained presence message and last will",
    lossSeenWithinMs: LOSS_SEEN_WITHIN_MS,
    maxTaskBytes: undefined,
    setUp: [
      "Let the mesh's login read and write below `<room_topic_prefix>/room/`.",
      "Let each device's login read `down` and write `up` and `presence` on its own level, `<room_topic_prefix>/room/+/d/<device>/`.",
    ],
    checkProves: "the broker takes the login, and a message on a room topic comes back to the mesh",
  },
  validate: mqttRoomIssues,
  create(options, { clock, logger, newId, scope }): RoomProvider {
    const connection = (): MqttConnection =>
      scope.share(SHARED_CONNECTION, () => createMqttConnection(options, { clock, logger }));
    return {
      open: (request, signal) =>
        openMqttRoom(
          {
            url: options.url,
            prefix: prefixOf(options),
            deviceId: request.deviceId,
            joinWithinMs: request.joinWithinMs,
            graceMs: AWAY_GRACE_MS,
          },
          { connection: connection(), clock, logger, newId },
          signal,
        ),
      check: (signal) => checkMqtt(options, clock, signal),
      // The connection is the record's, which may be a notifier as well: it is closed with the record's scope.
      close: async () => {},
    };
  },
});

function prefixOf(options: MqttOptions): string {
  const { room_topic_prefix: prefix } = options;
  if (prefix === undefined) throw new TypeError("an mqtt record without room_topic_prefix cannot serve as a room");
  return prefix;
}
