/** Frames as the service handles them: checked where the service needs to, carried unchanged everywhere else. */
import {
  acceptedFrameSchema,
  ackFrameSchema,
  cancelFrameSchema,
  type HelloFrame,
  helloFrameSchema,
  isJsonDeeperThan,
  leaveFrameSchema,
  MAX_FRAME_DEPTH,
  type PeerFrame,
  pingFrameSchema,
  pongFrameSchema,
  progressFrameSchema,
  type RoomSeat,
  replyFrameSchema,
  type ServiceFrame,
  taskFrameSchema,
} from "@leafmesh/protocol";
import * as z from "zod";

/** Which seat may send which of the frames that the service relays. */
export const SENDER_OF = {
  task: "mesh",
  cancel: "mesh",
  accepted: "device",
  progress: "device",
  reply: "device",
} as const satisfies Record<string, RoomSeat>;
export type RelayedType = keyof typeof SENDER_OF;

/** What is relayed: its known fields are well-formed, its unknown ones are kept. */
export interface RelayedBody {
  readonly type: RelayedType;
  readonly id: string;
  readonly [field: string]: unknown;
}

/** With the sequence number, which is another one for the receiver than it was for the sender. */
export interface RelayedFrame extends RelayedBody {
  readonly seq: number;
}

export type PeerBody = Omit<PeerFrame, "seq">;
/** What has a sequence number on its way to a seat. */
export type QueuedBody = RelayedBody | PeerBody;

/** What the service sends: its own frames, and those it relays. */
export type OutboundFrame = ServiceFrame | RelayedFrame;

/** What a seat's client may send after `hello`. */
export type SeatFrame = RelayedFrame | z.infer<typeof ackFrameSchema> | z.infer<typeof leaveFrameSchema>;
export type ControlFrame = z.infer<typeof pingFrameSchema> | z.infer<typeof pongFrameSchema>;

/** One text message: a frame, an extension to be ignored, or the reason why it is no frame. */
export type ParsedFrame =
  | { readonly kind: "hello"; readonly frame: HelloFrame }
  | { readonly kind: "seat"; readonly frame: SeatFrame }
  | { readonly kind: "control"; readonly frame: ControlFrame }
  | { readonly kind: "extension" }
  | { readonly kind: "malformed"; readonly why: string };

// The service does not look into inputs and data; both ends check them against the full schema.
const relayed = {
  task: taskFrameSchema.extend({ inputs: z.record(z.string(), z.unknown()) }),
  cancel: cancelFrameSchema,
  accepted: acceptedFrameSchema,
  progress: progressFrameSchema,
  reply: replyFrameSchema.extend({ data: z.unknown().optional() }),
} satisfies Record<RelayedType, z.ZodType>;

const objectSchema = z.looseObject({ type: z.string() });

/** Reads one text message. Never throws. */
export function parseFrame(text: string): ParsedFrame {
  if (isJsonDeeperThan(text, MAX_FRAME_DEPTH)) return malformed(`is nested deeper than ${MAX_FRAME_DEPTH} levels`);
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return malformed("is not JSON");
  }
  const object = objectSchema.safeParse(json);
  if (!object.success) return malformed("is not an object with a type");
  const raw = object.data;
  if (raw.type.startsWith("x-")) return { kind: "extension" };
  if (isRelayedType(raw.type)) {
    const frame = relayed[raw.type].safeParse(raw);
    if (!frame.success) return malformed(firstIssue(raw.type, frame.error));
    return { kind: "seat", frame: { ...raw, type: raw.type, seq: frame.data.seq, id: frame.data.id } };
  }
  switch (raw.type) {
    case "hello":
      return read(helloFrameSchema, raw, (frame) => ({ kind: "hello", frame }));
    case "ack":
      return read(ackFrameSchema, raw, (frame) => ({ kind: "seat", frame }));
    case "leave":
      return read(leaveFrameSchema, raw, (frame) => ({ kind: "seat", frame }));
    case "ping":
      return read(pingFrameSchema, raw, (frame) => ({ kind: "control", frame }));
    case "pong":
      return read(pongFrameSchema, raw, (frame) => ({ kind: "control", frame }));
    default:
      return malformed("has a type that version 1 does not know");
  }
}

function isRelayedType(type: string): type is RelayedType {
  return Object.hasOwn(SENDER_OF, type);
}

function read<Frame>(
  schema: z.ZodType<Frame>,
  raw: { readonly type: string },
  wrap: (frame: Frame) => ParsedFrame,
): ParsedFrame {
  const frame = schema.safeParse(raw);
  return frame.success ? wrap(frame.data) : malformed(firstIssue(raw.type, frame.error));
}

function firstIssue(type: string, error: z.ZodError): string {
  const issue = error.issues[0];
  return `(${type}) ${issue ? `${issue.path.join(".")}: ${issue.message}` : "is not well-formed"}`;
}

function malformed(why: string): ParsedFrame {
  return { kind: "malformed", why };
}
