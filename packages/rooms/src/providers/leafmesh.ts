/**
 * `leafmesh`: the rooms that every mesh brings along. The service runs in the mesh's own process, the mesh's seat is in
 * memory, devices connect to the mesh's address. Nothing to set up on one machine.
 *
 * Good to know:
 * - Devices elsewhere need a way to the mesh: `server.public_url` is what they are told.
 * - A room dies with the process; an ask that was open then ends as `mesh_restarted`. `leafmesh rooms serve` and a
 *   `room` record keep the rooms outside.
 */
import type { Approval, CancelEnvelope, RoomLimits, TaskEnvelope } from "@leafmesh/protocol";
import { utf8Length } from "@leafmesh/protocol";
import * as z from "zod";
import {
  type CheckResult,
  defineRoom,
  type OpenRoom,
  type Room,
  type RoomDefinition,
  RoomError,
  type RoomProvider,
  type Sent,
} from "../contract.ts";
import { LOSS_SEEN_WITHIN_MS, taskBytes } from "../leafmesh-client/limits.ts";
import { MeshSeat } from "../leafmesh-client/mesh-seat.ts";

/** What the provider needs of the room service in its process; `RoomService` of @leafmesh/room-service is one. */
export interface LocalRoomService {
  /** Rejects when the service is closed or full. */
  openLocal(request: LocalRoomRequest): Promise<LocalRoomHandle>;
}

export interface LocalRoomRequest {
  readonly lifetimeMs: number;
  readonly joinWithinMs: number;
  readonly approval?: Approval | undefined;
  onFrame(frame: { readonly type: string }): void;
}

export interface LocalRoomHandle {
  readonly roomId: string;
  readonly connectUrl: string;
  /** Empty once it was used. */
  readonly deviceToken: string;
  readonly limits: RoomLimits;
  /** The frame's sequence number; `undefined` when the room has ended. */
  send(envelope: TaskEnvelope | CancelEnvelope): number | undefined;
  close(): void;
}

/** `service` is asked when the first room is opened, never while a mesh is only loaded. */
export function leafmeshRooms(service: () => LocalRoomService): RoomDefinition {
  return defineRoom({
    provider: "leafmesh",
    title: "LeafMesh rooms",
    description: "The rooms that the mesh brings along: devices connect to the mesh itself. Needs no account.",
    options: z.strictObject({}),
    traits: {
      credential: "one-use token",
      joinSignal: "peer frame",
      lossSeenWithinMs: LOSS_SEEN_WITHIN_MS,
      maxTaskBytes: taskBytes(),
      setUp: ["For devices on other machines: set `server.public_url` to the address under which they reach the mesh."],
      checkProves: "the mesh's own room service opens a room",
    },
    create: () => createLocalRooms(service),
  });
}

function createLocalRooms(service: () => LocalRoomService): RoomProvider {
  const open = new Set<LocalRoom>();
  return {
    async open(request, signal) {
      if (signal.aborted) throw new RoomError("unavailable", "There was no time left to open a room.");
      const room = await LocalRoom.open(request, service(), (closed) => void open.delete(closed));
      open.add(room);
      return room;
    },
    async check(): Promise<CheckResult> {
      try {
        const probe = await service().openLocal({ lifetimeMs: 10_000, joinWithinMs: 5000, onFrame: () => {} });
        probe.close();
        return { status: "active" };
      } catch (error) {
        return { status: "failing", reason: reasonOf(error) };
      }
    },
    async close() {
      await Promise.all([...open].map((room) => room.close()));
    },
  };
}

class LocalRoom implements Room {
  readonly #handle: LocalRoomHandle;
  readonly #seat: MeshSeat;
  readonly #onClosed: (room: LocalRoom) => void;
  #taskSent = false;

  private constructor(handle: LocalRoomHandle, seat: MeshSeat, onClosed: (room: LocalRoom) => void) {
    this.#handle = handle;
    this.#seat = seat;
    this.#onClosed = onClosed;
  }

  static async open(
    request: OpenRoom,
    service: LocalRoomService,
    onClosed: (room: LocalRoom) => void,
  ): Promise<LocalRoom> {
    const seat = new MeshSeat(() => handle.limits.grace_s * 1000);
    let handle: LocalRoomHandle;
    try {
      handle = await service.openLocal({
        lifetimeMs: request.lifetimeMs,
        joinWithinMs: request.joinWithinMs,
        approval: request.approval,
        onFrame: (frame) => onFrame(frame, seat),
      });
    } catch (error) {
      throw new RoomError("unavailable", reasonOf(error), { cause: error });
    }
    return new LocalRoom(handle, seat, onClosed);
  }

  get join() {
    const { connectUrl, roomId, deviceToken } = this.#handle;
    return { provider: "leafmesh", url: connectUrl, room: roomId, token: deviceToken };
  }

  get label(): string {
    return this.#handle.roomId;
  }

  get maxTaskBytes(): number {
    return taskBytes(this.#handle.limits);
  }

  get events() {
    return this.#seat.events;
  }

  async send(task: TaskEnvelope, signal: AbortSignal): Promise<Sent> {
    if (this.#taskSent) throw new Error("a room takes one task");
    const bytes = utf8Length(JSON.stringify(task));
    if (bytes > this.maxTaskBytes) {
      return notHanded("too_big", `The task has ${bytes} bytes, the room takes ${this.maxTaskBytes}.`);
    }
    const { obstacle } = this.#seat;
    if (obstacle !== undefined || signal.aborted) return notHanded("unavailable", obstacle ?? "The ask is over.");
    this.#taskSent = true;
    const seq = this.#handle.send(task);
    if (seq === undefined) return notHanded("unavailable", "The room has ended.");
    this.#seat.sent(seq);
    return { status: "handed" };
  }

  async cancel(askId: string, reason: string): Promise<void> {
    this.#handle.send({ type: "cancel", id: askId, reason: reason.slice(0, 200) });
  }

  async close(): Promise<void> {
    this.#seat.finish();
    this.#handle.close();
    this.#onClosed(this);
  }
}

function onFrame(frame: { readonly type: string }, seat: MeshSeat): void {
  if (seat.isOver) return;
  if (frame.type === "closing") {
    const reason = "reason" in frame ? String(frame.reason) : "closed";
    seat.end(new RoomError("unavailable", `The room ended: ${reason}.`, { code: reason }));
  } else if (frame.type === "error") {
    const code = "code" in frame ? String(frame.code) : "";
    seat.refused(code, "ref_seq" in frame && typeof frame.ref_seq === "number" ? frame.ref_seq : undefined);
  } else seat.receive(frame);
}

function notHanded(kind: "too_big" | "unavailable", message: string): Sent {
  return { status: "not_handed", error: new RoomError(kind, message) };
}

function reasonOf(error: unknown): string {
  return `The room service of this mesh opens no room: ${error instanceof Error ? error.message : String(error)}`;
}
