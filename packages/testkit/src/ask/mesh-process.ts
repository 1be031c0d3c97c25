/** One life of a simulated mesh process: what it may touch, until it is killed. Then nothing it does has any effect. */
import { type Backend, StorageError, type Write } from "@leafmesh/core";
import type { Notifier } from "@leafmesh/notifiers/contract";
import type { Clock, Timer } from "@leafmesh/protocol";
import type { Room, RoomProvider } from "@leafmesh/rooms/contract";

/** When the process dies: at its n-th commit, before or after that is stored. */
export interface KillPlan {
  readonly atCommit: number;
  readonly when: "before" | "after";
}

export interface StoreFault {
  /** The n-th commit fails. */
  readonly atCommit: number;
  /** Whether it was stored all the same, as when a connection breaks during the answer. */
  readonly storedAnyway: boolean;
}

export interface MeshProcessOptions {
  readonly backend: Backend;
  readonly clock: Clock;
  readonly kill: KillPlan | undefined;
  readonly storeFault: StoreFault | undefined;
  onKilled(): void;
}

export class MeshProcess {
  readonly backend: Backend;
  readonly clock: Clock;
  readonly #options: MeshProcessOptions;
  readonly #timers = new Set<Timer>();
  #commits = 0;
  #underWay = 0;
  #isDead = false;

  constructor(options: MeshProcessOptions) {
    this.#options = options;
    this.backend = this.#guardBackend(options.backend);
    this.clock = {
      nowMs: () => options.clock.nowMs(),
      monotonicMs: () => options.clock.monotonicMs(),
      schedule: (afterMs, run) => this.#schedule(afterMs, run),
    };
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  /** Reads and writes of the store that are not finished; time must not go on before they are. */
  get underWay(): number {
    return this.#isDead ? 0 : this.#underWay;
  }

  /** Timers that are armed. */
  get timers(): number {
    return this.#timers.size;
  }

  guardNotifier(notifier: Notifier): Notifier {
    return {
      ring: (...request) => this.#alive(() => notifier.ring(...request)),
      check: (signal) => notifier.check(signal),
      close: () => notifier.close(),
    };
  }

  guardRooms(rooms: RoomProvider): RoomProvider {
    const recover = rooms.recover?.bind(rooms);
    return {
      open: (...request) => this.#alive(async () => this.#guardRoom(await rooms.open(...request))),
      check: (signal) => rooms.check(signal),
      close: () => rooms.close(),
      ...(recover ? { recover: (...asked) => this.#alive(() => recover(...asked)) } : {}),
    };
  }

  #guardRoom(room: Room): Room {
    return {
      join: room.join,
      label: room.label,
      maxTaskBytes: room.maxTaskBytes,
      events: room.events,
      send: (task, signal) => this.#alive(() => room.send(task, signal)),
      cancel: (id, reason) => this.#alive(() => room.cancel(id, reason)),
      close: (reason) => this.#alive(() => room.close(reason)),
    };
  }

  #guardBackend(backend: Backend): Backend {
    const counted = <Value>(work: () => Promise<Value>): Promise<Value> =>
      this.#alive(async () => {
        this.#underWay++;
        try {
          return await work();
        } finally {
          this.#underWay--;
        }
      });
    return {
      ...backend,
      commit: (writes) => counted(() => this.#commit(backend, writes)),
      call: (id) => counted(() => backend.call(id)),
      calls: (query) => counted(() => backend.calls(query)),
      queue: backend.queue,
    };
  }

  async #commit(backend: Backend, writes: readonly Write[]) {
    const { kill, storeFault } = this.#options;
    const commit = ++this.#commits;
    if (kill?.atCommit === commit && kill.when === "before") return this.#die();
    if (storeFault?.atCommit === commit) {
      if (storeFault.storedAnyway) await backend.commit(writes);
      throw new StorageError("unavailable", "planned: the store failed");
    }
    const result = await backend.commit(writes);
    if (kill?.atCommit === commit) return this.#die();
    return result;
  }

  /** Work of a dead process never comes to anything, and never comes back. */
  async #alive<Value>(work: () => Promise<Value>): Promise<Value> {
    if (this.#isDead) return never();
    const value = await work();
    return this.#isDead ? never() : value;
  }

  #die(): Promise<never> {
    this.kill();
    return never();
  }

  kill(): void {
    if (this.#isDead) return;
    this.#isDead = true;
    for (const timer of this.#timers) timer.cancel();
    this.#timers.clear();
    this.#options.onKilled();
  }

  #schedule(afterMs: number, run: () => void): Timer {
    if (this.#isDead) return { cancel() {} };
    const armed = this.#options.clock.schedule(afterMs, () => {
      this.#timers.delete(timer);
      run();
    });
    const timer: Timer = {
      cancel: () => {
        this.#timers.delete(timer);
        armed.cancel();
      },
    };
    this.#timers.add(timer);
    return timer;
  }
}

function never(): Promise<never> {
  return new Promise(() => {});
}
