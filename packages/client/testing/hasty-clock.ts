import { type Clock, systemClock } from "@leafmesh/protocol";

/** Real time, except that waits up to `upToMs` are over at once: for tests that reconnect and retry a lot. */
export function createHastyClock(upToMs: number): Clock {
  return {
    ...systemClock,
    schedule: (afterMs, run) => systemClock.schedule(afterMs <= upToMs ? 0 : afterMs, run),
  };
}
