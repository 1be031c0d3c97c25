import type { Backend } from "@leafmesh/core";
import type { StoredEvent, TransientEvent } from "@leafmesh/protocol";

const PAGE = 500;

export interface Followed {
  onEvent(event: StoredEvent): void;
  onTransient(event: TransientEvent): void;
  /** Called once, after the last stored event there was when following began. */
  onCaughtUp?(lastSeq: number): void;
}

/**
 * Backlog after `after`, then live, without a gap or a repeat: listens first, reads the store second, and drops what
 * came twice by its sequence number. Stops when `signal` is aborted.
 */
export async function followSession(
  backend: Backend,
  sessionId: string,
  after: number,
  followed: Followed,
  signal: AbortSignal,
): Promise<void> {
  let last = after;
  let caughtUp = false;
  const waiting: StoredEvent[] = [];

  const deliver = (event: StoredEvent): void => {
    if (signal.aborted || event.seq <= last) return;
    last = event.seq;
    followed.onEvent(event);
  };

  const stop = backend.subscribe(sessionId, {
    onEvents(events) {
      if (caughtUp) events.forEach(deliver);
      else waiting.push(...events);
    },
    onTransient(event) {
      if (caughtUp && !signal.aborted) followed.onTransient(event);
    },
  });
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) return stop();

  for (;;) {
    const page = await backend.events(sessionId, { after: last, limit: PAGE });
    page.forEach(deliver);
    if (page.length < PAGE || signal.aborted) break;
  }
  for (const event of waiting.splice(0)) deliver(event);
  caughtUp = true;
  if (!signal.aborted) followed.onCaughtUp?.(last);
}
