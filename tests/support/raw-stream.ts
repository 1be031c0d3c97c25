/** An event stream as its bytes on a socket, for clients that are slow, stop reading or are cut in the middle of a frame. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";

export interface RawStream {
  readonly socket: Socket;
  /** Everything that came, headers and chunk sizes too. */
  bytes(): Buffer;
  /** The whole frames of stored events in it: their numbers and their texts. */
  events(): readonly { readonly id: number; readonly text: string }[];
  /** Resolves when the connection is over, however. */
  readonly closed: Promise<void>;
  /** Resolves when the frames so far satisfy `matches`, or rejects when the connection ends before. */
  until(matches: (ids: readonly number[]) => boolean): Promise<void>;
}

/** A frame with a number; the server writes each in one piece, so no chunk size stands inside. */
const FRAME = /^id: (\d+)\ndata: (.*)\n\n/gm;

export function openRawStream(port: number, path: string, lastEventId = 0): RawStream {
  const socket = connect(port, "127.0.0.1");
  const pieces: Buffer[] = [];
  const events: { id: number; text: string }[] = [];
  let unread = "";
  socket.on("error", () => {});
  socket.on("data", (piece) => {
    pieces.push(piece);
    unread += piece.toString("latin1");
    const end = unread.lastIndexOf("\n\n") + 2;
    if (end < 2) return;
    for (const [, id, text] of unread.slice(0, end).matchAll(FRAME)) events.push({ id: Number(id), text: text ?? "" });
    unread = unread.slice(end);
  });
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  const resume = lastEventId > 0 ? `last-event-id: ${lastEventId}\r\n` : "";
  socket.write(`GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\n${resume}\r\n`);
  return {
    socket,
    bytes: () => Buffer.concat(pieces),
    events: () => events,
    closed,
    async until(matches) {
      while (!matches(events.map(({ id }) => id))) {
        if (socket.destroyed) throw new Error(`the stream ended after event ${events.at(-1)?.id}`);
        await Promise.race([once(socket, "data").catch(() => {}), closed]);
      }
    },
  };
}
