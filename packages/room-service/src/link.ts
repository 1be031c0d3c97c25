import type { OutboundFrame } from "./room/frames.ts";

/** One connection of a seat as the room sees it: a WebSocket, or the in-memory seat of an embedded mesh. */
export interface Link {
  send(frame: OutboundFrame): void;
  /** The last call; nothing is sent after it. */
  close(code: number, reason: string): void;
  /** Stop reading, for back-pressure. */
  pause(): void;
  unpause(): void;
}
