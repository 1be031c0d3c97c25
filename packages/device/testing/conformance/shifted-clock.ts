import { type Clock, systemClock } from "@leafmesh/protocol";

/** The system's clock, which can be put forward. Timers that are armed stay as they are. */
export function shiftedClock(): { readonly clock: Clock; forward(ms: number): void } {
  let aheadMs = 0;
  return {
    clock: {
      ...systemClock,
      nowMs: () => systemClock.nowMs() + aheadMs,
      monotonicMs: () => systemClock.monotonicMs() + aheadMs,
    },
    forward(ms) {
      aheadMs += ms;
    },
  };
}
