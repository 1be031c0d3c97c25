/** A mesh's side of rooms on a broker: the real mqtt room and notifier, their events, and rings for them. */
import { mqttNotifier } from "@leafmesh/notifiers";
import {
  type Clock,
  type Ring,
  randomId,
  Secret,
  silentLogger,
  systemClock,
  type TaskEnvelope,
} from "@leafmesh/protocol";
import { mqttRoom } from "@leafmesh/rooms";
import type { Closable, Room, RoomEvent, Sent } from "@leafmesh/rooms/contract";
import { Mailbox } from "./mailbox.ts";
import { ringFor } from "./rings.ts";

export const patient = new AbortController().signal;

export interface MqttMeshRoom {
  readonly room: Room;
  readonly ring: Ring;
  /** The next event of this type; what came before it is passed over. */
  event<Type extends RoomEvent["type"]>(type: Type): Promise<Extract<RoomEvent, { type: Type }>>;
  /** Everything that has come and was not taken. */
  takeAll(): RoomEvent[];
  task(changes?: Partial<TaskEnvelope>): Promise<Sent>;
}

export interface MqttMesh {
  open(changes?: Partial<Ring>): Promise<MqttMeshRoom>;
  /** Rings the device on its topic. Rejects as the notifier does. */
  ring(ring: Ring, topic: string): Promise<void>;
  close(): Promise<void>;
}

/** `record` holds the fields of an mqtt connection. */
export function startMqttMesh(record: Record<string, string>, clock: Clock = systemClock): MqttMesh {
  const shared = new Map<string, Closable>();
  const dependencies = {
    clock,
    logger: silentLogger,
    newId: randomId,
    scope: {
      share<Value extends Closable>(key: string, make: () => Value): Value {
        const value = (shared.get(key) as Value | undefined) ?? make();
        shared.set(key, value);
        return value;
      },
    },
  };
  const options = mqttRoom.options.parse({ room_topic_prefix: "leafmesh", ...record });
  const rooms = mqttRoom.create(options, dependencies);
  const notifier = mqttNotifier.create(options, dependencies);

  return {
    async open(changes = {}) {
      const room = await rooms.open(
        { askId: "ask_1", deviceId: "phone-7", approval: "silent", joinWithinMs: 60_000, lifetimeMs: 180_000 },
        patient,
      );
      const events = new Mailbox<RoomEvent>();
      void (async () => {
        for await (const event of room.events) events.put(event);
      })();
      const ring = ringFor(clock.nowMs(), { join: room.join, ...changes });
      return {
        room,
        ring,
        event: <Type extends RoomEvent["type"]>(type: Type) =>
          events.next((event): event is Extract<RoomEvent, { type: Type }> => event.type === type),
        takeAll: () => events.takeAll(),
        task: (task = {}) =>
          room.send(
            { type: "task", id: ring.ask, action: "battery.read", inputs: {}, budget_ms: 60_000, ...task },
            patient,
          ),
      };
    },
    async ring(ring, topic) {
      await notifier.ring(
        { ring, body: JSON.stringify(ring), collapseKey: ring.ask, ttlMs: 60_000, approval: ring.approval },
        new Secret(topic),
        patient,
      );
    },
    async close() {
      for (const each of shared.values()) await each.close();
    },
  };
}
