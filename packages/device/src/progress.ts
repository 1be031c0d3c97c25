import type { Clock, Timer } from "@leafmesh/protocol";

export interface Progress {
  readonly note?: string;
  readonly pct?: number;
}

export interface ProgressReporter {
  report(note?: string, pct?: number): void;
  /** Nothing is sent from now on. */
  stop(): void;
}

/** A room takes some twenty frames a second; a handler may report in a loop. */
const EVERY_MS = 250;
const MAX_NOTE_CHARACTERS = 500;

/** Sends the first report at once and then the newest one every quarter of a second. */
export function createProgressReporter(clock: Clock, send: (progress: Progress) => void): ProgressReporter {
  let pause: Timer | undefined;
  let newest: Progress | undefined;
  let stopped = false;

  const flush = (): void => {
    pause = undefined;
    if (!newest) return;
    send(newest);
    newest = undefined;
    pause = clock.schedule(EVERY_MS, flush);
  };

  return {
    report(note, pct) {
      if (stopped) return;
      newest = {
        ...(note === undefined ? {} : { note: note.slice(0, MAX_NOTE_CHARACTERS) }),
        ...(pct === undefined || Number.isNaN(pct) ? {} : { pct: Math.min(Math.max(pct, 0), 100) }),
      };
      if (!pause) flush();
    },
    stop() {
      stopped = true;
      pause?.cancel();
    },
  };
}
