/**
 * `livekit`: a room is a LiveKit room of your project or server, for one ask; nothing but data travels in it.
 *
 * On LiveKit's side: in your project → Settings → Keys, copy the URL, the key and the secret. On a server of your own turn
 * `room.auto_create` off, so that a ring that comes late finds no room. https://docs.livekit.io/home/get-started/authentication/
 *
 * The mesh takes part itself: `npm install livekit-server-sdk @livekit/rtc-node` beside `leafmesh`.
 *
 * Good to know:
 * - The secret never leaves the mesh. A device gets a token that joins this room, sends data and does nothing else. LiveKit
 *   looks at its end only on joining: so it is as short as the wait for the device, and the room is deleted after the ask.
 * - Who sent a message is LiveKit's word: the identity in the token.
 * - A device that loses its network is seen as gone after 15 to 20 seconds, and may come back within 10 more.
 * - A message is at most about 15 KB, and a sent one is no receipt. When a device is lost with a task under way, the ask
 *   says that it may have happened.
 */
import * as z from "zod";
import { defineRoom, type RoomProvider } from "../contract.ts";
import { checkLiveKit, LiveKitControl } from "./livekit-control.ts";
import { AWAY_GRACE_MS, MAX_TASK_BYTES, openLiveKitRoom } from "./livekit-room.ts";

const options = z.strictObject({
  url: z
    .string()
    .regex(/^(wss|https):\/\/|^(ws|http):\/\/(localhost|127\.)/, "write the address as LiveKit shows it: wss://…")
    .meta({ title: "Server URL", description: "wss://<project>.livekit.cloud, or your own server." }),
  api_key: z.string().min(1).meta({ title: "API key", description: "From your project → Settings → Keys." }),
  api_secret: z
    .string()
    .min(1)
    .meta({ title: "API secret", description: "From your project → Settings → Keys.", secret: true }),
});
export type LiveKitOptions = z.output<typeof options>;

export const livekitRoom = defineRoom({
  provider: "livekit",
  title: "LiveKit",
  description: "Rooms of your LiveKit project or server. The mesh takes part through @livekit/rtc-node.",
  options,
  packages: ["livekit-server-sdk", "@livekit/rtc-node"],
  traits: {
    credential: "JWT for one room, for the time of joining",
    joinSignal: "the device's own first message",
    lossSeenWithinMs: 20_000,
    maxTaskBytes: MAX_TASK_BYTES,
    setUp: [
      "In your LiveKit project → Settings → Keys, copy the URL, key and secret.",
      "On a server of your own, turn `room.auto_create` off.",
      "Install the mesh's own seat: `npm install livekit-server-sdk @livekit/rtc-node`.",
    ],
    checkProves: "the key may make rooms and delete them",
  },
  create(record, { clock, logger, newId }): RoomProvider {
    const control = new LiveKitControl(record);
    return {
      open: (request, signal) =>
        openLiveKitRoom({ ...request, graceMs: AWAY_GRACE_MS }, { control, clock, logger, newId }, signal),
      check: (signal) => checkLiveKit(control, newId, signal),
      close: async () => {},
    };
  },
});
