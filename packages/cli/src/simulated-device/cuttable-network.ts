import type { WebSocketConstructor, WebSocketLike } from "@leafmesh/device";

/** WebSockets over a network that can be cut. */
export interface CuttableNetwork {
  readonly WebSocket: WebSocketConstructor;
  /** Ends every connection without a word to the program, and lets no new one through for `ms`, or for ever. */
  cut(ms: number | undefined): void;
}

type Listener = (event: { data: unknown; code: number; reason: string }) => void;

/** The close code of a connection that ended without a close frame. */
const ABNORMAL = 1006;

export function cuttableNetwork(): CuttableNetwork {
  const connections = new Set<CuttableWebSocket>();
  let downUntilMs = 0;

  class CuttableWebSocket implements WebSocketLike {
    readonly #webSocket: WebSocket;
    readonly #onClose: Listener[] = [];

    constructor(url: string, protocols: string) {
      if (performance.now() < downUntilMs) throw new Error("the network is down");
      this.#webSocket = new WebSocket(url, protocols);
      this.#webSocket.addEventListener("close", ({ code, reason }) => this.#closed(code, reason));
      connections.add(this);
    }

    get protocol(): string {
      return this.#webSocket.protocol;
    }

    send(data: string): void {
      this.#webSocket.send(data);
    }

    close(code?: number, reason?: string): void {
      this.#webSocket.close(code, reason);
    }

    addEventListener(type: "open" | "error" | "message" | "close", listener: Listener): void {
      if (type === "close") this.#onClose.push(listener);
      else this.#webSocket.addEventListener(type, (event) => listener({ ...gone, data: dataOf(event) }));
    }

    /** The program hears of it at once, the other side as soon as the socket is closed. */
    cut(): void {
      this.#closed(ABNORMAL, "");
      this.#webSocket.close();
    }

    #closed(code: number, reason: string): void {
      connections.delete(this);
      for (const listener of this.#onClose.splice(0)) listener({ data: undefined, code, reason });
    }
  }

  const gone = { code: ABNORMAL, reason: "" };

  return {
    WebSocket: CuttableWebSocket,
    cut(ms) {
      downUntilMs = ms === undefined ? Number.POSITIVE_INFINITY : performance.now() + ms;
      for (const connection of [...connections]) connection.cut();
    },
  };
}

function dataOf(event: Event): unknown {
  return event instanceof MessageEvent ? event.data : undefined;
}
