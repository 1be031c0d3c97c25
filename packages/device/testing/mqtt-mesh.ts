/** A mesh's side of rooms on a broker, and of its rings: both on one connection. */
import { mqttNotifier } from "@leafmesh/notifiers";
import { type Clock, type Ring, Secret } from "@leafmesh/protocol";
import { mqttRoom } from "@leafmesh/rooms";
import { type MeshRoom, patient, type RoomMesh, startRoomMesh } from "@leafmesh/testkit/suites";

export { patient } from "@leafmesh/testkit/suites";
export type MqttMeshRoom = MeshRoom;

export interface MqttMesh extends RoomMesh {
  /** Rings the device on its topic. Rejects as the notifier does. */
  ring(ring: Ring, topic: string): Promise<void>;
}

/** `record` holds the fields of an mqtt connection. */
export function startMqttMesh(record: Readonly<Record<string, string>>, clock?: Clock): MqttMesh {
  const whole = { room_topic_prefix: "leafmesh", ...record };
  const mesh = startRoomMesh(mqttRoom, whole, clock);
  const notifier = mqttNotifier.create(mqttNotifier.options.parse(whole), mesh.dependencies);
  return {
    ...mesh,
    async ring(ring, topic) {
      await notifier.ring(
        { ring, body: JSON.stringify(ring), collapseKey: ring.ask, ttlMs: 60_000, approval: ring.approval },
        new Secret(topic),
        patient,
      );
    },
  };
}
