/**
 * The rooms outside the mesh, in one process: LeafMesh's service as `leafmesh rooms serve` runs it, and a bare relay that
 * passes text between the two sockets of a path. Prints their addresses as one line of JSON.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Secret } from "@leafmesh/protocol";
import { serveRooms } from "@leafmesh/room-service";
import { NO_RATE, ROOM_KEY } from "./meeting.ts";
import { acceptRaw } from "./raw-rooms.ts";

const bounds = { opensPerSecond: 100_000, connectsPerSecond: 100_000 };
const rooms = await serveRooms({
  host: "127.0.0.1",
  port: 0,
  apiKeys: [new Secret(ROOM_KEY)],
  limits: NO_RATE,
  bounds,
});

// Opening and closing a room are one HTTP request each here as well.
const relay = createServer((request, response) => {
  request.resume();
  response.writeHead(request.method === "POST" ? 201 : 204).end();
});
acceptRaw(relay);
await new Promise<void>((resolve) => relay.listen(0, "127.0.0.1", resolve));
const { port } = relay.address() as AddressInfo;
console.log(JSON.stringify({ rooms: rooms.url, relay: `http://127.0.0.1:${port}` }));
