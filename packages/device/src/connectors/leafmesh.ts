/**
 * LeafMesh rooms, built in or of an operator's own room service: the device's side of the LeafMesh room protocol,
 * version 1, over one WebSocket.
 */
import {
  type Clock,
  type Logger,
  mayResumeAfter,
  type Ring,
  ROOM_CLOSE,
  ROOM_PROTOCOL_VERSION,
  ROOM_SUBPROTOCOL,
  silentLogger,
  systemClock,
} from "@leafmesh/protocol";
import { isAllowedSocketAddress } from "../addresses.ts";
import { type Connector, JoinError } from "../connector.ts";
import { openSocket, runtimeWebSocket, type WebSocketConstructor } from "../socket.ts";
import { joinFault } from "./leafmesh-codes.ts";
import { CLIENT, MAX_SERVICE_FRAME_BYTES, takeSeat } from "./leafmesh-seat.ts";

export interface LeafmeshConnectorOptions {
  /** The runtime's own unless given. */
  readonly WebSocket?: WebSocketConstructor | undefined;
  readonly clock?: Clock | undefined;
  readonly logger?: Logger | undefined;
  /** Spreads reconnects; `Math.random` unless given. */
  readonly random?: (() => number) | undefined;
}

/** Serves rings whose room is `leafmesh` (built in) or `room` (a custom room service). */
export function leafmeshConnector(options: LeafmeshConnectorOptions = {}): Connector {
  const { clock = systemClock, logger = silentLogger, random = Math.random } = options;
  return {
    providers: ["leafmesh", "room"],
    async join(ring, { capabilities, signal }) {
      const WebSocket = options.WebSocket ?? runtimeWebSocket();
      return takeSeat({ ...credentials(ring), capabilities }, { WebSocket, clock, logger, random }, signal);
    },
    async refuse(ring, signal) {
      return sendRefusal(credentials(ring), options.WebSocket ?? runtimeWebSocket(), signal);
    },
  };
}

interface Credentials {
  readonly url: string;
  readonly token: string;
}

function credentials(ring: Ring): Credentials {
  const { url, token } = ring.join;
  if (url === undefined || token === undefined) {
    throw new JoinError("unsupported", `The ring for a ${ring.join.provider} room holds no address or no token`);
  }
  if (!isAllowedSocketAddress(url)) {
    throw new JoinError("unsupported", "The room's address must start with wss://; ws:// is for this machine alone");
  }
  return { url, token };
}

/** One hello that takes no seat. The service answers it by closing the socket. */
function sendRefusal(to: Credentials, WebSocket: WebSocketConstructor, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const hello = {
      type: "hello",
      v: ROOM_PROTOCOL_VERSION,
      client: CLIENT,
      token: to.token,
      refuse: "not_allowed",
    };
    const giveUp = (): void => {
      socket.abandon(ROOM_CLOSE.finished, "gave up");
      reject(new JoinError("unreachable", "The room service did not answer in time"));
    };
    const socket = openSocket(
      {
        WebSocket,
        url: to.url,
        subprotocol: ROOM_SUBPROTOCOL,
        maxBytes: MAX_SERVICE_FRAME_BYTES,
        badFrameCode: ROOM_CLOSE.badFrame,
      },
      {
        open: () => socket.send(JSON.stringify(hello)),
        text: () => {},
        closed(code, reason) {
          signal.removeEventListener("abort", giveUp);
          if (code === ROOM_CLOSE.finished || code === ROOM_CLOSE.closed) resolve();
          else {
            const kind = mayResumeAfter(code) ? "unreachable" : joinFault(code);
            reject(
              new JoinError(kind, `The room service did not take the refusal: ${reason || `closed with ${code}`}`),
            );
          }
        },
      },
    );
    if (signal.aborted) giveUp();
    else signal.addEventListener("abort", giveUp, { once: true });
  });
}
