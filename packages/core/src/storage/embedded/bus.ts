import type { Logger, StoredEvent, TransientEvent } from "@leafmesh/protocol";
import type { SessionListener } from "../contract.ts";

export interface SessionBus {
  subscribe(sessionId: string, listener: SessionListener): () => void;
  /** To the listeners of each event's session, in the order given. */
  publish(events: readonly StoredEvent[]): void;
  publishTransient(sessionId: string, event: TransientEvent): void;
}

type Delivery = (listener: SessionListener) => void;

/**
 * Brings events to listeners within the process. A listener that throws is logged and keeps its subscription; one
 * that commits or publishes while it is called gets its turn after the others have seen what came before.
 */
export function createSessionBus(logger: Logger): SessionBus {
  const listeners = new Map<string, Set<SessionListener>>();
  const queue: { readonly sessionId: string; readonly deliver: Delivery }[] = [];
  let delivering = false;

  const deliver = (sessionId: string, deliver: Delivery): void => {
    if (!listeners.has(sessionId)) return;
    queue.push({ sessionId, deliver });
    if (delivering) return;
    delivering = true;
    for (let next = queue.shift(); next; next = queue.shift()) {
      for (const listener of [...(listeners.get(next.sessionId) ?? [])]) {
        if (!listeners.get(next.sessionId)?.has(listener)) continue;
        try {
          next.deliver(listener);
        } catch (error) {
          logger.error("a listener to a session's events threw", { session_id: next.sessionId, error });
        }
      }
    }
    delivering = false;
  };

  return {
    subscribe(sessionId, listener) {
      // An object of its own, so that one listener may be subscribed twice and let go once.
      const own: SessionListener = {
        onEvents: (events) => listener.onEvents(events),
        onTransient: (event) => listener.onTransient(event),
      };
      const ofSession = listeners.get(sessionId) ?? new Set();
      listeners.set(sessionId, ofSession.add(own));
      return () => {
        ofSession.delete(own);
        if (ofSession.size === 0 && listeners.get(sessionId) === ofSession) listeners.delete(sessionId);
      };
    },
    publish(events) {
      for (const [sessionId, ofSession] of bySession(events)) {
        deliver(sessionId, (listener) => listener.onEvents(ofSession));
      }
    },
    publishTransient(sessionId, event) {
      deliver(sessionId, (listener) => listener.onTransient(event));
    },
  };
}

function bySession(events: readonly StoredEvent[]): Iterable<readonly [string, readonly StoredEvent[]]> {
  const [first] = events;
  if (!first) return [];
  if (events.every((event) => event.session_id === first.session_id)) return [[first.session_id, events]];
  return Map.groupBy(events, (event) => event.session_id);
}
