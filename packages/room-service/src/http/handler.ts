/** The HTTP half of the protocol, on plain `node:http` objects so that it can be mounted anywhere. */
import type { IncomingMessage, ServerResponse } from "node:http";
import {
  type DeviceToken,
  type MeshToken,
  ROOM_PROTOCOL_VERSION,
  ROOM_SUBPROTOCOL,
  ROOM_VERSION_HEADER,
  type RoomSeat,
} from "@leafmesh/protocol";
import { statusOf } from "../room/state.ts";
import type { FoundRoom, Rooms, ServiceContext } from "../rooms.ts";
import type { ApiKeys } from "./api-keys.ts";
import { createOpenRoomRoute } from "./open-room.ts";
import { failure, type Reply, sendReply } from "./reply.ts";

export const CONNECT_PATH = "/v1/connect";
const ROOMS_PATH = "/v1/rooms";
const SEAT_OF_ACTION = new Map<string, RoomSeat>([
  ["device-token", "device"],
  ["mesh-token", "mesh"],
]);

export interface HttpContext extends ServiceContext {
  readonly rooms: Rooms;
  /** Left out, the service is not opened over HTTP. */
  readonly apiKeys: ApiKeys | undefined;
  readonly connectUrl: () => string;
  readonly isClosing: () => boolean;
}

/** Answers whether the request was one of the protocol's; if not it is untouched. */
export type HttpHandler = (request: IncomingMessage, response: ServerResponse) => boolean;

export function createHttpHandler(context: HttpContext): HttpHandler {
  const { apiKeys, rooms, logger } = context;
  const openRoom = createOpenRoomRoute(context);

  return (request, response) => {
    const path = pathOf(request);
    if (path === CONNECT_PATH) {
      sendReply(response, needsUpgrade());
      return true;
    }
    if (!apiKeys || !(path === ROOMS_PATH || path.startsWith(`${ROOMS_PATH}/`))) return false;
    answer(request, path, apiKeys).then(
      (reply) => sendReply(response, reply),
      (error: unknown) => {
        // A body that broke off has nobody left to answer.
        if (!request.complete) return void request.destroy();
        logger.error("a room request failed", { error });
        sendReply(response, failure("unavailable", "internal error", { status: 500 }));
      },
    );
    return true;
  };

  async function answer(request: IncomingMessage, path: string, keys: ApiKeys): Promise<Reply> {
    const version = request.headers[ROOM_VERSION_HEADER];
    if (version !== undefined && version !== String(ROOM_PROTOCOL_VERSION)) {
      return failure("unsupported_version", `this service speaks version ${ROOM_PROTOCOL_VERSION}`, {
        details: { supported: [ROOM_PROTOCOL_VERSION] },
      });
    }
    const owner = keys.ownerOf(request);
    if (owner === undefined) {
      return failure("unauthorized", "the API key is missing or unknown", {
        headers: { "www-authenticate": "Bearer" },
      });
    }
    if (context.isClosing()) return failure("unavailable", "the service is shutting down", { retryAfterMs: 5000 });
    if (path === ROOMS_PATH) return request.method === "POST" ? openRoom(request, owner) : notAllowed("POST");

    const [id = "", action, ...more] = path.slice(ROOMS_PATH.length + 1).split("/");
    const found = rooms.find(id, owner);
    if (action === undefined) return inspectOrClose(request.method, found);
    const seat = SEAT_OF_ACTION.get(action);
    if (!seat || more.length > 0) return notFound();
    return request.method === "POST" ? issueToken(found, seat) : notAllowed("POST");
  }

  function inspectOrClose(method: string | undefined, found: FoundRoom | undefined): Reply {
    if (method !== "GET" && method !== "DELETE") return notAllowed("GET, DELETE");
    if (!found) return notFound();
    if (method === "GET") {
      return { status: 200, body: found.state === "open" ? statusOf(found.host.state) : found.status };
    }
    if (found.state === "open") found.host.dispatch({ type: "end", reason: "closed" });
    return { status: 204 };
  }

  async function issueToken(found: FoundRoom | undefined, seat: RoomSeat): Promise<Reply> {
    if (!found) return notFound();
    if (found.state === "closed") return failure("room_closed", "the room is closed");
    const lifetimeMs = seat === "device" ? found.joinWithinMs : Number.POSITIVE_INFINITY;
    const credential = await rooms.issue(found.host, seat, lifetimeMs);
    if (!credential) return failure("conflict", "the device has taken its seat; a room has one device");
    const expiresAt = Math.floor(credential.expiresAtMs / 1000);
    const body: DeviceToken | MeshToken =
      seat === "device"
        ? { device_token: credential.token, device_token_expires_at: expiresAt }
        : { connect_url: context.connectUrl(), mesh_token: credential.token, mesh_token_expires_at: expiresAt };
    return { status: 201, body };
  }
}

function notFound(): Reply {
  return failure("room_not_found", "no such room");
}

function notAllowed(allow: string): Reply {
  return failure("invalid_request", `allowed here: ${allow}`, { status: 405, headers: { allow } });
}

/** For whoever comes to the WebSocket's address without asking for an upgrade to this protocol. */
export function needsUpgrade(): Reply {
  return failure("unsupported_version", `connect with a WebSocket and the subprotocol ${ROOM_SUBPROTOCOL}`, {
    status: 426,
    headers: { upgrade: "websocket", "sec-websocket-protocol": ROOM_SUBPROTOCOL },
  });
}

export function pathOf(request: IncomingMessage): string {
  const url = request.url ?? "/";
  const end = url.search(/[?#]/);
  return end < 0 ? url : url.slice(0, end);
}
