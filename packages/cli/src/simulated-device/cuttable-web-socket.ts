import type { WebSocketConstructor, WebSocketLike } from "@leafmesh/device";

/** WebSockets over a network that can be cut. */
export interface CuttableNetwork {
  readonly WebSocket: WebSocketConstructor;
  /** Ends every connection without a word to the program, and refuses new ones for `ms`, or for ever. */
  cut(ms: number | undefined): void;
}

type Listener = (event: { code: number; reason: string }) => void;

const ABNORMAL = 1006;

export function cuttableNetwork(): CuttableNetwork {
  const open = new Set<{ cut(): void }>();
  let closedUntilMs = 0;

  class CuttableWebSocket extends WebSocket {
    readonly #closeListeners: Listener[] = [];

    constructor(url: string, protocols: string) {
      super(url, protocols);
      const self = { cut: () => this.#cut() };
      open.add(self);
      super.addEventListener("close", (event) => {
        open.delete(self);
        for (const listener of this.#closeListeners.splice(0)) listener(event);
      });
      if (performance.now() < closedUntilMs) queueMicrotask(self.cut);
    }

    /** The program hears of the cut at once; the other side when the closing handshake reaches it. */
    #cut(): void {
      for (const listener of this.#closeListeners.splice(0)) listener({ code: ABNORMAL, reason: "" });
      super.close();
    }

    override addEventListener(type: string, listener: EventListenerOrEventListenerObject): void {
      if (type === "close" && typeof listener === "function") {
        this.#closeListeners.push((event) => listener(Object.assign(new Event("close"), event)));
        return;
      }
      super.addEventListener(type, listener);
    }
  }

  return {
    WebSocket: CuttableWebSocket as new (url: string, protocols: string) => WebSocketLike,
    cut(ms) {
      closedUntilMs = ms === undefined ? Number.POSITIVE_INFINITY : performance.now() + ms;
      for (const socket of [...open]) socket.cut();
    },
  };
}
