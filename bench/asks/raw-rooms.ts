/**
 * Bare `ws` rooms: two sockets of one path, text passed on as it is. As in every protocol that keeps credentials out of
 * addresses, the first message says who comes, and only then the mesh learns that its device is there.
 */
import type { Server } from "node:http";
import { type WebSocket, WebSocketServer } from "ws";
import { RAW_RING_PATH, rawPath } from "./meeting.ts";

export interface RawRooms {
  /** The bare device's ring socket. */
  ringer(): WebSocket | undefined;
  /** The device's socket of a room, when it has said hello. */
  device(room: string): Promise<WebSocket>;
}

/** Takes the upgrades of the bare paths; others are left to the caller. */
export function acceptRaw(server: Server): RawRooms {
  const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false, clientTracking: false });
  const byPath = new Map<string, WebSocket>();
  const waiting = new Map<string, (socket: WebSocket) => void>();
  server.on("upgrade", (request, socket, head) => {
    const path = request.url ?? "";
    if (!path.startsWith("/raw/")) return;
    sockets.handleUpgrade(request, socket, head, (webSocket) => {
      byPath.set(path, webSocket);
      const [, , room = "", seat = ""] = path.split("/");
      const other = rawPath(room, seat === "mesh" ? "device" : "mesh");
      webSocket.once("message", () => {
        webSocket.on("message", (data) => byPath.get(other)?.send(data.toString()));
        if (seat === "mesh") webSocket.send("welcome");
        if (seat === "device") byPath.get(other)?.send("joined");
        waiting.get(path)?.(webSocket);
        waiting.delete(path);
      });
      webSocket.on("close", () => byPath.delete(path));
    });
  });
  return {
    ringer: () => byPath.get(RAW_RING_PATH),
    device: (room) => new Promise((resolve) => waiting.set(rawPath(room, "device"), resolve)),
  };
}
