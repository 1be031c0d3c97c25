/**
 * `ably`: a room is one channel of your Ably app, `leafmesh:<random>`, for one ask.
 *
 * On Ably's side: in your app → API Keys, a key that may publish, subscribe and use presence on `leafmesh:*` (the root key
 * can). Paste the whole key, `appId.keyId:secret`. https://ably.com/docs/auth/capabilities
 *
 * Good to know:
 * - The key never leaves the mesh. A device gets a token for its one channel, signed here, that ends when the ask must
 *   have ended. Ably cannot take a token back unless revocation is switched on for the key, so a ring that comes late
 *   finds a channel on which the mesh has said that it is closed.
 * - Who sent a message is Ably's word: the token names the device's client id and Ably lets it use no other.
 * - A device that loses its network is seen as gone after 5 to 45 seconds, and may come back within 10 more.
 * - An accepted message is not a receipt. When a device is lost with a task under way, the ask says that it may have happened.
 * - A connection to Ably holds 200 channels; the mesh opens another connection for every 180 rooms.
 */
import { FORBIDDEN_ADDRESS, operatorHostIssue } from "@leafmesh/guarded-fetch";
import { MAX_ENVELOPE_BYTES } from "@leafmesh/protocol";
import * as z from "zod";
import { defineRoom, type RoomProvider } from "../contract.ts";
import { checkAbly } from "./ably-check.ts";
import { type AblyEndpoint, AblyLinks, parseEndpoint } from "./ably-link.ts";
import { AWAY_GRACE_MS, openAblyRoom } from "./ably-room.ts";
import { parseAblyKey } from "./ably-token.ts";

/** Ably counts the message's name, its sender and its headers as well. https://ably.com/docs/platform/pricing/limits */
const MESSAGE_OVERHEAD_BYTES = 1_024;

const options = z.strictObject({
  api_key: z
    .string()
    .refine((key) => parseAblyKey(key) !== undefined, "paste the whole key as Ably shows it: appId.keyId:secret")
    .meta({ title: "API key", description: "The whole key from your Ably app → API Keys.", secret: true }),
  endpoint: z
    .string()
    .refine((endpoint) => parseEndpoint(endpoint) !== undefined, "write a host name, or host:port, without https://")
    .refine((endpoint) => operatorHostIssue(parseEndpoint(endpoint)?.host ?? "") === undefined, FORBIDDEN_ADDRESS)
    .optional()
    .meta({ title: "Endpoint host", description: "Only for a custom endpoint: its host name, or host:port." }),
});

export const ablyRoom = defineRoom({
  provider: "ably",
  title: "Ably",
  description:
    "Rooms on channels of your Ably app. The key must be able to publish, subscribe and use presence on leafmesh:* channels.",
  options,
  packages: ["ably"],
  traits: {
    credential: "JWT for one channel, for the time of the ask",
    joinSignal: "presence enter",
    lossSeenWithinMs: 45_000,
    maxTaskBytes: MAX_ENVELOPE_BYTES - MESSAGE_OVERHEAD_BYTES,
    setUp: [
      "In your Ably app → API Keys, make or choose a key that may publish, subscribe and use presence on `leafmesh:*`.",
      "Paste the whole key.",
    ],
    checkProves: "the key is known and may publish, subscribe and use presence on `leafmesh:*`",
  },
  create({ api_key, endpoint }, { clock, logger, newId, scope }): RoomProvider {
    const key = parseAblyKey(api_key);
    if (!key) throw new TypeError("an Ably key that its schema refuses");
    const place: AblyEndpoint | undefined = endpoint === undefined ? undefined : parseEndpoint(endpoint);
    const links = (): AblyLinks => scope.share("ably", () => new AblyLinks({ key, place, clock, logger }));
    return {
      open: (request, signal) =>
        openAblyRoom(
          {
            ...request,
            key,
            endpoint,
            graceMs: AWAY_GRACE_MS,
            maxTaskBytes: MAX_ENVELOPE_BYTES - MESSAGE_OVERHEAD_BYTES,
          },
          { links: links(), clock, newId },
          signal,
        ),
      check: (signal) => checkAbly({ key, place, clock }, signal),
      // The connections are the record's: they are closed with its scope.
      close: async () => {},
    };
  },
});
