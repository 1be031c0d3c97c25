/**
 * `pusher`: a room is one presence channel of your Pusher Channels app, `presence-cache-leafmesh-<random>`, for one ask.
 *
 * On Pusher's side: in App Settings, turn on Enable client events: devices answer with them. Copy app id, key, secret and
 * cluster from App Keys. https://pusher.com/docs/channels/using_channels/events/#triggering-client-events
 *
 * On the mesh's side: `server.public_url`, an https address that devices reach. Pusher has no token that could be given out
 * in advance: for each connection of a device the mesh is asked to sign. A page in a browser needs its origin in
 * `server.cors_origins` for that.
 *
 * Good to know:
 * - The secret never leaves the mesh. A ring holds a token of the mesh's own for one room; what the mesh signs for it is of
 *   use on that one connection and channel. The first device in the room is the only one that is signed for from then on.
 * - The clock of the mesh's machine must be right to ten minutes, or Pusher refuses its signatures.
 * - Pusher looks after a minute of silence: a device that loses its network is seen as gone after up to 75 seconds, and may
 *   come back within 10 more. What it missed meanwhile, Pusher keeps for it.
 * - A taken message is not a receipt. When a device is lost with a task under way, the ask says that it may have happened.
 * - Messages are at most 10 KB, which is less than over any other room, and a device may send ten in a second.
 * - A server of your own that speaks Pusher's protocol (such as soketi) is written as `host:port` in `cluster`.
 */
import { FORBIDDEN_ADDRESS, operatorHostIssue, operatorUrlIssue } from "@leafmesh/guarded-fetch";
import { secretString } from "@leafmesh/protocol";
import * as z from "zod";
import { defineRoom, type OptionIssue, type RoomProvider } from "../contract.ts";
import { checkPusher } from "./pusher-check.ts";
import { PusherLink } from "./pusher-link.ts";
import { parsePusherPlace } from "./pusher-place.ts";
import { AWAY_GRACE_MS, MAX_TASK_BYTES, openPusherRoom } from "./pusher-room.ts";

const options = z.strictObject({
  app_id: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,64}$/, "copy the app id from App Keys: it is a number such as 1234567")
    .meta({ title: "App ID", description: "From your app → App Keys." }),
  key: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,64}$/, "copy the key from App Keys")
    .meta({ title: "Key", description: "From your app → App Keys. Devices are told it." }),
  secret: secretString("From your app → App Keys.").meta({ title: "Secret" }),
  cluster: z
    .string()
    .refine((text) => parsePusherPlace(text) !== undefined, "write the cluster from App Keys, such as eu or mt1")
    .refine((text) => operatorHostIssue(parsePusherPlace(text)?.host ?? "") === undefined, FORBIDDEN_ADDRESS)
    .meta({
      title: "Cluster",
      description: "From your app → App Keys, such as eu; for a server of your own, its host:port.",
    }),
});
export type PusherOptions = z.output<typeof options>;

export const pusherRoom = defineRoom({
  provider: "pusher",
  title: "Pusher Channels",
  description:
    "Rooms on channels of your Pusher app. Client events must be on, and the mesh needs a public https address.",
  options,
  packages: ["pusher-js"],
  traits: {
    credential: "one-room token, for which the mesh signs each connection",
    joinSignal: "the device's own first message",
    lossSeenWithinMs: 75_000,
    maxTaskBytes: MAX_TASK_BYTES,
    setUp: [
      "In your Pusher app → App Settings, turn on Enable client events.",
      "Copy app id, key, secret and cluster from App Keys.",
      "Give the mesh a public https address, `server.public_url`: each device asks it to sign for its connection.",
      "Install the mesh's own seat: `npm install pusher-js`.",
    ],
    checkProves: "the secret belongs to the app and its key, the cluster is right, and client events are on",
  },
  validate: (_options, { publicUrl }) => publicUrlIssues(publicUrl),
  create(record, { clock, logger, newId, scope, callbacks }): RoomProvider {
    const link = (): PusherLink => scope.share("pusher", () => new PusherLink({ record, clock, logger }));
    return {
      open: (request, signal) =>
        openPusherRoom(
          { ...request, record, graceMs: AWAY_GRACE_MS },
          { link: link(), clock, newId, callbacks },
          signal,
        ),
      check: (signal) => checkPusher(record, { clock, newId }, signal),
      // The connection is the record's: it is closed with its scope.
      close: async () => {},
    };
  },
});

function publicUrlIssues(publicUrl: string | undefined): readonly OptionIssue[] {
  const why = "with Pusher each device asks the mesh to sign for its connection";
  if (publicUrl === undefined) {
    const message = `needs server.public_url, the https address at which devices reach the mesh: ${why}`;
    return [{ path: [], message }];
  }
  const issue = operatorUrlIssue(publicUrl, { secure: "https:", example: "https://mesh.example.com" });
  return issue === undefined ? [] : [{ path: [], message: `needs an https server.public_url, which ${issue}: ${why}` }];
}
