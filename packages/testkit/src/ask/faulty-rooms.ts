/**
 * Rooms inside the test's process that go wrong as planned, and keep a record of what became of each task. What they
 * say of a task is always true, as the contract of rooms asks: `not_handed` and `delivered: "no"` only when certain.
 */
import type { Clock, DeviceEnvelope } from "@leafmesh/protocol";
import { type OpenRoom, type Room, RoomError, type RoomProvider } from "@leafmesh/rooms/contract";
import type { FaultPlan } from "./fault-plan.ts";
import { FaultyRoom } from "./faulty-room.ts";
import type { LossProfile } from "./loss-profiles.ts";
import { sleep } from "./sleep.ts";

export interface FaultyRoomsOptions {
  readonly clock: Clock;
  planOf(askId: string): FaultPlan;
  /** Rooms outlive the mesh process, and keep a reply for it. */
  readonly surviveTheMesh: boolean;
  /** Of a certain provider's rooms; left out, of any. */
  readonly profile?: LossProfile | undefined;
}

export class FaultyRooms implements RoomProvider {
  readonly #options: FaultyRoomsOptions;
  readonly #rooms = new Map<string, FaultyRoom>();
  readonly #attempts = new Map<string, number>();
  readonly recover?: NonNullable<RoomProvider["recover"]>;

  constructor(options: FaultyRoomsOptions) {
    this.#options = options;
    if (options.surviveTheMesh) {
      this.recover = async (_label, askId): Promise<DeviceEnvelope | undefined> => this.of(askId)?.keptReply;
    }
  }

  async open({ askId }: OpenRoom): Promise<Room> {
    const { clock, planOf } = this.#options;
    const plan = planOf(askId);
    const attempt = (this.#attempts.get(askId) ?? 0) + 1;
    this.#attempts.set(askId, attempt);
    await sleep(clock, plan.latencyMs);
    const fault = plan.open;
    if (fault?.type === "error" && (!fault.once || attempt === 1)) {
      throw new RoomError(fault.kind, `planned: ${fault.kind}`, { retryAfterMs: fault.once ? 200 : undefined });
    }
    if (fault?.type === "bug") throw new TypeError("planned: the room adapter is broken");
    if (fault?.type === "hang") return new Promise<never>(() => {});
    if (fault?.type === "late") await sleep(clock, 25_000);
    const room = this.of(askId) ?? new FaultyRoom(askId, plan, clock, this.#options.profile);
    this.#rooms.set(askId, room);
    room.record.opened++;
    return room;
  }

  async check(): Promise<{ status: "active" }> {
    return { status: "active" };
  }

  async close(): Promise<void> {}

  /** The room of an ask, if one was opened. */
  of(askId: string): FaultyRoom | undefined {
    return this.#rooms.get(askId);
  }

  /** The mesh process of these asks died. */
  meshDied(askIds: Iterable<string>): void {
    for (const askId of askIds) this.of(askId)?.meshDied(this.#options.surviveTheMesh);
  }
}
