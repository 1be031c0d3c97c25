import type { Clock, RoomStatus } from "@leafmesh/protocol";
import type { ServiceBounds } from "./bounds.ts";

interface Tombstone {
  readonly owner: string;
  readonly status: RoomStatus;
  readonly untilMs: number;
}

/** What is left of closed rooms: their last status, no content, for ten minutes and up to a bound. */
export class Tombstones {
  readonly #clock: Clock;
  readonly #bounds: Pick<ServiceBounds, "tombstoneMs" | "tombstones">;
  /** In the order of their end, since all are kept for the same time. */
  readonly #stones = new Map<string, Tombstone>();

  constructor(clock: Clock, bounds: Pick<ServiceBounds, "tombstoneMs" | "tombstones">) {
    this.#clock = clock;
    this.#bounds = bounds;
  }

  add(roomId: string, owner: string, status: RoomStatus): void {
    this.#stones.set(roomId, { owner, status, untilMs: this.#clock.monotonicMs() + this.#bounds.tombstoneMs });
    this.#sweep();
  }

  find(roomId: string, owner: string): RoomStatus | undefined {
    this.#sweep();
    const stone = this.#stones.get(roomId);
    return stone?.owner === owner ? stone.status : undefined;
  }

  get size(): number {
    return this.#stones.size;
  }

  #sweep(): void {
    const nowMs = this.#clock.monotonicMs();
    for (const [roomId, { untilMs }] of this.#stones) {
      if (untilMs > nowMs && this.#stones.size <= this.#bounds.tombstones) return;
      this.#stones.delete(roomId);
    }
  }
}
