/**
 * A WebSocket as every runtime has it: browsers, Node 22 and later, React Native, and the `ws` package. What the kit
 * needs of it, and one way to use it that calls back in order and never after it is over.
 */
import { utf8Length } from "@leafmesh/protocol";

export interface WebSocketLike {
  readonly protocol: string;
  send(data: string): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: "open" | "error", listener: () => void): void;
  addEventListener(type: "message", listener: (event: { readonly data: unknown }) => void): void;
  addEventListener(type: "close", listener: (event: { readonly code: number; readonly reason: string }) => void): void;
}

export type WebSocketConstructor = new (url: string, protocols: string) => WebSocketLike;

/** The runtime's own WebSocket. Throws when it has none, which names the cure. */
export function runtimeWebSocket(): WebSocketConstructor {
  const { WebSocket } = globalThis as { WebSocket?: WebSocketConstructor };
  if (!WebSocket) {
    throw new TypeError(
      "This runtime has no WebSocket: use Node 22 or later, or hand one in as the `WebSocket` option",
    );
  }
  return WebSocket;
}

/** Close code for a connection that ended without a close frame. */
const ABNORMAL = 1006;

export interface SocketHandlers {
  open(): void;
  text(data: string): void;
  /** The last call, whoever ended the connection, unless it was {@link Socket.abandon}. */
  closed(code: number, reason: string): void;
}

export interface Socket {
  /** False when the connection is not open any more. */
  send(text: string): boolean;
  /** Starts the closing handshake; `closed` is called when it is through. `code` is 1000 or 4000 to 4999. */
  close(code: number, reason: string): void;
  /** As `close`, without waiting: no handler is called from now on. */
  abandon(code: number, reason: string): void;
}

export interface SocketOptions {
  readonly WebSocket: WebSocketConstructor;
  readonly url: string;
  readonly subprotocol: string;
  /** A frame over this many bytes, or one that is not text, ends the connection with `badFrameCode`. */
  readonly maxBytes: number;
  readonly badFrameCode: number;
}

export function openSocket(options: SocketOptions, handlers: SocketHandlers): Socket {
  const { WebSocket, url, subprotocol, maxBytes, badFrameCode } = options;
  let over = false;
  let webSocket: WebSocketLike | undefined;

  const finish = (code: number, reason: string): void => {
    if (over) return;
    over = true;
    handlers.closed(code, reason);
  };
  const close = (code: number, reason: string): void => {
    try {
      webSocket?.close(code, reason);
    } catch {
      // A socket that cannot be closed is closed.
    }
  };
  /** This side found the fault: the handlers hear of it at once and not when the other side agrees. */
  const fail = (code: number, reason: string): void => {
    finish(code, reason);
    close(code, reason);
  };

  try {
    webSocket = new WebSocket(url, subprotocol);
  } catch (cause) {
    // Told from a fresh stack, so that no handler runs before this function returned.
    queueMicrotask(() => finish(ABNORMAL, cause instanceof Error ? cause.message : "the address was not accepted"));
  }
  const opened = webSocket;
  opened?.addEventListener("open", () => {
    if (over) return;
    if (opened.protocol === subprotocol) handlers.open();
    else fail(badFrameCode, `the service does not speak ${subprotocol}`);
  });
  opened?.addEventListener("message", ({ data }) => {
    if (over) return;
    if (typeof data !== "string") fail(badFrameCode, "a frame was not text");
    else if (utf8Length(data) > maxBytes) fail(badFrameCode, `a frame was over ${maxBytes} bytes`);
    else handlers.text(data);
  });
  opened?.addEventListener("close", ({ code, reason }) => finish(code, reason));
  // A failed connection reports `error` and then `close`; the listener keeps `error` from being thrown.
  opened?.addEventListener("error", () => {});

  return {
    send(text) {
      if (over || !webSocket) return false;
      try {
        webSocket.send(text);
        return true;
      } catch {
        return false;
      }
    },
    close,
    abandon(code, reason) {
      over = true;
      close(code, reason);
    },
  };
}
