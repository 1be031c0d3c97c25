export {
  createRoomCallbackHub,
  ROOM_CALLBACK_PATH,
  type RoomCallbackHub,
} from "./callbacks/room-callback-hub.ts";
export { ablyRoom } from "./providers/ably.ts";
export {
  type LocalRoomHandle,
  type LocalRoomRequest,
  type LocalRoomService,
  leafmeshRooms,
} from "./providers/leafmesh.ts";
export { livekitRoom } from "./providers/livekit.ts";
export { mqttRoom } from "./providers/mqtt.ts";
export { pubnubRoom } from "./providers/pubnub.ts";
export { pusherRoom } from "./providers/pusher.ts";
export { customRoom } from "./providers/room.ts";
export { vendorRooms } from "./vendor-rooms.ts";
