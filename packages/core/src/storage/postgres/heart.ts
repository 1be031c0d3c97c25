/** What a process does every few seconds while it uses the database. */
import type { Clock, Timer } from "@leafmesh/protocol";

export interface Heart {
  /** Ends the beating and resolves when the last beat has ended. */
  stop(): Promise<void>;
}

/** Calls `beat` every `everyMs`; a beat that takes longer delays the next. `beat` must not reject. */
export function startHeart(clock: Clock, everyMs: number, beat: () => Promise<void>): Heart {
  let timer: Timer | undefined;
  let isStopped = false;
  let beating = Promise.resolve();

  const schedule = (): void => {
    if (isStopped) return;
    timer = clock.schedule(everyMs, () => {
      beating = beat().then(schedule);
    });
  };
  schedule();

  return {
    async stop() {
      isStopped = true;
      timer?.cancel();
      await beating;
    },
  };
}
