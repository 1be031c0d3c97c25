/** A mesh's side of rooms of one provider: the real adapter, the rooms' events, and rings for them. */
import {
  type Clock,
  type Logger,
  type Ring,
  randomId,
  silentLogger,
  systemClock,
  type TaskEnvelope,
} from "@leafmesh/protocol";
import type {
  Closable,
  ProviderDependencies,
  Room,
  RoomDefinition,
  RoomEvent,
  RoomProvider,
  Sent,
} from "@leafmesh/rooms/contract";
import { Mailbox } from "./mailbox.ts";

const PUBLIC_URL = "https://mesh.example.com";
export const patient = new AbortController().signal;

export interface MeshRoom {
  readonly room: Room;
  readonly ring: Ring;
  /** The next event of this type; what came before it is passed over. */
  event<Type extends RoomEvent["type"]>(type: Type): Promise<Extract<RoomEvent, { type: Type }>>;
  /** The next event of one of these types. */
  eventOf(types: readonly RoomEvent["type"][]): Promise<RoomEvent>;
  /** Resolves when the events have ended. */
  readonly ended: Promise<void>;
  /** Everything that has come and was not taken. */
  takeAll(): RoomEvent[];
  task(changes?: Partial<TaskEnvelope>, signal?: AbortSignal): Promise<Sent>;
}

export interface RoomMesh {
  readonly dependencies: ProviderDependencies;
  readonly provider: RoomProvider;
  open(
    changes?: Partial<Ring>,
    more?: { readonly lifetimeMs?: number; readonly signal?: AbortSignal },
  ): Promise<MeshRoom>;
  close(): Promise<void>;
}

/** `record` holds the fields of a connection of that provider. */
export function startRoomMesh(
  definition: RoomDefinition,
  record: Readonly<Record<string, string>>,
  clock: Clock = systemClock,
  logger: Logger = silentLogger,
): RoomMesh {
  const shared = new Map<string, Closable>();
  const dependencies: ProviderDependencies = {
    clock,
    logger,
    newId: randomId,
    publicUrl: PUBLIC_URL,
    scope: {
      share<Value extends Closable>(key: string, make: () => Value): Value {
        const value = (shared.get(key) as Value | undefined) ?? make();
        shared.set(key, value);
        return value;
      },
    },
  };
  const provider = definition.create(definition.options.parse(record), dependencies);
  return {
    dependencies,
    provider,
    async open(changes = {}, { lifetimeMs = 180_000, signal = patient } = {}) {
      const room = await provider.open(
        { askId: "ask_1", deviceId: "phone-7", approval: "silent", joinWithinMs: 60_000, lifetimeMs },
        signal,
      );
      const events = new Mailbox<RoomEvent>(room.events);
      const ring = ringFor(clock.nowMs(), { join: room.join, ...changes });
      return {
        room,
        ring,
        event: <Type extends RoomEvent["type"]>(type: Type) =>
          events.next((event): event is Extract<RoomEvent, { type: Type }> => event.type === type),
        eventOf: (types) => events.next(({ type }) => types.includes(type)),
        ended: events.ended,
        takeAll: () => events.takeAll(),
        task: (task = {}, within = patient) =>
          room.send(
            { type: "task", id: ring.ask, action: "battery.read", inputs: {}, budget_ms: 60_000, ...task },
            within,
          ),
      };
    },
    async close() {
      await provider.close();
      for (const each of shared.values()) await each.close();
    },
  };
}

/** A ring as a mesh would write it, living for a minute. */
function ringFor(nowMs: number, changes: Partial<Ring> & Pick<Ring, "join">): Ring {
  const iat = Math.floor(nowMs / 1000);
  return { v: 1, ask: "ask_1", device: "phone-7", approval: "silent", mesh: "support", iat, exp: iat + 60, ...changes };
}
