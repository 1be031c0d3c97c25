/** Routes of the mesh for the devices of one room each. In memory, like the rooms: they end with the process. */
import type { NewId, RoomCallback } from "@leafmesh/protocol";
import type { CallbackAnswer, RoomCallbacks } from "../contract.ts";

export interface RoomCallbackHub extends RoomCallbacks {
  /** `undefined`: no such room in this process, or not any more. */
  answer(id: string, token: string | undefined, callback: RoomCallback): CallbackAnswer | undefined;
}

export interface RoomCallbackHubOptions {
  readonly newId: NewId;
  /** Where devices reach this process, without a trailing slash; `undefined` where they do not. */
  address(): string | undefined;
}

/** Below it are the rooms' ids. */
export const ROOM_CALLBACK_PATH = "/room-callbacks";

export function createRoomCallbackHub({ newId, address }: RoomCallbackHubOptions): RoomCallbackHub {
  const rooms = new Map<string, Parameters<RoomCallbacks["serve"]>[0]>();
  return {
    serve(answer) {
      const base = address();
      if (base === undefined) return undefined;
      const id = newId("rcb");
      rooms.set(id, answer);
      return { url: `${base}${ROOM_CALLBACK_PATH}/${id}`, close: () => void rooms.delete(id) };
    },
    answer: (id, token, callback) => rooms.get(id)?.({ token, callback }),
  };
}
