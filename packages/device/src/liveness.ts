import type { Clock, Timer } from "@leafmesh/protocol";

/** Finds a link that is dead without having said so. */
export interface Liveness {
  /** Something arrived. */
  heard(): void;
  stop(): void;
}

export interface LivenessOptions {
  readonly clock: Clock;
  /** Silence after which `ping` is called once. */
  readonly idleMs: number;
  /** Further silence after which `dead` is called, once. */
  readonly deadMs: number;
  readonly ping: () => void;
  readonly dead: () => void;
}

export function watchLiveness({ clock, idleMs, deadMs, ping, dead }: LivenessOptions): Liveness {
  let heardAt = clock.monotonicMs();
  let pinged = false;
  let timer: Timer | undefined;

  const look = (): void => {
    const silentMs = clock.monotonicMs() - heardAt;
    const limitMs = pinged ? idleMs + deadMs : idleMs;
    if (silentMs < limitMs) {
      timer = clock.schedule(limitMs - silentMs, look);
      return;
    }
    if (pinged) {
      dead();
      return;
    }
    pinged = true;
    timer = clock.schedule(deadMs, look);
    ping();
  };
  timer = clock.schedule(idleMs, look);

  return {
    heard() {
      heardAt = clock.monotonicMs();
      pinged = false;
    },
    stop() {
      timer?.cancel();
    },
  };
}
