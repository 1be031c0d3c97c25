export { DEFAULT_SERVICE_BOUNDS, type ServiceBounds } from "./bounds.ts";
export type { LocalRoom, OpenLocalRoom } from "./local-seat.ts";
export type { OutboundFrame } from "./room/frames.ts";
export { connectUrlOf, type RoomServer, type ServeRoomsOptions, serveRooms } from "./serve.ts";
export { createRoomService, type RoomService, RoomServiceError, type RoomServiceOptions } from "./service.ts";
export type { TokenKey } from "./tokens.ts";
