/** Where a device asks the mesh to vouch for its connection to a provider of rooms. */
import { type RoomVoucher, roomCallbackSchema, roomVoucherSchema } from "@leafmesh/protocol";
import { readJson } from "../body.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { ApiError } from "../errors.ts";
import { defineRoute, type Route } from "../route.ts";
import { refusals } from "./shared.ts";

const MAX_CALLBACK_BYTES = 4 * 1024;
const NOT_KEPT = { "cache-control": "no-store" };

export function roomCallbackRoutes(api: Pick<ApiDependencies, "roomCallbacks">): readonly Route[] {
  return [
    defineRoute({
      method: "POST",
      path: "/room-callbacks/{id}",
      summary: "Vouch for a device's connection to the provider of its room",
      description:
        "The device brings the token of its ring as a bearer. Pusher lets it into the room's channel on the answer alone. With " +
        "`refuse` it says that the person did not allow the connection. Needs no API key. A page elsewhere needs its origin " +
        "in `server.cors_origins`.",
      tag: "devices",
      access: "own",
      documentedBody: roomCallbackSchema,
      maxBodyBytes: MAX_CALLBACK_BYTES,
      answers: {
        200: { description: "The signature, for this connection and channel.", schema: roomVoucherSchema },
        204: { description: "The refusal was noted." },
        401: { description: "The token is not the room's.", schema: refusals[404].schema },
        403: { description: "The channel is not the room's.", schema: refusals[404].schema },
        404: { description: "There is no such room, or not any more.", schema: refusals[404].schema },
        409: { description: "Another device is in the room.", schema: refusals[404].schema },
        410: { description: "The time to join is over.", schema: refusals[404].schema },
      },
      async handle({ params, incoming }) {
        const [, token] = /^Bearer (\S{1,256})$/i.exec(incoming.headers.authorization ?? "") ?? [];
        if (token === undefined) throw refused("bad_token");
        const body = await readJson(incoming, roomCallbackSchema, MAX_CALLBACK_BYTES);
        const answer = api.roomCallbacks.answer(params.id ?? "", token, body);
        if (answer?.status === "vouched") return { status: 200, headers: NOT_KEPT, body: answer.voucher };
        if (answer?.status === "noted") return { status: 204 };
        throw refused(answer?.status ?? "unknown");
      },
    }),
  ];
}

/** What became of a device's question. */
export type RoomCallbackAnswer =
  | { readonly status: "vouched"; readonly voucher: RoomVoucher }
  | { readonly status: "noted" }
  | { readonly status: Exclude<keyof typeof REFUSALS, "unknown"> };

const REFUSALS = {
  bad_token: [401, "bad_token", "This is not the room's token."],
  wrong_channel: [403, "wrong_channel", "This is not the room's channel."],
  unknown: [404, "no_such_room", "There is no such room, or not any more."],
  taken: [409, "room_taken", "Another device is in this room."],
  over: [410, "room_over", "The time to join this room is over."],
} as const satisfies Record<string, readonly [number, string, string]>;

function refused(why: keyof typeof REFUSALS): ApiError {
  const [status, code, message] = REFUSALS[why];
  return new ApiError(status, code, message, { headers: NOT_KEPT });
}
