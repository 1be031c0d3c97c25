import type { DeviceEnvelope, TaskEnvelope } from "@leafmesh/protocol";
import type { OpenRoom, Room, RoomEvent, RoomProvider, Sent } from "@leafmesh/rooms/contract";
import { EventQueue } from "./event-queue.ts";

/** A room whose every move the test makes. */
export class ScriptedRoom implements Room {
  readonly label: string;
  readonly join: Room["join"];
  readonly events = new EventQueue<RoomEvent>();
  readonly request: OpenRoom;
  readonly maxTaskBytes: number;
  readonly tasks: TaskEnvelope[] = [];
  readonly cancelled: string[] = [];
  timesClosed = 0;
  /** What `send` answers; a test that wants it to wait gives a promise. */
  sent: Promise<Sent> | Sent = { status: "handed" };
  /** Called with the task before `send` answers. */
  onTask: (task: TaskEnvelope) => void = () => {};

  constructor(request: OpenRoom, maxTaskBytes: number) {
    this.request = request;
    this.maxTaskBytes = maxTaskBytes;
    this.label = `room-${request.askId}`;
    this.join = { provider: "scripted", room: this.label, token: "for-one-room" };
  }

  emit(...events: readonly RoomEvent[]): void {
    for (const event of events) this.events.push(event);
  }

  /** The device says something about this room's task. */
  frame(envelope: DeviceEnvelope): void {
    this.emit({ type: "frame", envelope });
  }

  async send(task: TaskEnvelope): Promise<Sent> {
    this.tasks.push(task);
    this.onTask(task);
    return this.sent;
  }

  async cancel(askId: string): Promise<void> {
    this.cancelled.push(askId);
  }

  async close(): Promise<void> {
    this.timesClosed++;
    this.events.end();
  }
}

/** Rooms for tests that play the device and the room service themselves. */
export class ScriptedRooms implements RoomProvider {
  readonly opened: ScriptedRoom[] = [];
  /** Decides on each opening; throws what the service would answer. Called with how many came before. */
  onOpen: (request: OpenRoom, before: number) => Promise<void> | void = () => {};
  /** Called with each room that was opened. */
  onRoom: (room: ScriptedRoom) => void = () => {};
  maxTaskBytes = 64 * 1024;
  timesClosed = 0;
  recover?: NonNullable<RoomProvider["recover"]>;
  #attempts = 0;

  async open(request: OpenRoom): Promise<Room> {
    await this.onOpen(request, this.#attempts++);
    const room = new ScriptedRoom(request, this.maxTaskBytes);
    this.opened.push(room);
    this.onRoom(room);
    return room;
  }

  async check(): Promise<{ status: "active" }> {
    return { status: "active" };
  }

  async close(): Promise<void> {
    this.timesClosed++;
  }
}
