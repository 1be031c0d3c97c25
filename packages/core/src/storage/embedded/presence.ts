import type { Clock } from "@leafmesh/protocol";
import type { Closable, SessionPresence } from "../contract.ts";

/** How long it is known when a session's last stream left. */
const REMEMBERED_MS = 120_000;
/** Sessions that are remembered without a stream before the old ones are looked for. */
const LARGEST_MEMORY = 1_000;

interface Attached {
  streams: number;
  executors: number;
  streamLeftAt?: number;
  executorLeftAt?: number;
}

export interface Presences {
  /** `onChange` is called now and when the stream has left. */
  attach(sessionId: string, executor: boolean, onChange: () => void): Closable;
  of(sessionId: string, executorDeclared: boolean): SessionPresence;
}

/** Counts the streams of each session within the process. */
export function createPresences(clock: Clock): Presences {
  const sessions = new Map<string, Attached>();
  const startedAt = clock.nowMs();

  const forgetOld = (): void => {
    if (sessions.size < LARGEST_MEMORY) return;
    const before = clock.nowMs() - REMEMBERED_MS;
    for (const [sessionId, { streams, streamLeftAt = 0 }] of sessions) {
      if (streams === 0 && streamLeftAt < before) sessions.delete(sessionId);
    }
  };

  return {
    attach(sessionId, executor, onChange) {
      const attached = sessions.get(sessionId) ?? { streams: 0, executors: 0 };
      sessions.set(sessionId, attached);
      attached.streams++;
      if (executor) attached.executors++;
      let open = true;
      onChange();
      return {
        async close() {
          if (!open) return;
          open = false;
          attached.streams--;
          attached.streamLeftAt = clock.nowMs();
          if (executor) {
            attached.executors--;
            attached.executorLeftAt = attached.streamLeftAt;
          }
          forgetOld();
          onChange();
        },
      };
    },
    of(sessionId, executorDeclared) {
      const attached = sessions.get(sessionId) ?? { streams: 0, executors: 0 };
      const cameYet = attached.executors > 0 || attached.executorLeftAt !== undefined;
      // One that was there when the process before this one ended left with it, and may be on its way back.
      const before = executorDeclared && !cameYet ? { executorLeftAt: startedAt } : {};
      return { ...before, ...attached, executorDeclared };
    },
  };
}
