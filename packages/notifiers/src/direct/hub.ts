/**
 * The mesh's end of the direct sockets: devices connect, say who they are, and wait to be rung. Whoever knows a device's
 * push token is that device; knowing its id is not enough, and a wrong token takes nothing away from the right one.
 */
import { createHash } from "node:crypto";
import { type IncomingMessage, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { type Clock, DIRECT_SUBPROTOCOL, type Logger, MAX_DIRECT_FRAME_BYTES, type Secret } from "@leafmesh/protocol";
import { WebSocketServer } from "ws";
import { DirectSocket } from "./socket.ts";

/** A push token as the hub knows it: never in clear, so that it can travel between the processes of one mesh. */
export type TokenHash = string;

export function hashDirectToken(token: Secret): TokenHash {
  return createHash("sha256").update(token.reveal()).digest("hex");
}

export interface DirectRing {
  readonly deviceId: string;
  readonly tokenHash: TokenHash;
  readonly askId: string;
  /** The ring as compact JSON. */
  readonly body: string;
}

/**
 * `received`: the device said that it has the ring. `written`: it went into a socket that is open, and nothing came back
 * within `ackWithinMs`. `no_socket`: no such device is connected here, or its socket closed under the ring. `busy`: the
 * device is connected, and had not confirmed enough of the rings before this one, which was not written.
 */
export type DirectDelivery = "received" | "written" | "no_socket" | "busy";

/** Who rings devices over their sockets: the hub of this process, or something that knows those of others. */
export interface DirectRinger {
  /** Never rejects, and ends within twice `ackWithinMs`; `signal` ends it sooner. */
  ring(ring: DirectRing, signal: AbortSignal): Promise<DirectDelivery>;
}

export interface DirectLimits {
  /** Sockets in all. */
  readonly sockets: number;
  /** Sockets of one remote address. This machine's own are not counted: a reverse proxy sends everyone from there. */
  readonly socketsPerAddress: number;
  /** The first frame must come within this time. */
  readonly helloWithinMs: number;
  /** A ring waits so long for its turn, and counts as taken when the device has not confirmed it within this time. */
  readonly ackWithinMs: number;
  /** Silence after which a socket is pinged, and further silence after which it is given up. */
  readonly idleMs: number;
  readonly deadMs: number;
}

export const DEFAULT_DIRECT_LIMITS: DirectLimits = {
  sockets: 10_000,
  socketsPerAddress: 256,
  helloWithinMs: 5000,
  ackWithinMs: 2000,
  idleMs: 25_000,
  deadMs: 10_000,
};

export interface DirectHubOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly limits?: Partial<DirectLimits> | undefined;
}

export interface DirectHub extends DirectRinger {
  /** Takes over an HTTP upgrade that was routed to the direct socket's path. Always ends the request. */
  handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** How many devices can be rung here. */
  connected(): number;
  /** Sends every device away, to come back later, and resolves when all sockets are closed; within 2 s. */
  close(): Promise<void>;
}

const CLOSE_WITHIN_MS = 2000;

export function createDirectHub(options: DirectHubOptions): DirectHub {
  return new Hub(options);
}

class Hub implements DirectHub {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #limits: DirectLimits;
  readonly #server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    maxPayload: MAX_DIRECT_FRAME_BYTES,
    perMessageDeflate: false,
    handleProtocols: () => DIRECT_SUBPROTOCOL,
  });
  /** Every open socket, those that have not said hello included. */
  readonly #sockets = new Set<DirectSocket>();
  readonly #perAddress = new Map<string, number>();
  /** Sockets that said hello, by device id. Several may claim one id; the token decides who is rung. */
  readonly #byDevice = new Map<string, Set<DirectSocket>>();
  #closing = false;

  constructor({ clock, logger, limits = {} }: DirectHubOptions) {
    this.#clock = clock;
    this.#logger = logger;
    this.#limits = { ...DEFAULT_DIRECT_LIMITS, ...limits };
  }

  handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const address = request.socket.remoteAddress ?? "unknown";
    const refusal = this.#refusal(request, address);
    if (refusal) {
      refuseUpgrade(socket, refusal.status, refusal.message);
      return;
    }
    this.#server.handleUpgrade(request, socket, head, (webSocket) => {
      this.#count(address, 1);
      const directSocket = new DirectSocket(webSocket, {
        clock: this.#clock,
        limits: this.#limits,
        hello: () => this.#register(directSocket),
        gone: () => {
          this.#sockets.delete(directSocket);
          this.#unregister(directSocket);
          this.#count(address, -1);
        },
      });
      this.#sockets.add(directSocket);
      if (this.#closing) directSocket.goAway();
    });
  }

  async ring(ring: DirectRing, signal: AbortSignal): Promise<DirectDelivery> {
    const socket = [...(this.#byDevice.get(ring.deviceId) ?? [])].find((each) => each.holds(ring.tokenHash));
    if (!socket || signal.aborted) return "no_socket";
    return socket.ring(ring, signal);
  }

  connected(): number {
    let count = 0;
    for (const sockets of this.#byDevice.values()) count += sockets.size;
    return count;
  }

  async close(): Promise<void> {
    this.#closing = true;
    const sockets = [...this.#sockets];
    for (const socket of sockets) socket.goAway();
    const timer = this.#clock.schedule(CLOSE_WITHIN_MS, () => {
      for (const socket of sockets) socket.terminate();
    });
    await Promise.all(sockets.map((socket) => socket.closed));
    timer.cancel();
  }

  #refusal(request: IncomingMessage, address: string): { status: number; message: string } | undefined {
    if (this.#closing) return { status: 503, message: "the mesh is stopping" };
    const offered = (request.headers["sec-websocket-protocol"] ?? "").split(",").map((name) => name.trim());
    if (!offered.includes(DIRECT_SUBPROTOCOL)) {
      return { status: 426, message: `the subprotocol ${DIRECT_SUBPROTOCOL} is spoken here` };
    }
    if (this.#sockets.size >= this.#limits.sockets) {
      this.#logger.warn("A device was sent away: the limit of direct sockets is reached.", {
        limit: this.#limits.sockets,
      });
      return { status: 503, message: "too many sockets" };
    }
    const fromThere = this.#perAddress.get(address) ?? 0;
    if (!isLoopback(address) && fromThere >= this.#limits.socketsPerAddress) {
      this.#logger.warn("A device was sent away: too many direct sockets from its address.", {
        limit: this.#limits.socketsPerAddress,
      });
      return { status: 503, message: "too many sockets from this address" };
    }
    return undefined;
  }

  #register(newcomer: DirectSocket): void {
    const sockets = this.#byDevice.get(newcomer.deviceId) ?? new Set();
    for (const older of sockets) {
      if (!older.holds(newcomer.tokenHash)) continue;
      sockets.delete(older);
      older.replace();
    }
    sockets.add(newcomer);
    this.#byDevice.set(newcomer.deviceId, sockets);
    this.#logger.debug("A device can be rung over its socket.", { device: newcomer.deviceId });
  }

  #unregister(socket: DirectSocket): void {
    const sockets = this.#byDevice.get(socket.deviceId);
    if (!sockets?.delete(socket)) return;
    if (sockets.size === 0) this.#byDevice.delete(socket.deviceId);
  }

  #count(address: string, by: 1 | -1): void {
    const count = (this.#perAddress.get(address) ?? 0) + by;
    if (count > 0) this.#perAddress.set(address, count);
    else this.#perAddress.delete(address);
  }
}

function isLoopback(address: string): boolean {
  return address === "::1" || /^(::ffff:)?127\./.test(address);
}

function refuseUpgrade(socket: Duplex, status: number, message: string): void {
  const body = JSON.stringify({ error: { code: "direct_refused", message } });
  const upgrade = status === 426 ? "upgrade: websocket\r\n" : "";
  socket.on("error", () => {});
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nconnection: close\r\n${upgrade}content-type: application/json\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}
