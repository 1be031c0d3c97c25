/**
 * Server-sent events, written straight to the Node response: a web stream costs several times the memory and time.
 * A reader that does not read is cut off once its backlog is full; it comes back with `Last-Event-ID` and loses nothing.
 */
import type { ServerResponse } from "node:http";
import type { Clock, StoredEvent, TransientEvent } from "@leafmesh/protocol";

const HEARTBEAT_MS = 15_000;
const MAX_BACKLOG_BYTES = 1024 * 1024;
/** A history is read on when less than this waits for the reader. */
const READ_ON_BELOW_BYTES = 64 * 1024;
/** A reader of the history who takes nothing for so long is cut off. */
const STALLED_MS = 120_000;

export interface EventStream {
  /** A stored event, with its sequence number as `id:`. */
  event(event: StoredEvent): void;
  /** A stored frame of a run, with its sequence number as `id:`. */
  frame(seq: number, data: unknown): void;
  /** A frame that is not stored: no `id:`, never replayed. */
  transient(event: TransientEvent): void;
  /**
   * Whoever brings a history awaits this between its events, so that it comes as fast as it is read and no faster. Nothing
   * to wait for is `undefined`. Resolves when the stream is over, too.
   */
  room(): Promise<void> | undefined;
  /** Ends the response. */
  end(): void;
  readonly open: boolean;
  /** Resolves when the response is over, whoever ended it. */
  readonly closed: Promise<void>;
}

/** Sends the headers and a comment at once, so that a proxy or a client knows that the stream is there. */
export function openEventStream(response: ServerResponse, clock: Clock, headers: Record<string, string>): EventStream {
  response.writeHead(200, {
    ...headers,
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
  });
  response.write(": connected\n\n");
  response.socket?.setNoDelay(true);

  let open = true;
  let lastWriteMs = clock.monotonicMs();
  let heartbeat = clock.schedule(HEARTBEAT_MS, beat);
  const { promise: closed, resolve } = Promise.withResolvers<void>();

  function finish(): void {
    if (!open) return;
    open = false;
    heartbeat.cancel();
    resolve();
  }

  function beat(): void {
    const silentMs = clock.monotonicMs() - lastWriteMs;
    if (silentMs >= HEARTBEAT_MS) write(": heartbeat\n\n");
    if (open) heartbeat = clock.schedule(Math.max(HEARTBEAT_MS - (clock.monotonicMs() - lastWriteMs), 1), beat);
  }

  function write(text: string): void {
    if (!open) return;
    lastWriteMs = clock.monotonicMs();
    response.write(text);
    if (response.writableLength > MAX_BACKLOG_BYTES) response.destroy();
  }

  function taken(): Promise<void> {
    return new Promise((resolveTaken) => {
      const cut = clock.schedule(STALLED_MS, () => response.destroy());
      const over = (): void => {
        cut.cancel();
        response.off("drain", over);
        resolveTaken();
      };
      response.on("drain", over);
      void closed.then(over);
    });
  }

  response.on("close", finish);
  response.on("error", finish);

  return {
    event(event) {
      write(
        `id: ${event.seq}\ndata: ${JSON.stringify({ type: event.type, payload: event.payload, ts: event.ts })}\n\n`,
      );
    },
    frame(seq, data) {
      write(`id: ${seq}\ndata: ${JSON.stringify(data)}\n\n`);
    },
    transient(event) {
      const ts = clock.nowMs() / 1000;
      write(`data: ${JSON.stringify({ type: event.type, payload: event.payload, ts })}\n\n`);
    },
    room: () => (open && response.writableLength >= READ_ON_BELOW_BYTES ? taken() : undefined),
    end() {
      if (!open) return;
      finish();
      response.end();
    },
    get open() {
      return open;
    },
    closed,
  };
}
