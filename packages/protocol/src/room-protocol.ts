/**
 * LeafMesh room protocol, version 1: HTTP opens, inspects and closes a room; a WebSocket carries the task.
 * The prose is `docs/room-protocol.md`. Unknown JSON fields are ignored, unknown frame types are an error except
 * those that start with `x-`.
 */
import * as z from "zod";
import { capabilitySchema, MAX_CAPABILITIES } from "./devices.ts";
import {
  acceptedEnvelopeSchema,
  cancelEnvelopeSchema,
  progressEnvelopeSchema,
  replyEnvelopeSchema,
  taskEnvelopeSchema,
} from "./envelopes.ts";
import { approvalSchema } from "./ring.ts";

export const ROOM_PROTOCOL_VERSION = 1;
export const ROOM_SUBPROTOCOL = "leafmesh.room.v1";
/** On every HTTP request and response; an unknown version is answered 400 `unsupported_version`. */
export const ROOM_VERSION_HEADER = "leafmesh-room-version";

export const roomSeatSchema = z.enum(["mesh", "device"]);
export type RoomSeat = z.infer<typeof roomSeatSchema>;

export const roomLimitsSchema = z.object({
  /** Largest frame in bytes. */
  frame: z.int().positive(),
  /** Largest `inputs` of a task, in bytes of JSON. */
  inputs: z.int().positive(),
  /** The service pings after this much silence and declares the socket dead `dead_s` later. */
  idle_s: z.number().positive(),
  dead_s: z.number().positive(),
  /** How long a seat stays resumable after its socket is gone. */
  grace_s: z.number().positive(),
  /** Frames per second, and how many may come at once. */
  rate: z.number().positive(),
  burst: z.int().positive(),
  /** Frames and bytes held per direction for a peer that is away. */
  buffer_frames: z.int().positive(),
  buffer_bytes: z.int().positive(),
});
export type RoomLimits = z.infer<typeof roomLimitsSchema>;

export const DEFAULT_ROOM_LIMITS: RoomLimits = {
  frame: 64 * 1024,
  inputs: 32 * 1024,
  idle_s: 15,
  dead_s: 10,
  grace_s: 15,
  rate: 20,
  burst: 40,
  buffer_frames: 64,
  buffer_bytes: 256 * 1024,
};

// ── HTTP ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** `POST /v1/rooms` */
export const openRoomBodySchema = z.object({
  ttl_s: z.int().min(10).max(900).default(120),
  join_within_s: z.int().min(5).max(300).default(60),
  approval: approvalSchema.optional(),
  purpose: z.enum(["task", "probe"]).default("task"),
  /** An opaque hash that lets the service's log tell devices apart; never a push token. */
  device: z.object({ ref: z.string().min(1).max(128) }).optional(),
});
export type OpenRoomBody = z.infer<typeof openRoomBodySchema>;

/** 201 of `POST /v1/rooms`. Times are seconds since the epoch. */
export const openedRoomSchema = z.object({
  room_id: z.string().min(1).max(200),
  expires_at: z.number(),
  connect_url: z.string().min(1).max(512),
  mesh_token: z.string().min(1).max(512),
  device_token: z.string().min(1).max(512),
  device_token_expires_at: z.number(),
  limits: roomLimitsSchema.partial().optional(),
});
export type OpenedRoom = z.infer<typeof openedRoomSchema>;

/** 201 of `POST /v1/rooms/{id}/device-token`; the previous unused token is dead by then. */
export const deviceTokenSchema = z.object({
  device_token: z.string().min(1).max(512),
  device_token_expires_at: z.number(),
});
export type DeviceToken = z.infer<typeof deviceTokenSchema>;

/**
 * 201 of `POST /v1/rooms/{id}/mesh-token`, which a service may leave out (404): a mesh that lost its resume key takes
 * its seat again. The old mesh token and whoever sits in the seat are void by then.
 */
export const meshTokenSchema = z.object({
  /** A mesh that lost everything lost this as well. */
  connect_url: z.string().min(1).max(512),
  mesh_token: z.string().min(1).max(512),
  mesh_token_expires_at: z.number(),
});
export type MeshToken = z.infer<typeof meshTokenSchema>;

/** 200 of `GET /v1/rooms/{id}`: lets a mesh that lost its socket find out what happened. */
export const roomStatusSchema = z.object({
  state: z.enum(["open", "joined", "away", "closed"]),
  device: z.object({
    joined_at: z.number().optional(),
    left_at: z.number().optional(),
    reason: z.string().optional(),
    /** Joins that were tried with a token already used: more than 0 means that somebody else holds the ring. */
    refused_joins: z.int().optional(),
  }),
  task: z.object({ handed: z.boolean(), acked: z.boolean(), replied: z.boolean() }),
});
export type RoomStatus = z.infer<typeof roomStatusSchema>;

export const ROOM_ERROR_CODES = [
  "invalid_request",
  "unsupported_version",
  "unauthorized",
  "forbidden",
  "plan_limit",
  "room_not_found",
  "room_closed",
  "conflict",
  "too_large",
  "rate_limited",
  "unavailable",
] as const;
export type RoomErrorCode = (typeof ROOM_ERROR_CODES)[number];

/** Body of every HTTP error. `code` is open: a service may have codes of its own. */
export const roomErrorSchema = z.object({
  error: z.object({
    code: z.string(),
    message: z.string(),
    temporary: z.boolean(),
    retry_after_s: z.number().optional(),
  }),
});
export type RoomErrorBody = z.infer<typeof roomErrorSchema>;

// ── WebSocket ───────────────────────────────────────────────────────────────────────────────────────────────────

/** Arrays and objects in a frame nest no deeper than this; a deeper frame is malformed. */
export const MAX_FRAME_DEPTH = 64;

const seq = z.int().positive();

/** Unknown fields inside a capability are ignored, as everywhere in a frame. */
const announcedCapabilities = z.array(z.object(capabilitySchema.shape)).max(MAX_CAPABILITIES).optional();

/** First frame from a client, within 5 s. `resume.recv` is the last sequence number the client has seen. */
export const helloFrameSchema = z.object({
  type: z.literal("hello"),
  v: z.int(),
  token: z.string().max(512).optional(),
  client: z.object({ name: z.string().max(80), version: z.string().max(40) }).optional(),
  resume: z.object({ key: z.string().max(512), recv: z.int().nonnegative() }).optional(),
  /** Device seat only: what it can do. Relayed to the mesh in `peer`. */
  capabilities: announcedCapabilities,
  /** Device seat only: the person did not allow the connection. Uses up the token, takes no seat, gets no task. */
  refuse: z.literal("not_allowed").optional(),
});
export type HelloFrame = z.infer<typeof helloFrameSchema>;

export const peerStateSchema = z.enum(["joined", "away", "back", "left", "refused"]);
export type PeerState = z.infer<typeof peerStateSchema>;

export const welcomeFrameSchema = z.object({
  type: z.literal("welcome"),
  v: z.int(),
  room: z.string(),
  seat: roomSeatSchema,
  /** Rotates on each welcome and lives for `limits.grace_s` after a drop. */
  resume_key: z.string(),
  /** The last sequence number of this client that the service stored; the client resends what lies above. */
  recv: z.int().nonnegative(),
  /** Where the other seat stands; `absent` before its first join. */
  peer: z.enum(["absent", "joined", "away", "left"]),
  expires_at: z.number(),
  limits: roomLimitsSchema.partial(),
});
export type WelcomeFrame = z.infer<typeof welcomeFrameSchema>;

export const peerFrameSchema = z.object({
  type: z.literal("peer"),
  seq,
  state: peerStateSchema,
  reason: z.string().max(80).optional(),
  /** With `left`: how far the service got in handing frames to the peer, and what the peer acknowledged. */
  handed_seq: z.int().nonnegative().optional(),
  acked_seq: z.int().nonnegative().optional(),
  capabilities: announcedCapabilities,
});
export type PeerFrame = z.infer<typeof peerFrameSchema>;

/** The relayed frames are the envelopes with a sequence number of their direction. */
export const taskFrameSchema = taskEnvelopeSchema.extend({ seq });
export const acceptedFrameSchema = acceptedEnvelopeSchema.extend({ seq });
export const progressFrameSchema = progressEnvelopeSchema.extend({ seq });
export const replyFrameSchema = replyEnvelopeSchema.extend({ seq });
export const cancelFrameSchema = cancelEnvelopeSchema.extend({ seq });

export const ackFrameSchema = z.object({ type: z.literal("ack"), seq: z.int().nonnegative() });
export const leaveFrameSchema = z.object({ type: z.literal("leave"), reason: z.string().max(200).optional() });
export const pingFrameSchema = z.object({ type: z.literal("ping"), n: z.number().optional() });
export const pongFrameSchema = z.object({ type: z.literal("pong"), n: z.number().optional() });
export const errorFrameSchema = z.object({
  type: z.literal("error"),
  code: z.string(),
  message: z.string(),
  temporary: z.boolean(),
  ref_seq: z.int().optional(),
});
export const closingReasonSchema = z.enum(["closed", "expired", "replaced", "shutdown"]);
export const closingFrameSchema = z.object({ type: z.literal("closing"), reason: closingReasonSchema });

/** What a client may send to the service. */
export const clientFrameSchema = z.discriminatedUnion("type", [
  helloFrameSchema,
  taskFrameSchema,
  acceptedFrameSchema,
  progressFrameSchema,
  replyFrameSchema,
  cancelFrameSchema,
  ackFrameSchema,
  leaveFrameSchema,
  pingFrameSchema,
  pongFrameSchema,
]);
export type ClientFrame = z.infer<typeof clientFrameSchema>;

/** What the service may send to a client. */
export const serviceFrameSchema = z.discriminatedUnion("type", [
  welcomeFrameSchema,
  peerFrameSchema,
  taskFrameSchema,
  acceptedFrameSchema,
  progressFrameSchema,
  replyFrameSchema,
  cancelFrameSchema,
  ackFrameSchema,
  pingFrameSchema,
  pongFrameSchema,
  errorFrameSchema,
  closingFrameSchema,
]);
export type ServiceFrame = z.infer<typeof serviceFrameSchema>;

/**
 * WebSocket close codes. 4000–4099: this seat is over. 4400–4499: do not come back. 4500–4599, 1001, 1011–1013: come
 * back with resume after a back-off. 1009: frame too large.
 */
export const ROOM_CLOSE = {
  finished: 1000,
  goingAway: 1001,
  frameTooLarge: 1009,
  closed: 4000,
  replaced: 4001,
  expired: 4010,
  badFrame: 4400,
  tokenRefused: 4401,
  wrongSeat: 4403,
  noSuchRoom: 4404,
  noHello: 4408,
  seatTaken: 4409,
  unsupportedVersion: 4426,
  internal: 4500,
  shuttingDown: 4503,
  tooSlow: 4513,
  rate: 4529,
} as const;
export type RoomCloseCode = (typeof ROOM_CLOSE)[keyof typeof ROOM_CLOSE];

/** Whether a client that was closed with `code` should reconnect and resume. */
export function mayResumeAfter(code: number): boolean {
  if (code >= 4500 && code <= 4599) return true;
  return code === 1001 || code === 1005 || code === 1006 || (code >= 1011 && code <= 1013);
}
