/** What the events of a room mean for an ask. */
import type { DeviceEnvelope, ReplyEnvelope } from "@leafmesh/protocol";
import type { RoomEvent } from "@leafmesh/rooms/contract";
import type { AskEvent } from "./ask-state.ts";
import { isWithinDepth, MAX_REPLY_CHARACTERS, MAX_REPLY_DEPTH } from "./outside-data.ts";

/** `undefined` for what the ask does not care about: strays, and envelopes of another ask. */
export function toAskEvent(event: RoomEvent, askId: string): AskEvent | undefined {
  switch (event.type) {
    case "joined":
      return { type: "joined", capabilities: event.capabilities };
    case "refused":
      return { type: "connection_refused" };
    case "away":
      return { type: "away", graceMs: event.graceMs };
    case "back":
      return { type: "back" };
    case "left":
      return { type: "left", delivered: event.delivered };
    case "frame":
      return envelopeEvent(event.envelope, askId);
    case "dropped":
      return event.tooLarge ? { type: "oversized" } : undefined;
    case "closed":
      return { type: "room_closed", kind: event.error.kind, delivered: event.delivered };
    default:
      return event satisfies never;
  }
}

/** The ask's own envelopes. Whose they are was decided by the room; that they are of this ask is decided here. */
export function envelopeEvent(envelope: DeviceEnvelope, askId: string): AskEvent | undefined {
  if (envelope.type === "refused") return { type: "connection_refused" };
  if (envelope.id !== askId) return undefined;
  switch (envelope.type) {
    case "accepted":
      return { type: "accepted" };
    case "progress":
      return { type: "progress", note: envelope.note, pct: envelope.pct };
    case "reply":
      return { type: "reply", reply: envelope, fits: fits(envelope) };
    default:
      return envelope satisfies never;
  }
}

function fits({ data }: ReplyEnvelope): boolean {
  if (data === undefined) return true;
  return isWithinDepth(data, MAX_REPLY_DEPTH) && JSON.stringify(data).length <= MAX_REPLY_CHARACTERS;
}
