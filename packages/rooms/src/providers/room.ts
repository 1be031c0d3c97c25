/**
 * `room`: a room service that you run, built to the LeafMesh room protocol (docs/room-protocol.md): `leafmesh rooms
 * serve`, or one in any language that passes `leafmesh rooms conformance`.
 *
 * On the service's side: an API key for the mesh, and an address with TLS that both the mesh and the devices reach.
 *
 * Good to know:
 * - The service holds the task until the device is there, and the reply until the mesh has it: a short loss of either
 *   side costs nothing, and a mesh that was restarted fetches the reply (if the service issues mesh tokens).
 * - The service sees task inputs and answers; its API key never leaves the mesh.
 */
import { createHash } from "node:crypto";
import { type OpenRoomBody, secretString } from "@leafmesh/protocol";
import * as z from "zod";
import {
  type CheckResult,
  defineRoom,
  type OpenRoom,
  type ProviderDependencies,
  RoomError,
  type RoomProvider,
} from "../contract.ts";
import { serviceUrlIssue } from "../leafmesh-client/addresses.ts";
import { LOSS_SEEN_WITHIN_MS } from "../leafmesh-client/limits.ts";
import { recoverReply } from "../leafmesh-client/recover-reply.ts";
import { RemoteRoom } from "../leafmesh-client/remote-room.ts";
import { createRoomServiceClient, type RoomServiceClient } from "../leafmesh-client/service-client.ts";

/** What the protocol allows (seconds). */
const TTL_S = { min: 10, max: 900 } as const;
const JOIN_WITHIN_S = { min: 5, max: 300 } as const;

const options = z.strictObject({
  url: z
    .string()
    .max(512)
    .superRefine((url, context) => {
      const issue = serviceUrlIssue(url);
      if (issue) context.addIssue({ code: "custom", message: issue });
    })
    .meta({ description: "Address of your room service, such as https://rooms.example.com." }),
  api_key: secretString("The mesh's API key for the room service."),
});
type CustomRoomOptions = z.output<typeof options>;

export const customRoom = defineRoom({
  provider: "room",
  title: "Custom room",
  description: "A room service that you run, built to the LeafMesh room protocol.",
  options,
  traits: {
    credential: "one-use token",
    joinSignal: "peer frame",
    lossSeenWithinMs: LOSS_SEEN_WITHIN_MS,
    maxTaskBytes: undefined,
    setUp: [
      "Run a room service, `leafmesh rooms serve` or one that passes `leafmesh rooms conformance`, at an https address that the mesh and the devices reach.",
      "Give the mesh an API key of the service.",
    ],
    checkProves: "the service opens a room with the key, knows it again and closes it",
  },
  create: createRooms,
});

function createRooms(record: CustomRoomOptions, { clock, logger, newId }: ProviderDependencies): RoomProvider {
  const client = createRoomServiceClient({ url: record.url, apiKey: record.api_key });
  const rooms = new Set<RemoteRoom>();
  return {
    async open(request, signal) {
      const body = openingOf(request, record);
      const endsAtMs = clock.monotonicMs() + body.ttl_s * 1000;
      const opened = await client.open(body, newId("open"), signal);
      const onClosed = (closed: RemoteRoom): void => void rooms.delete(closed);
      const room = await RemoteRoom.join({ opened, endsAtMs, onClosed }, { client, clock, logger }, signal);
      rooms.add(room);
      return room;
    },
    check: (signal) => check(client, newId("check"), signal),
    recover: (label, askId, signal) => recoverReply(label, askId, { client, clock, logger }, signal),
    async close() {
      await Promise.all([...rooms].map((room) => room.close()));
      client.close();
    },
  };
}

function openingOf(request: OpenRoom, { api_key }: CustomRoomOptions): OpenRoomBody {
  // Tells devices apart in the service's log without naming them.
  const hash = createHash("sha256").update(`${api_key.reveal()}:${request.deviceId}`).digest("base64url");
  return {
    ttl_s: seconds(request.lifetimeMs, TTL_S),
    join_within_s: seconds(request.joinWithinMs, JOIN_WITHIN_S),
    approval: request.approval,
    purpose: "task",
    device: { ref: hash.slice(0, 22) },
  };
}

function seconds(ms: number, { min, max }: { readonly min: number; readonly max: number }): number {
  return Math.min(max, Math.max(min, Math.ceil(ms / 1000)));
}

/** Opens a room with the key and closes it again. */
async function check(client: RoomServiceClient, idempotencyKey: string, signal: AbortSignal): Promise<CheckResult> {
  const probe: OpenRoomBody = { ttl_s: TTL_S.min, join_within_s: JOIN_WITHIN_S.min, purpose: "probe" };
  try {
    const { room_id } = await client.open(probe, idempotencyKey, signal);
    const wasThere = await client.delete(room_id, signal);
    if (wasThere) return { status: "active" };
    return {
      status: "failing",
      reason: "The room service opened a room and did not know it when it was to be closed.",
    };
  } catch (error) {
    if (!(error instanceof RoomError)) throw error;
    const isVerdict = error.kind !== "unavailable" && error.kind !== "rate";
    return { status: isVerdict ? "failing" : "readable", reason: error.message };
  }
}
