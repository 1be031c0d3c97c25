/**
 * Every room provider that needs nothing of this process, by its name. Each is loaded when a mesh names it: a start does
 * not pay for the others. A new one is a file in `providers/` and a line here.
 */
import type { RoomDefinition } from "./contract.ts";

/** In the order in which they are shown. */
export const vendorRooms: Readonly<Record<string, () => Promise<RoomDefinition>>> = {
  room: async () => (await import("./providers/room.ts")).customRoom,
  mqtt: async () => (await import("./providers/mqtt.ts")).mqttRoom,
  ably: async () => (await import("./providers/ably.ts")).ablyRoom,
  pubnub: async () => (await import("./providers/pubnub.ts")).pubnubRoom,
  pusher: async () => (await import("./providers/pusher.ts")).pusherRoom,
  livekit: async () => (await import("./providers/livekit.ts")).livekitRoom,
};
