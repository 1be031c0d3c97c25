import type { Logger, StoredEvent, TransientEvent } from "@leafmesh/protocol";
import type { RunListener, SessionListener, StoredFrame } from "../contract.ts";
import { createTopics } from "./topics.ts";

export interface Bus {
  subscribe(sessionId: string, listener: SessionListener): () => void;
  subscribeRun(runId: string, listener: RunListener): () => void;
  /** To the listeners of each event's session and each frame's run, in the order given. */
  publish(announced: { readonly events: readonly StoredEvent[]; readonly frames: readonly StoredFrame[] }): void;
  publishTransient(sessionId: string, event: TransientEvent): void;
  publishPresence(sessionId: string): void;
}

/** Brings events and frames to listeners within the process. */
export function createBus(logger: Logger): Bus {
  const sessions = createTopics<SessionListener>((sessionId, error) =>
    logger.error("a listener to a session's events threw", { session_id: sessionId, error }),
  );
  const runs = createTopics<RunListener>((runId, error) =>
    logger.error("a listener to a run's frames threw", { run_id: runId, error }),
  );

  return {
    subscribe: sessions.subscribe,
    subscribeRun: runs.subscribe,
    publish({ events, frames }) {
      for (const [sessionId, ofSession] of grouped(events, (event) => event.session_id)) {
        sessions.deliver(sessionId, (listener) => listener.onEvents(ofSession));
      }
      for (const [runId, ofRun] of grouped(frames, (frame) => frame.runId)) {
        runs.deliver(runId, (listener) => listener.onFrames(ofRun));
      }
    },
    publishTransient(sessionId, event) {
      sessions.deliver(sessionId, (listener) => listener.onTransient(event));
    },
    publishPresence(sessionId) {
      sessions.deliver(sessionId, (listener) => listener.onPresence?.());
    },
  };
}

function grouped<Item>(
  items: readonly Item[],
  keyOf: (item: Item) => string,
): Iterable<readonly [string, readonly Item[]]> {
  const [first] = items;
  if (first === undefined) return [];
  const key = keyOf(first);
  return items.every((item) => keyOf(item) === key) ? [[key, items]] : Map.groupBy(items, keyOf);
}
