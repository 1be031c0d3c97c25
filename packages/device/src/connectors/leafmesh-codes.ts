/** What the close codes of the room protocol mean to a device. */
import { ROOM_CLOSE } from "@leafmesh/protocol";
import type { JoinErrorKind, RoomEnd } from "../connector.ts";

/** The service closed the socket instead of saying `welcome` to a first hello. */
export function joinFault(code: number): JoinErrorKind {
  switch (code) {
    case ROOM_CLOSE.finished:
    case ROOM_CLOSE.closed:
    case ROOM_CLOSE.expired:
    case ROOM_CLOSE.tokenRefused:
    case ROOM_CLOSE.noSuchRoom:
      return "over";
    case ROOM_CLOSE.seatTaken:
    case ROOM_CLOSE.replaced:
      return "seat_taken";
    default:
      return "unsupported";
  }
}

/** The service closed the socket of a seat, or refused to give it back. */
export function roomEnd(code: number): RoomEnd {
  switch (code) {
    case ROOM_CLOSE.finished:
    case ROOM_CLOSE.closed:
      return "closed";
    case ROOM_CLOSE.replaced:
      return "replaced";
    case ROOM_CLOSE.expired:
      return "expired";
    case ROOM_CLOSE.noSuchRoom:
      return "lost";
    case ROOM_CLOSE.tokenRefused:
    case ROOM_CLOSE.seatTaken:
      return "refused";
    default:
      return "protocol";
  }
}
