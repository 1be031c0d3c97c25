import type { Backend } from "@leafmesh/core";
import type { StoredEvent, TransientEvent } from "@leafmesh/protocol";

/** Small, because an event may be large and a reader slow. */
const PAGE = 25;

export interface Followed {
  /** The event as this follower is to see it, when that has to be found out first; what comes after it waits. */
  prepare?(event: StoredEvent): Promise<StoredEvent> | undefined;
  onEvent(event: StoredEvent): void;
  /** Awaited before the next event of the backlog is given. */
  room(): Promise<void> | undefined;
  onTransient(event: TransientEvent): void;
  /** Called once, after the last stored event there was when following began. */
  onCaughtUp?(lastSeq: number): void;
  /** A live event could not be prepared; nothing more comes. */
  onFailed?(error: unknown): void;
}

type Frame = { readonly event: StoredEvent } | { readonly transient: TransientEvent };

/**
 * Backlog after `after`, then live, without a gap or a repeat: listens first, and reads the store until it has caught up
 * with what it heard of. Events are not kept meanwhile, so a slow reader of a long backlog costs a page. Stops when
 * `signal` is aborted.
 */
export async function followSession(
  backend: Backend,
  sessionId: string,
  after: number,
  followed: Followed,
  signal: AbortSignal,
): Promise<void> {
  let last = after;
  /** Of the events that were heard of. */
  let newest = 0;
  let caughtUp = false;
  let preparing = false;
  const waiting: Frame[] = [];

  const deliver = (event: StoredEvent): void => {
    if (signal.aborted || event.seq <= last) return;
    last = event.seq;
    followed.onEvent(event);
  };

  const deliverPrepared = async (event: StoredEvent): Promise<void> => {
    deliver((await followed.prepare?.(event)) ?? event);
  };

  /** In order; an event that is being prepared holds up what comes after it. */
  const deliverWaiting = (): void => {
    while (!preparing && !signal.aborted) {
      const frame = waiting.shift();
      if (!frame) return;
      if ("transient" in frame) {
        followed.onTransient(frame.transient);
        continue;
      }
      if (frame.event.seq <= last) continue;
      const prepared = followed.prepare?.(frame.event);
      if (!prepared) {
        deliver(frame.event);
        continue;
      }
      preparing = true;
      prepared.then(
        (event) => {
          preparing = false;
          deliver(event);
          deliverWaiting();
        },
        (error: unknown) => {
          stop();
          followed.onFailed?.(error);
        },
      );
    }
  };

  const stop = backend.subscribe(sessionId, {
    onEvents(events) {
      newest = Math.max(newest, events.at(-1)?.seq ?? 0);
      if (!caughtUp) return;
      for (const event of events) waiting.push({ event });
      deliverWaiting();
    },
    onTransient(transient) {
      if (!caughtUp) return;
      waiting.push({ transient });
      deliverWaiting();
    },
  });
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) return stop();

  for (;;) {
    const heardOf = newest;
    const page = await backend.events(sessionId, { after: last, limit: PAGE });
    for (const event of page) {
      await deliverPrepared(event);
      await followed.room();
      if (signal.aborted) return;
    }
    // What was heard of before the page was read stands in it, unless it is gone.
    if (page.length < PAGE && newest <= Math.max(last, heardOf)) break;
  }
  if (signal.aborted) return;
  caughtUp = true;
  followed.onCaughtUp?.(last);
}
