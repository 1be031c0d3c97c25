/** Every room provider that needs nothing of this process. A new one is a file in `providers/` and a line here. */
import type { RoomDefinition } from "./contract.ts";
import { ablyRoom } from "./providers/ably.ts";
import { livekitRoom } from "./providers/livekit.ts";
import { mqttRoom } from "./providers/mqtt.ts";
import { pubnubRoom } from "./providers/pubnub.ts";
import { customRoom } from "./providers/room.ts";

/** In the order in which they are shown. */
export const vendorRooms: readonly RoomDefinition[] = [customRoom, mqttRoom, ablyRoom, pubnubRoom, livekitRoom];
