import type { Clock, Timer } from "@leafmesh/protocol";

/** A clock that moves only when told to. Timers fire in order of their time, then of their arming. */
export interface FakeClock extends Clock {
  /** Moves time and fires what is due, letting promises settle before and after each timer. */
  advance(ms: number): Promise<void>;
  /** Fires the next timer, however far away; false when none is armed. */
  advanceToNext(): Promise<boolean>;
  /** Moves the wall clock alone, as a machine's administrator might. */
  setWallClock(nowMs: number): void;
  readonly pendingTimers: number;
}

interface Armed {
  readonly at: number;
  readonly order: number;
  readonly run: () => void;
}

/** `startMs` is the wall clock's first reading. */
export function createFakeClock(startMs = 1_800_000_000_000): FakeClock {
  const timers = new Set<Armed>();
  let elapsed = 0;
  let wallOffset = startMs;
  let order = 0;

  const next = (): Armed | undefined =>
    [...timers].sort((left, right) => left.at - right.at || left.order - right.order)[0];

  const fire = async (timer: Armed): Promise<void> => {
    timers.delete(timer);
    elapsed = Math.max(elapsed, timer.at);
    timer.run();
    await settlePromises();
  };

  return {
    nowMs: () => wallOffset + elapsed,
    monotonicMs: () => elapsed,
    schedule(afterMs, run): Timer {
      const timer: Armed = { at: elapsed + Math.max(afterMs, 0), order: order++, run };
      timers.add(timer);
      return { cancel: () => void timers.delete(timer) };
    },
    async advance(ms) {
      const until = elapsed + ms;
      await settlePromises();
      for (let timer = next(); timer && timer.at <= until; timer = next()) await fire(timer);
      elapsed = until;
      await settlePromises();
    },
    async advanceToNext() {
      await settlePromises();
      const timer = next();
      if (timer) await fire(timer);
      return timer !== undefined;
    },
    setWallClock(nowMs) {
      wallOffset = nowMs - elapsed;
    },
    get pendingTimers() {
      return timers.size;
    },
  };
}

/** Lets promise chains that wait for nothing else run to their end. */
async function settlePromises(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
  await new Promise<void>((resolve) => setImmediate(resolve));
}
