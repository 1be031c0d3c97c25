/**
 * `pubnub`: a room is a pair of channels of your keyset, `leafmesh.<random>.down` and `.up`, for one ask.
 *
 * On PubNub's side: in the Admin Portal, open the app's keyset and turn on Access Manager and Presence.
 * https://www.pubnub.com/docs/general/security/access-control
 *
 * Good to know:
 * - The secret key never leaves the mesh. A device gets a token for its two channels that no other client id can use. PubNub
 *   counts its life in whole minutes; a ring that comes late finds that the mesh has said that the room is closed.
 * - The clock of the mesh's machine must be right to a minute, or PubNub refuses its signatures.
 * - A device that loses its network is seen as gone after about 20 seconds, and may come back within 10 more.
 * - A taken message is not a receipt. When a device is lost with a task under way, the ask says that it may have happened.
 * - Messages are at most about 30 KB here, less than over most other rooms.
 */
import { FORBIDDEN_ADDRESS, operatorHostIssue } from "@leafmesh/guarded-fetch";
import * as z from "zod";
import { defineRoom, type RoomProvider } from "../contract.ts";
import { checkPubNub } from "./pubnub-check.ts";
import { PubNubLink } from "./pubnub-link.ts";
import { AWAY_GRACE_MS, MAX_TASK_BYTES, openPubNubRoom } from "./pubnub-room.ts";

const key = (prefix: string, title: string, secret: boolean) =>
  z
    .string()
    .regex(new RegExp(`^${prefix}-\\S+$`), `copy it from the keyset in the Admin Portal: it begins with ${prefix}-`)
    .meta({ title, description: `${title} of the keyset, from the Admin Portal.`, ...(secret ? { secret } : {}) });

const options = z.strictObject({
  publish_key: key("pub", "Publish key", false),
  subscribe_key: key("sub", "Subscribe key", false),
  secret_key: key("sec", "Secret key", true),
  origin: z
    .string()
    .regex(/^[A-Za-z0-9.-]{1,253}(:\d{1,5})?$/, "write a host name, or host:port, without https://")
    .refine((origin) => operatorHostIssue(origin.replace(/:\d+$/, "")) === undefined, FORBIDDEN_ADDRESS)
    .optional()
    .meta({ title: "Origin", description: "Only for a custom origin: its host name." }),
});
export type PubNubOptions = z.output<typeof options>;

export const pubnubRoom = defineRoom({
  provider: "pubnub",
  title: "PubNub",
  description: "Rooms on channels of your PubNub keyset. Access Manager and Presence must be on.",
  options,
  packages: ["pubnub"],
  traits: {
    credential: "token for two channels and one client id, whole minutes",
    joinSignal: "the device's own first message",
    lossSeenWithinMs: 25_000,
    maxTaskBytes: MAX_TASK_BYTES,
    setUp: [
      "In the PubNub Admin Portal, open the app's keyset and turn on Access Manager and Presence.",
      "Copy its publish, subscribe and secret key.",
    ],
    checkProves:
      "the keys belong together and may grant tokens, Access Manager keeps a token to its channels, and Presence answers",
  },
  create(keys, { clock, logger, newId, scope }): RoomProvider {
    const link = (): PubNubLink => scope.share("pubnub", () => new PubNubLink({ keys, logger }));
    return {
      open: (request, signal) =>
        openPubNubRoom({ ...request, keys, graceMs: AWAY_GRACE_MS }, { link: link(), clock, newId }, signal),
      check: (signal) => checkPubNub(keys, newId, signal),
      // The connection is the record's: it is closed with its scope.
      close: async () => {},
    };
  },
});
