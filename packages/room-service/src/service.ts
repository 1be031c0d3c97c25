import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import {
  type Clock,
  type Logger,
  type NewId,
  type RoomLimits,
  randomId,
  type Secret,
  silentLogger,
  systemClock,
} from "@leafmesh/protocol";
import { resolveBounds, resolveLimits, type ServiceBounds } from "./bounds.ts";
import { createApiKeys } from "./http/api-keys.ts";
import { createHttpHandler } from "./http/handler.ts";
import { type LocalRoom, type OpenLocalRoom, openLocalRoom } from "./local-seat.ts";
import { type StepRoom, stepRoom } from "./room/step.ts";
import { Rooms } from "./rooms.ts";
import { createSeatTokens, type TokenKey } from "./tokens.ts";
import { createUpgrades } from "./upgrade.ts";

/** How long the closing handshakes may take when the service ends. */
const CLOSING_MS = 1000;

export interface RoomServiceOptions {
  /**
   * Where devices (and meshes that are not in this process) connect: `wss://…/v1/connect`, or `ws://` on loopback. A
   * function is asked at every opening, for a server that learns its port late.
   */
  readonly connectUrl: string | (() => string);
  /** Who may open rooms over HTTP. Without any, only this process can. */
  readonly apiKeys?: readonly Secret[] | undefined;
  /** Signing keys of the seat tokens; the first signs, all verify. Default: a random one, which dies with the process. */
  readonly tokenKeys?: readonly TokenKey[] | undefined;
  /** What the protocol announces to clients. */
  readonly limits?: Partial<RoomLimits> | undefined;
  /** What the service as a whole may hold. */
  readonly bounds?: Partial<ServiceBounds> | undefined;
  /** Origins of browser pages that may connect; left out, `Origin` is not looked at. */
  readonly allowedOrigins?: readonly string[] | undefined;
  /** The address that a connection is counted under. Default: the socket's. Set it behind a proxy that you trust. */
  readonly clientAddress?: ((request: IncomingMessage) => string) | undefined;
  readonly clock?: Clock | undefined;
  readonly newId?: NewId | undefined;
  readonly logger?: Logger | undefined;
}

/** A room service, to be mounted in an HTTP server of somebody else's; `serveRooms` brings one of its own. */
export interface RoomService {
  /** A room whose mesh seat is this process. Rejects when the service is closed or holds as many rooms as it may. */
  openLocal(request: OpenLocalRoom): Promise<LocalRoom>;
  /** For the server's `upgrade` event. Answers whether the path was `/v1/connect`; if not the socket is untouched. */
  handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): boolean;
  /** For the server's `request` event. Answers whether the path was the protocol's; if not nothing was touched. */
  handleRequest(request: IncomingMessage, response: ServerResponse): boolean;
  /** How much it holds now. */
  stats(): { readonly rooms: number; readonly connections: number };
  /** Ends every room with `closing: shutdown`, closes the sockets and takes nothing new. Idempotent. */
  close(): Promise<void>;
}

/** Why {@link RoomService.openLocal} could not open a room. */
export class RoomServiceError extends Error {
  override readonly name = "RoomServiceError";
  readonly code: "closed" | "full";

  constructor(code: "closed" | "full", message: string) {
    super(message);
    this.code = code;
  }
}

/** Throws a `RangeError` when a limit makes no sense. Opens nothing by itself. */
export function createRoomService(options: RoomServiceOptions): RoomService {
  return createRoomServiceWith(stepRoom, options);
}

/** The same with other rules: how the conformance suite is shown services that break them. */
export function createRoomServiceWith(step: StepRoom, options: RoomServiceOptions): RoomService {
  const clock = options.clock ?? systemClock;
  const { connectUrl } = options;
  const core = {
    clock,
    newId: options.newId ?? randomId,
    logger: options.logger ?? silentLogger,
    limits: resolveLimits(options.limits),
    bounds: resolveBounds(options.bounds),
    tokens: createSeatTokens(clock, options.tokenKeys),
    step,
  };
  let closing: Promise<void> | undefined;
  const context = {
    ...core,
    rooms: new Rooms(core),
    connectUrl: typeof connectUrl === "string" ? () => connectUrl : connectUrl,
    apiKeys: options.apiKeys?.length ? createApiKeys(options.apiKeys) : undefined,
    allowedOrigins: options.allowedOrigins,
    clientAddress: options.clientAddress ?? ((request: IncomingMessage) => request.socket.remoteAddress ?? ""),
    isClosing: () => closing !== undefined,
  };
  const { rooms } = context;
  const handleRequest = createHttpHandler(context);
  const upgrades = createUpgrades(context);

  const shutDown = async (): Promise<void> => {
    rooms.endAll("shutdown");
    for (const connection of upgrades.connections) connection.goAway();
    await upgrades.drained(CLOSING_MS);
  };

  return {
    async openLocal(request) {
      if (closing) throw new RoomServiceError("closed", "the room service is shut down");
      if (rooms.fullFor("") === "service") {
        throw new RoomServiceError("full", `the room service holds ${core.bounds.rooms} rooms and takes no more`);
      }
      return openLocalRoom(request, context);
    },
    handleUpgrade: (request, socket, head) => upgrades.handle(request, socket, head),
    handleRequest,
    stats: () => ({ rooms: rooms.size, connections: upgrades.connections.size }),
    close() {
      closing ??= shutDown();
      return closing;
    },
  };
}
