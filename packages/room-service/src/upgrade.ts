import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { ROOM_SUBPROTOCOL } from "@leafmesh/protocol";
import { type ServerOptions, WebSocketServer } from "ws";
import { Connection, type ConnectionContext } from "./connection.ts";
import { CONNECT_PATH, needsUpgrade, pathOf } from "./http/handler.ts";
import { failure, type Reply, refusalOfUpgrade } from "./http/reply.ts";
import { TokenBuckets } from "./token-bucket.ts";

/** How long a peer may take to answer a close frame. */
const CLOSE_TIMEOUT_MS = 5000;
/** Frames are small: a client that splits one into more parts than this is not after a conversation. */
const MAX_FRAGMENTS = 256;

export interface UpgradeContext extends ConnectionContext {
  readonly isClosing: () => boolean;
  /** Whose address a request is counted under; behind a proxy the socket's own is the proxy's. */
  readonly clientAddress: (request: IncomingMessage) => string;
  /** Origins of browser pages that may connect; left out, `Origin` is not looked at. */
  readonly allowedOrigins: readonly string[] | undefined;
}

export interface Upgrades {
  /** Answers whether the request was for the room service; if not, its socket is untouched. */
  handle(request: IncomingMessage, socket: Duplex, head: Buffer): boolean;
  /** Open sockets, with a seat or without. */
  readonly connections: ReadonlySet<Connection>;
  /** Resolves when no socket is open, at the latest after `timeoutMs`; what is left then is cut. */
  drained(timeoutMs: number): Promise<void>;
}

export function createUpgrades(context: UpgradeContext): Upgrades {
  const { clock, bounds, limits } = context;
  const connects = new TokenBuckets({ burst: bounds.connectsBurst, perSecond: bounds.connectsPerSecond });
  const connections = new Set<Connection>();
  let pending = 0;
  let onDrained: (() => void) | undefined;
  const options: ServerOptions & { readonly closeTimeout: number } = {
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    autoPong: false,
    maxPayload: limits.frame,
    maxFragments: MAX_FRAGMENTS,
    closeTimeout: CLOSE_TIMEOUT_MS,
    handleProtocols: () => ROOM_SUBPROTOCOL,
  };
  const webSockets = new WebSocketServer(options);

  /** Counts a socket as waiting until the answer is called. It must not keep the request, which it outlives. */
  const startPending = (): (() => void) => {
    pending++;
    let isPending = true;
    return () => {
      if (isPending) pending--;
      isPending = false;
    };
  };

  const admit = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    const settle = startPending();
    // A handshake that fails inside the library ends its socket and calls nobody.
    socket.once("close", settle);
    webSockets.handleUpgrade(request, socket, head, (webSocket) => {
      socket.off("close", settle);
      const connection = new Connection(webSocket, socket, context, {
        settled: settle,
        gone: () => {
          connections.delete(connection);
          if (connections.size === 0) onDrained?.();
        },
      });
      connections.add(connection);
    });
  };

  const judge = (request: IncomingMessage): readonly [Reply, string] | undefined => {
    if (!offersProtocol(request)) return [needsUpgrade(), "Upgrade Required"];
    if (context.isClosing()) {
      return [failure("unavailable", "the service is shutting down", { retryAfterMs: 5000 }), "Service Unavailable"];
    }
    const { origin } = request.headers;
    if (context.allowedOrigins && origin !== undefined && !context.allowedOrigins.includes(origin)) {
      return [failure("forbidden", "this origin may not connect"), "Forbidden"];
    }
    const taken = connects.take(context.clientAddress(request), clock.monotonicMs());
    if (!taken.taken) {
      const reply = failure("rate_limited", "too many connections at once", { retryAfterMs: taken.retryAfterMs });
      return [reply, "Too Many Requests"];
    }
    if (pending >= bounds.pendingConnections) {
      return [
        failure("unavailable", "too many connections are waiting", { retryAfterMs: 1000 }),
        "Service Unavailable",
      ];
    }
    return undefined;
  };

  return {
    connections,
    handle(request, socket, head) {
      if (pathOf(request) !== CONNECT_PATH) return false;
      const refusal = judge(request);
      if (!refusal) admit(request, socket, head);
      else {
        socket.on("error", () => socket.destroy());
        socket.end(refusalOfUpgrade(...refusal), () => socket.destroy());
      }
      return true;
    },
    async drained(timeoutMs) {
      if (connections.size === 0) return;
      await new Promise<void>((resolve) => {
        const timer = clock.schedule(timeoutMs, () => {
          for (const connection of connections) connection.terminate();
          resolve();
        });
        onDrained = () => {
          timer.cancel();
          resolve();
        };
      });
    },
  };
}

function offersProtocol(request: IncomingMessage): boolean {
  const offered = request.headers["sec-websocket-protocol"] ?? "";
  return offered.split(",").some((protocol) => protocol.trim() === ROOM_SUBPROTOCOL);
}
