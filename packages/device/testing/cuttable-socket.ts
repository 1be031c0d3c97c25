import { WebSocket } from "ws";
import type { WebSocketConstructor } from "../src/socket.ts";

/** A WebSocket whose link a test can cut, as a lost network does: without a word to either side's program. */
export function cuttableWebSocket(): { WebSocket: WebSocketConstructor; cut(): void; readonly opened: number } {
  const opened: WebSocket[] = [];
  class Cuttable extends WebSocket {
    constructor(url: string, protocols: string) {
      super(url, protocols);
      opened.push(this);
    }
  }
  return {
    WebSocket: Cuttable,
    cut: () => opened.at(-1)?.terminate(),
    get opened() {
      return opened.length;
    },
  };
}
